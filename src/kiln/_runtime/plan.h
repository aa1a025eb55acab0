// A program of eager operations: loops over memory, with NumPy functions where there is no loop.
// engines/native/ makes them.
#pragma once

#include "array.h"

namespace kiln {

extern PyTypeObject plan_type;

// Run a plan on arrays of the types it was made for. Null without an exception if the values of one
// are not where it expects them.
Ref run_plan(PyObject* plan, ArrayData* const* arrays);

// Return the bytes a plan takes.
size_t plan_bytes(PyObject* plan);

}  // namespace kiln
