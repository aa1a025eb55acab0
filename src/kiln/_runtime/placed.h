// A program with all that a call does besides running it: where arguments are brought, which of
// them are given away, and where results are.
#pragma once

#include <vector>

#include "program.h"

namespace kiln {

struct PlacedProgram {
  PyObject_HEAD
  CompiledProgram* program;
  PyObject* in_shardings;   // tuple of the shardings of the operands; null: the first device
  PyObject* out_shardings;  // tuple of the shardings of the results; null: the first device
  PyObject* donation;       // None, or what warns of donated arguments and refuses them
  std::vector<Py_ssize_t>* donated;  // numbers of operands
  std::vector<Py_ssize_t>* usable;   // those of them whose memory becomes that of results
  std::vector<PyObject*>* met;  // per operand the last sharding met that splits it as told, or null
  char committed;               // whether results are committed
  char has_warned;
};

extern PyTypeObject placed_program_type;

// Run on `count` arrays and scalars; returns a list of arrays.
Ref run_placed(PlacedProgram* placed, PyObject* const* args, Py_ssize_t count);

}  // namespace kiln
