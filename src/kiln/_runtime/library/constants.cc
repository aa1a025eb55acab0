// Constants of exported libraries that are mapped from a file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "library/context.h"

namespace kiln {

// What the file begins with: `engines/native/library/constants.py` writes it.
constexpr size_t kHeader = 64;

// Maps the file, which must begin with `header` and have `bytes` bytes. Pages are read when they are
// used, and shared by all processes.
extern "C" int32_t kiln_library_map_constants(Context* context, const char* path,
                                              const char* header, int64_t bytes) {
  if (context == nullptr) return kNoContext;
  if (context->constants != nullptr) return kDone;
  if (path == nullptr) return kNoConstants;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return kNoConstants;
  const size_t size = static_cast<size_t>(bytes);
  struct stat found;
  void* memory = MAP_FAILED;
  if (fstat(file, &found) == 0 && found.st_size == bytes) {
    memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  }
  close(file);
  if (memory == MAP_FAILED) return kNoConstants;
  if (std::memcmp(memory, header, kHeader) != 0) {
    munmap(memory, size);
    return kNoConstants;
  }
  context->constants = static_cast<const char*>(memory);
  context->constant_bytes = size;
  return kDone;
}

}  // namespace kiln
