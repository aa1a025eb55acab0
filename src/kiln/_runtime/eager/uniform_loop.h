// The plan of an operator: one loop over arrays of one type, or over an array and a Python number.
// It is the same for all shapes and numbers, so it also serves first calls.
#pragma once

#include "loops/registry.h"
#include "objects/object.h"

namespace kiln {

// The element types with such plans.
enum Element : int { kFloat32, kFloat64, kInt32, kInt64, kElements };

struct UniformLoop {
  // Run on `operands` arguments. Null, without an exception, if such a plan does not accept them.
  Ref (*run)(const UniformLoop& loop, PyObject* const* args) = nullptr;
  StridedLoop loops[kElements] = {};  // null if there is none
  int operands = 0;
  bool is_swapped = false;  // whether the second argument is the first operand
};

// Find the loops of a name; false if there are none.
bool find_uniform_loop(const char* name, bool swapped, UniformLoop& found);

}  // namespace kiln
