// A compiled program as calls see it: what runs it, and of which types its results are.
#pragma once

#include "object.h"

namespace kiln {

// The part of `core/compilation.py: Compiled` that every call touches.
struct Program {
  PyObject_HEAD
  PyObject* run;        // buffers -> buffers
  PyObject* out_avals;  // list of the results' types
  PyObject* kept;       // list of the numbers of the inputs it takes, or None for all
  PyObject* engine;
  char in_host_memory;  // whether the engine's buffers are NumPy arrays
  long long used;       // when it last ran, in `clock_now`
};

extern PyTypeObject program_type;

// The time of all bounded caches, counted in insertions.
extern long long clock_now;

// Run a program on `count` arrays and scalars; returns a list of arrays.
Ref run_program(Program* program, PyObject* const* args, Py_ssize_t count);

}  // namespace kiln
