// What each thread has in force: its options, its trace, its mapped axes.
#pragma once

#include <cstdint>

#include "object.h"

namespace kiln {

struct EnteredContext;

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
  EnteredContext* entered;  // contexts, the innermost first
  int32_t threads;          // of compiled code, as `overrides` say; 0 if they do not
};

// `__thread` says that it needs no initialization, which readers elsewhere would check.
extern __thread ThreadState thread_state;

// The options that hold where nothing is overridden, and the trace where nothing is transformed.
extern PyObject* base_options;
extern PyObject* root_trace;

// Return the options in force, borrowed; null with an exception set.
PyObject* merged_options(ThreadState& thread);
inline PyObject* current_options() {
  ThreadState& thread = thread_state;
  if (thread.overrides == nullptr && base_options != nullptr) return base_options;
  return merged_options(thread);
}

}  // namespace kiln
