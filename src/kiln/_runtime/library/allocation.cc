// Memory for the arrays of callers that have no allocator of their own: JavaScript calls WebAssembly
// modules.
#include <cstdint>
#include <cstdlib>

namespace kiln {

// Returns memory that is aligned for vectors; null if there is not enough.
extern "C" void* kiln_library_allocate(int64_t bytes) {
  constexpr int64_t kLine = 64;
  if (bytes < 0 || bytes > PTRDIFF_MAX - kLine) return nullptr;
  return std::aligned_alloc(kLine, static_cast<size_t>((bytes + kLine) / kLine * kLine));
}

extern "C" void kiln_library_free(void* memory) { std::free(memory); }

}  // namespace kiln
