// A program with everything that a call does besides running it: where arguments are moved, which
// of them are donated, and where results live.
#pragma once

#include <vector>

#include "programs/program.h"

namespace kiln {

struct PlacedProgram {
  PyObject_HEAD
  CompiledProgram* program;
  PyObject* in_shardings;   // tuple of the shardings of the operands; null: the first device
  PyObject* out_shardings;  // tuple of the shardings of the results; null: the first device
  PyObject* donation;       // None, or what warns about donated arguments or refuses them
  std::vector<Py_ssize_t>* donated;  // numbers of operands
  std::vector<Py_ssize_t>* usable;   // those of them whose memory results reuse
  std::vector<PyObject*>* met;  // per operand the last accepted sharding that splits it, or null
  char committed;               // whether results are committed
  char has_warned;
};

extern PyTypeObject placed_program_type;

// Run on `count` arrays and scalars; returns a list of arrays.
Ref run_placed(PlacedProgram* placed, PyObject* const* args, Py_ssize_t count);

}  // namespace kiln
