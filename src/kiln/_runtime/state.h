// What each thread has in force: its options, its trace, its mapped axes.
#pragma once

#include "object.h"

namespace kiln {

// The thread's part. A null pointer stands for what holds where no context was entered, so that a
// thread that ends outside of all contexts leaves no references behind.
struct ThreadState {
  PyObject* overrides;  // dict of changed options
  PyObject* merged;     // the options of `merged_from` with the changes made
  PyObject* merged_from;
  PyObject* trace;
  PyObject* axes;
  PyObject* tracked;
  PyObject* source;
};

extern thread_local ThreadState thread_state;

// The options that hold where nothing is overridden, and the trace where nothing is transformed.
extern PyObject* base_options;
extern PyObject* root_trace;

// Return the options in force, borrowed; null with an exception set.
PyObject* current_options();

}  // namespace kiln
