// Thread-local state: the options, the trace and the mapped axes in force.
#pragma once

#include <cstdint>

#include "objects/object.h"

namespace kiln {

struct EnteredContext;

// The state of a thread. A null pointer stands for the default outside all contexts, so that a
// thread that ends outside all contexts leaks no references.
struct ThreadState {
  PyObject* overrides;  // dict of changed options
  PyObject* merged;     // the options of `merged_from` with the changes made
  PyObject* merged_from;
  PyObject* trace;
  PyObject* axes;
  PyObject* tracked;
  PyObject* source;
  EnteredContext* entered;  // contexts, innermost first
  int32_t threads;          // of compiled code, if `overrides` sets it; otherwise 0
};

// `__thread` guarantees that no dynamic initialization is needed, for which other translation units
// would have to check.
extern __thread ThreadState thread_state;

// The default options, and the trace outside all transformations.
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
