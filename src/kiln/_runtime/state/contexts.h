// Contexts that change an attribute until they exit. Entry and exit are C++, because the
// interpreter handles signals between the bytecode instructions of a Python function: when a
// handler raises, the attribute is either restored already or inside a `with` statement that will
// restore it.
#pragma once

#include "objects/object.h"

namespace kiln {

// A thread-local attribute, as it was when the thread entered a context.
struct EnteredContext {
  PyObject* context;
  PyObject* target;
  PyObject* name;
  PyObject* previous;
  EnteredContext* outer;
};

// Set an attribute and save its old value; false with an exception set. The name is interned.
bool enter_context(PyObject* context, PyObject* target, PyObject* name, PyObject* value);

// Restore the attribute's value at the thread's last entry; false with an exception set. A context
// that the thread did not enter restores nothing.
bool leave_context(PyObject* context);

// Make the `__enter__` of a class whose objects call `enter_context` one step for interrupts too,
// after the class was added to the module; -1 with an exception set. See `contexts.cc`.
int guard_enter(PyTypeObject* type);

}  // namespace kiln
