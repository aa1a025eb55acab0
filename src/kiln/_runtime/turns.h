// Turns to launch programs on the devices of a client.
//
// Virtual devices share the machine's threads. What is launched while a program is under way whose
// devices wait for each other can hold threads that they wait for, and XLA ends the process when
// that has lasted 40 seconds. And XLA starts programs over several devices in the order of their
// launches, but lets a device take 32 at most: if threads launch such programs at once, later ones
// can keep the first one out, for ever.
//
// So any number of programs on one device each are launched at once, or one over several devices
// alone; and one whose devices wait for each other runs alone, to its end. First come, first served.
#pragma once

#include "object.h"

namespace kiln {

struct Turns;

// Whether this thread has a turn, or waits for one.
bool is_in_turn();

// A thread's turn, on its stack. One within another of the same thread does not wait for it.
class Turn {
 public:
  // Wait for the turn, and for runs that an interrupt left, such that signals arrive. Nothing is
  // waited for without an object `Turns`.
  Turn(PyObject* turns, bool alone);
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();

  // Whether an exception is set: that of a signal handler.
  bool failed() const { return failed_; }

  // Wait until the results of a program that runs alone have come. False with an exception set, and
  // then who is next waits for them.
  bool finish(PyObject* results);

 private:
  friend struct Turns;
  enum class State { none, waiting, taken };

  bool take();
  void give_back();
  bool wait_for_left();

  Ref turns_;
  Turn* around_ = nullptr;  // of this thread, for any client
  Turn* lender_ = nullptr;  // the turn around this one that it was given
  State state_ = State::none;
  bool alone_ = false;
  bool failed_ = false;
};

}  // namespace kiln
