#include "library/context.h"

#ifndef __wasm__
#include <sys/mman.h>
#endif

#include <cstdint>
#include <cstdlib>

namespace kiln {

// Returns a context for calls that need at most this many bytes of workspace; null if memory runs
// out.
extern "C" Context* kiln_library_create(int64_t workspace_bytes) {
  constexpr int64_t kLine = 64;
  if (workspace_bytes < 0 || workspace_bytes > PTRDIFF_MAX - 2 * kLine) return nullptr;
  Context* made = static_cast<Context*>(std::calloc(1, sizeof(Context)));
  if (made == nullptr) return nullptr;
  const int64_t rounded = (workspace_bytes + kLine) / kLine * kLine;
  made->call.workspace =
      static_cast<char*>(std::aligned_alloc(kLine, static_cast<size_t>(rounded)));
  if (made->call.workspace == nullptr) {
    std::free(made);
    return nullptr;
  }
  made->call.fault = made->call.found = &made->fault;
  made->workspace_bytes = workspace_bytes;
  return made;
}

extern "C" void kiln_library_destroy(Context* context) {
  if (context == nullptr) return;
  release_threads(context);
#ifndef __wasm__  // has no files to map
  if (context->constants != nullptr) {
    munmap(const_cast<char*>(context->constants), context->constant_bytes);
  }
#endif
  for (char* block : context->scratch.memory) std::free(block);
  std::free(context->call.workspace);
  std::free(context);
}

// An address within the text of all statuses: an array of pointers would need relocations.
extern "C" const char* kiln_library_error(int32_t status) {
  switch (status) {
    case kDone: return "no error";
    case kOutOfMemory: return "out of memory";
    case 2: return "a routine of the runtime does not support these operands";
    case kNoContext: return "the context is a null pointer";
    case kBadSize: return "a size is less than its least value, or too large";
    case kSmallWorkspace: return "the context was created with a smaller workspace than needed";
    case kNullPointer: return "an argument is a null pointer";
    case kMisaligned: return "a pointer is not aligned to the size of its elements";
    case kOverlap: return "a result overlaps an argument or another result";
    case kNoConstants: return "the file of constants is not mapped, or belongs to another library";
    default: return "unknown error";
  }
}

}  // namespace kiln
