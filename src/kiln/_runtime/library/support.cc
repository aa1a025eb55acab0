// What C++ code calls without being written so: exported libraries are linked without the standard
// library.
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/recovery.h"

namespace kiln {

__thread Recovery* recovery = nullptr;

void stop_kernel(int32_t status) {
  if (recovery == nullptr) std::abort();
  recovery->status = status;
  KILN_LONGJMP(recovery->place, 1);
}

namespace {

void* allocated(size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) stop_kernel(kOutOfMemory);
  return memory;
}

}  // namespace
}  // namespace kiln

void* operator new(size_t bytes) { return kiln::allocated(bytes); }
void* operator new[](size_t bytes) { return kiln::allocated(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

// Static objects of functions: the first byte of a guard says that the object is made, the second
// that a thread is making it.
extern "C" int __cxa_guard_acquire(char* guard) {
  for (;;) {
    if (__atomic_load_n(guard, __ATOMIC_ACQUIRE) != 0) return 0;
    if (!__atomic_test_and_set(guard + 1, __ATOMIC_ACQUIRE)) {
      if (__atomic_load_n(guard, __ATOMIC_ACQUIRE) == 0) return 1;
      __atomic_clear(guard + 1, __ATOMIC_RELEASE);
    }
  }
}
extern "C" void __cxa_guard_release(char* guard) {
  __atomic_store_n(guard, char{1}, __ATOMIC_RELEASE);
  __atomic_clear(guard + 1, __ATOMIC_RELEASE);
}
extern "C" void __cxa_guard_abort(char* guard) { __atomic_clear(guard + 1, __ATOMIC_RELEASE); }
extern "C" void __cxa_pure_virtual() { std::abort(); }

namespace std {

const nothrow_t nothrow{};

}  // namespace std
