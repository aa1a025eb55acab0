// Compiled loops over strided operands: NumPy's, and ours beside.
#pragma once

#include <vector>

#include "kernels/registry.h"
#include "object.h"

namespace kiln {

constexpr int kMostOperands = 4;

// An axis of an operand of a loop over more than elements: which size of the loop is its own.
struct CoreAxis {
  int operand;
  int size;
};

// What is known of the operands of a loop, so that a plan can be checked.
struct LoopShape {
  int operands = 0;
  int given = 0;                         // operands that are read, before those that are written
  intptr_t items[kMostOperands] = {};    // bytes of an element
  intptr_t aligned[kMostOperands] = {};  // to so many bytes
  int core_sizes = 0;                    // of a loop over more than elements
  std::vector<CoreAxis> core_axes;       // in the order of their steps
};

// A loop with what it needs besides its operands.
struct Loop {
  PyObject_HEAD
  StridedLoop loop;
  void* data;
  PyObject* owner;
  LoopShape* shape;
};

extern PyTypeObject loop_type;

}  // namespace kiln
