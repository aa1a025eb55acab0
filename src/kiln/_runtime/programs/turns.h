// Turns to launch programs on the devices of a client.
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

struct Turns;

// Whether this thread has a turn, or waits for one.
bool is_in_turn();

// A thread's turn, on its stack. A nested turn of the same thread does not wait for the outer one.
class Turn {
 public:
  // Wait for the turn, and for runs that an interrupt abandoned, while handling signals. Without a
  // `Turns` object, do not wait.
  Turn(PyObject* turns, bool alone);
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

  // Whether an exception is set: that of a signal handler.
  bool failed() const { return failed_; }

  // Wait until the results of an exclusive program are ready. False with an exception set, and then
  // the next turn waits for them.
  bool finish(PyObject* results);

 private:
  friend struct Turns;
  enum class State { none, waiting, taken };

  bool take();
  void give_back();
  bool wait_for_left();

  Ref turns_;
  Turn* around_ = nullptr;  // of this thread, for any client
  Turn* lender_ = nullptr;  // the enclosing turn on which this one runs
  State state_ = State::none;
  bool alone_ = false;
  bool failed_ = false;
};

}  // namespace kiln
