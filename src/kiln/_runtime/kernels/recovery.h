// What ends a kernel early when memory runs out deep inside it: an exception in the extension. The
// static runtime of exported libraries has none: there the thread continues where it began.
#pragma once

#include <cstdint>
#include <new>

#include "abi/native_call.h"
#include "machine/scratch.h"

#ifdef KILN_STATIC_RUNTIME
#include <csetjmp>
#endif

namespace kiln {

#ifdef KILN_STATIC_RUNTIME

// Without the signal mask: macOS saves it by a system call, and libc elsewhere does not.
#ifdef __APPLE__
#define KILN_SETJMP _setjmp
#define KILN_LONGJMP _longjmp
#else
#define KILN_SETJMP setjmp
#define KILN_LONGJMP longjmp
#endif

// A point to return to; those of a thread are nested.
struct Recovery {
  jmp_buf place;
  Recovery* outer;
  ScratchMark scratch;
  int32_t status;
};

extern __thread Recovery* recovery;

// Returns to the innermost point; aborts the process if there is none.
[[noreturn]] void stop_kernel(int32_t status);

// Returns the status of `run()`, or that with which it was stopped. What it had allocated is lost
// then, except for scratch memory.
template <typename Run>
[[gnu::noinline]] int32_t recovered(const Run& run) {
  Recovery here;
  here.outer = recovery;
  here.scratch = scratch_in_use();
  here.status = kDone;
  recovery = &here;
  if (KILN_SETJMP(here.place) == 0) run();
  recovery = here.outer;
  if (here.status != kDone) restore_scratch(here.scratch);
  return here.status;
}

#else

// Thrown to stop a kernel: holds the status that it returns.
struct KernelStop {
  int32_t status;
};

[[noreturn]] inline void stop_kernel(int32_t status) { throw KernelStop{status}; }

template <typename Run>
int32_t recovered(const Run& run) {
  try {
    run();
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  } catch (const KernelStop& stop) {
    return stop.status;
  }
  return kDone;
}

#endif

}  // namespace kiln
