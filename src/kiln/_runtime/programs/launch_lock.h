// The lock under which programs are launched on the devices of a client.
//
// Virtual devices share the machine's threads. A program launched while the devices of another wait
// for each other can occupy threads for which they wait, and XLA aborts the process after 40
// seconds of that. Moreover XLA starts programs over several devices in launch order, but queues at
// most 32 per device: if several threads launch such programs concurrently, later ones can block
// the first for ever.
//
// So any number of single-device programs are launched concurrently, or one program over several
// devices exclusively; and one whose devices wait for each other runs exclusively until it ends.
// First come, first served.
#pragma once

#include "objects/object.h"

namespace kiln {

struct LaunchLock;

// Whether this thread holds a launch lock, or waits for one.
bool is_launching();

// Holds the lock for the lifetime of the object, which lies on the thread's stack. A nested one of
// the same thread does not wait for the outer one.
class LaunchGuard {
 public:
  // Wait for the lock, and for runs that an interrupt abandoned, while handling signals. Without a
  // lock, do not wait.
  LaunchGuard(PyObject* lock, bool alone);
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;
  ~LaunchGuard();

  // Whether an exception is set: that of a signal handler.
  bool failed() const { return failed_; }

  // Wait until the results of an exclusive program are ready. False with an exception set, and then
  // the next holder waits for them.
  bool finish(PyObject* results);

 private:
  friend struct LaunchLock;
  enum class State { none, waiting, held };

  bool acquire();
  void release();
  bool wait_for_left();

  Ref lock_;
  LaunchGuard* around_ = nullptr;  // of this thread, for any client
  LaunchGuard* lender_ = nullptr;  // the enclosing one, which has lent the lock to this one
  State state_ = State::none;
  bool alone_ = false;
  bool failed_ = false;
};

}  // namespace kiln
