// Compiled loops over strided operands: NumPy's, and our own.
#pragma once

#include <vector>

#include "loops/registry.h"
#include "objects/object.h"

namespace kiln {

constexpr int kMostOperands = 4;

// A core axis of an operand of a generalized loop: which of the loop's sizes it has.
struct CoreAxis {
  int operand;
  int size;
};

// Properties of a loop's operands, against which plans are checked.
struct LoopShape {
  int operands = 0;
  int given = 0;                         // operands that are read, before those that are written
  intptr_t items[kMostOperands] = {};    // bytes of an element
  intptr_t aligned[kMostOperands] = {};  // in bytes
  int core_sizes = 0;                    // of a generalized loop
  std::vector<CoreAxis> core_axes;       // in the order of their steps
};

// A loop with the data it needs besides its operands.
struct Loop {
  PyObject_HEAD
  StridedLoop loop;
  void* data;
  PyObject* owner;
  LoopShape* shape;
};

extern PyTypeObject loop_type;

}  // namespace kiln
