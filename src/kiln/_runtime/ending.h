// Threads and the end of the interpreter. Python ends a daemon thread where it next wants the lock,
// by unwinding its stack, through whatever libraries have frames there. Once the end has begun such
// threads stay where they are instead, with their stacks.
#pragma once

#include "object.h"

namespace kiln {

// Give the interpreter's lock away, and take it again. All of kiln does it by these.
PyThreadState* release_lock();
void take_lock(PyThreadState* released) noexcept;

// The thread has not got the lock while this stands on its stack.
class WithoutLock {
 public:
  explicit WithoutLock(bool is_wanted = true) : released_(is_wanted ? release_lock() : nullptr) {}
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;
  ~WithoutLock() {
    if (released_ != nullptr) take_lock(released_);
  }

 private:
  PyThreadState* released_;
};

// The lock on a thread that may never have had it, while this stands on its stack.
class WithLock {
 public:
  WithLock();
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;
  ~WithLock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// From now on this thread ends the interpreter.
void begin_end();

// Whether another thread than the calling one has begun to.
bool another_thread_ends();

// Never return. The calling thread has got the lock.
[[noreturn]] void stay_for_good();

}  // namespace kiln
