// Waiting for an engine so that signals arrive, and who may enter one: everybody, until the
// interpreter ends or the process is the child of a fork.
#pragma once

#include <functional>

#include "object.h"

namespace kiln {

// Whether not everybody may enter any more: `may_enter` says who.
extern bool is_closed;

// How many threads are inside an engine.
extern int threads_inside;

// Return whether this thread may enter an engine; false with an exception set. While the
// interpreter ends only the thread that ends it and callbacks get in: others stay here for good,
// for a thread that is ended inside an engine takes the process with it.
bool may_enter();

// Threads that an engine has call Python, and which may have entered it again from there.
extern int threads_in_callbacks;
bool note_entry_from_callback();
void note_return_to_callback();

// Stands on the stack of a thread inside an engine.
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

// A callback runs a program. Wait until few programs of callbacks are under way, and remember the
// results of this one: an engine keeps a thread that asks for too many.
bool wait_for_turn_in_callback();
void remember_run_in_callback(PyObject* results);

// Whether this thread is the one that signals are handled on.
bool is_main_thread();

// Wait until something has happened. False with an exception set: that of a signal handler, or
// RecursionError where callbacks wait for each other.
bool wait_until(const std::function<bool()>& has_happened);

// Whether a buffer of an engine is ready, deleted or failed: 1, 0, or -1 with an exception set.
int has_come(PyObject* buffer);

// Wait until that is so; false with an exception set.
bool wait_until_ready(PyObject* buffer);

}  // namespace kiln
