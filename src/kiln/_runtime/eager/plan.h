// A program of eager operations: loops over memory, and NumPy functions where there is no loop.
// engines/native/ creates them.
#pragma once

#include "arrays/array.h"

namespace kiln {

extern PyTypeObject plan_type;

// Run a plan on arrays of the types it was made for. Null, without an exception, if the values of
// one are not in the expected memory.
Ref run_plan(PyObject* plan, ArrayData* const* arrays);

// Return the size of a plan in bytes.
size_t plan_bytes(PyObject* plan);

}  // namespace kiln
