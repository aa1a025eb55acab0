// Waiting for an engine while handling signals, and which threads may enter one: all, until the
// interpreter shuts down or the process forks.
#pragma once

#include <functional>

#include "objects/object.h"

namespace kiln {

// Whether entry is restricted: `may_enter` decides for each thread.
extern bool is_closed;

// The number of threads inside an engine.
extern int threads_inside;

// Return whether this thread may enter an engine; false with an exception set. During interpreter
// shutdown only the thread that performs it and callbacks may enter: others block here for ever,
// because ending a thread inside an engine crashes the process.
bool may_enter();

// Threads on which an engine calls Python, and which may enter it again from there.
extern int threads_in_callbacks;
bool note_entry_from_callback();
void note_return_to_callback();

// Marks, on its stack, that a thread is inside an engine.
class Inside {
 public:
  Inside() : from_callback_(threads_in_callbacks > 0 && note_entry_from_callback()) {
    ++threads_inside;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    --threads_inside;
    if (from_callback_) note_return_to_callback();
  }

 private:
  bool from_callback_;
};

// Whether an engine called Python on this thread.
bool is_in_callback();

// A callback runs a program. Wait until few programs of callbacks are in progress, and remember the
// results of this one: an engine blocks a thread that launches too many.
bool wait_for_turn_in_callback();
void remember_run_in_callback(PyObject* results);

// Whether this is the thread on which signals are handled.
bool is_main_thread();

// Wait until a condition holds. False with an exception set: that of a signal handler, or
// RecursionError where callbacks wait for each other.
bool wait_until(const std::function<bool()>& has_happened);

// Whether a buffer of an engine is ready, deleted or failed: 1, 0, or -1 with an exception set.
int has_come(PyObject* buffer);

// Wait until that is so; false with an exception set.
bool wait_until_ready(PyObject* buffer);

}  // namespace kiln
