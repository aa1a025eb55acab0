// A compiled program as calls see it: what runs it, and of which types its results are.
#pragma once

#include <vector>

#include "launcher.h"

namespace kiln {

// The part of a cached program (`execution/compilation.py`) that every call touches.
struct CompiledProgram {
  PyObject_HEAD
  PyObject* run;        // buffers -> buffers
  PyObject* out_avals;  // tuple of the results' types, from the beginning to the end
  PyObject* kept;       // list of the numbers of the inputs it takes, or None for all
  PyObject* memory;     // which holds the buffers of its operands and results
  char in_host_memory;  // whether they are NumPy arrays
  long long used;       // when it last ran, in `clock_now`
};

extern PyTypeObject program_type;

// The time of all bounded caches, counted in insertions.
extern long long clock_now;

// The steps of a run. First choose the arguments that the program takes, of all.
bool take(CompiledProgram* program, PyObject* const*& args, Py_ssize_t& count,
          std::vector<PyObject*>& taken);

// Bring an array or scalar to the program's memory, to the first device or as a sharding says.
Ref operand(CompiledProgram* program, size_t number, PyObject* object, PyObject* sharding,
            HostOperands& host_operands);

// Return what runs a program. It may be exchanged while it runs, so it is held; nothing with an
// exception set if it was taken away.
Ref runner(CompiledProgram* program);

// Run a compiled function by its address. Placed arrays are operands and results if there are
// shardings of results.
Ref run_by_address(CompiledProgram* program, PyObject* native, PyObject* const* args,
                   Py_ssize_t count, PyObject* out_shardings, bool committed,
                   const std::vector<Py_ssize_t>* donated);

// Run an executable on buffers.
Ref execute(PyObject* run, PyObject* buffers, HostOperands& host_operands);

// Make arrays of the buffers of results.
Ref wrap(CompiledProgram* program, PyObject* buffers);

// All of them: run a program on `count` arrays and scalars; returns a list of arrays.
Ref run_program(CompiledProgram* program, PyObject* const* args, Py_ssize_t count);

}  // namespace kiln
