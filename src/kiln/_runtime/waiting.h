// Waiting for an engine so that signals arrive, and who may enter one: everybody, until the
// interpreter ends or the process is the child of a fork.
#pragma once

#include "object.h"

namespace kiln {

// Whether not everybody may enter any more: `may_enter` says who.
extern bool is_closed;

// How many threads are inside an engine.
extern int threads_inside;

// Return whether this thread may enter an engine; false with an exception set. While the interpreter
// ends only the thread that ends it and callbacks get in: others stay here for good, for a thread
// that is ended inside an engine takes the process with it.
bool may_enter();

// Stands on the stack of a thread inside an engine.
struct Inside {
  Inside() { ++threads_inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --threads_inside; }
};

// Whether this thread is the one that signals are handled on.
bool is_main_thread();

// Wait until a buffer of an engine is ready, deleted or failed. False with an exception set: that of
// a signal handler, or RecursionError where callbacks wait for each other.
bool wait_until_ready(PyObject* buffer);

}  // namespace kiln
