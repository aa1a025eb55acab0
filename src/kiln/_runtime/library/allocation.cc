// What only WebAssembly modules have, besides the functions of their users: memory for the arrays of
// callers, who have no allocator, and what runs before the first call.
#include <cstdint>
#include <cstdlib>

// The linker writes it: constructors of static objects.
extern "C" void __wasm_call_ctors();

// The name is a convention of modules that are not commands: a linker would let each exported
// function of a command call the constructors.
extern "C" [[clang::export_name("_initialize")]] void _initialize() { __wasm_call_ctors(); }

namespace kiln {

// Returns memory that is aligned for vectors; null if there is not enough.
extern "C" void* kiln_library_allocate(int64_t bytes) {
  constexpr int64_t kLine = 64;
  if (bytes < 0 || bytes > PTRDIFF_MAX - kLine) return nullptr;
  return std::aligned_alloc(kLine, static_cast<size_t>((bytes + kLine) / kLine * kLine));
}

extern "C" void kiln_library_free(void* memory) { std::free(memory); }

}  // namespace kiln
