// Contexts that change an attribute until they are left. Entering and leaving are C++, because the
// interpreter handles signals between the instructions of a function in Python: what a handler
// raises finds all changed back, or a `with` statement that will change it back.
#pragma once

#include "object.h"

namespace kiln {

// An attribute of an object that each thread has for itself, as a thread found it when it entered a
// context.
struct EnteredContext {
  PyObject* context;
  PyObject* target;
  PyObject* name;
  PyObject* previous;
  EnteredContext* outer;
};

// Set an attribute, and remember what it was; false with an exception set. The name is interned.
bool enter_context(PyObject* context, PyObject* target, PyObject* name, PyObject* value);

// Restore what the attribute was at the thread's last entry; false with an exception set. A context
// that the thread did not enter has nothing to restore there.
bool leave_context(PyObject* context);

}  // namespace kiln
