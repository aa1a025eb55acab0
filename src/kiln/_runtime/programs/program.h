// A compiled program as calls see it: its executable, and the types of its results.
#pragma once

#include <vector>

#include "programs/launcher.h"

namespace kiln {

// The part of a cached program (`execution/compilation.py`) that every call touches.
struct CompiledProgram {
  PyObject_HEAD
  PyObject* run;        // buffers -> buffers
  PyObject* out_avals;  // tuple of the results' types, never changed
  PyObject* kept;       // list of the numbers of the inputs it takes, or None for all
  PyObject* memory;     // the memory that holds its operands and results
  char in_host_memory;  // whether they are NumPy arrays
  long long used;       // when it last ran, in `clock_now`
};

extern PyTypeObject program_type;

// The clock of all bounded caches, counted in insertions.
extern long long clock_now;

// The steps of a run. First select, among all arguments, those that the program takes.
bool take(CompiledProgram* program, PyObject* const*& args, Py_ssize_t& count,
          std::vector<PyObject*>& taken);

// Move an array or scalar to the program's memory, on the first device or as a sharding requires.
Ref operand(CompiledProgram* program, size_t number, PyObject* object, PyObject* sharding,
            HostOperands& host_operands);

// Return the executable of a program, as a new reference, because it may be replaced while it runs;
// null with an exception set if it was removed.
Ref runner(CompiledProgram* program);

// Run a compiled function by address. If there are shardings of results, operands and results are
// placed arrays.
Ref run_by_address(CompiledProgram* program, PyObject* native, PyObject* const* args,
                   Py_ssize_t count, PyObject* out_shardings, bool committed,
                   const std::vector<Py_ssize_t>* donated);

// Run an executable on buffers.
Ref execute(PyObject* run, PyObject* buffers, HostOperands& host_operands);

// Create arrays from the buffers of results.
Ref wrap(CompiledProgram* program, PyObject* buffers);

// All steps: run a program on `count` arrays and scalars; returns a list of arrays.
Ref run_program(CompiledProgram* program, PyObject* const* args, Py_ssize_t count);

}  // namespace kiln
