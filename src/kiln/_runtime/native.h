// Compiled functions called by their address.
#pragma once

#include <vector>

#include "operands.h"

namespace kiln {

// What a compiled function is: it reads its operands and writes its results, both row-major.
using Function = void (*)(const void* const* operands, void* const* results);

// A compiled function with the types of its operands and results. It runs in the calling thread.
struct Native {
  PyObject_HEAD
  Function function;
  PyObject* owner;  // keeps the code in memory
  std::vector<ValueType>* operands;
  std::vector<ValueType>* results;
  bool is_long;  // works on so much data that other threads should run meanwhile
};

extern PyTypeObject native_type;

// Run on arrays, NumPy arrays and Python scalars; returns a list of arrays of the given types.
Ref run_native(Native* native, PyObject* const* args, Py_ssize_t count, PyObject* out_avals);

}  // namespace kiln
