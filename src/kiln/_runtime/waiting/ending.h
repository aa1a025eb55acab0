// Threads at interpreter shutdown. Python ends a daemon thread when it next takes the GIL, by
// unwinding its stack through the frames of whatever libraries are on it. Once shutdown has begun,
// such threads block for ever instead, and keep their stacks.
#pragma once

#include "objects/object.h"

namespace kiln {

// Release the GIL and take it again. All of kiln uses these functions.
PyThreadState* release_lock();
void take_lock(PyThreadState* released) noexcept;

// Releases the GIL for the lifetime of the object.
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

// Holds the GIL for the lifetime of the object, on a thread that Python may not know.
class WithLock {
 public:
  WithLock();
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;
  ~WithLock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// From now on this thread is the one that shuts the interpreter down.
void begin_end();

// Whether a thread other than the calling one has begun shutdown.
bool another_thread_ends();

// Never returns. The calling thread holds the GIL.
[[noreturn]] void stay_for_good();

}  // namespace kiln
