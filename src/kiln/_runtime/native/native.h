// Compiled functions, called by address.
#pragma once

#include <vector>

#include "arrays/operands.h"
#include "native/interpreter.h"

namespace kiln {

// The operands and results of a compiled function, and what else it needs.
struct NativeSignature {
  // Where a result lies if not in fresh memory: the number of an operand, or none.
  static constexpr Py_ssize_t kNone = -1;

  std::vector<ValueType> operands, results;
  std::vector<int64_t> sizes;      // of named axes
  std::vector<Py_ssize_t> shared;  // per result: the operand it is identical to
  std::vector<Py_ssize_t> reused;  // per result: the operand whose memory it may reuse
  std::vector<PythonCallback> callbacks;
  std::vector<const void*> kept;  // operands after those of a call
  Ref kept_memory;                // a tuple of their memory blocks
  size_t workspace = 0;
  Pool* pool = nullptr;                 // null: loops run on the calling thread
  int32_t threads = 0;                  // of parallel loops; 0: the default number
  bool shares = false, reuses = false;  // whether any result does
  bool is_long = false;                 // runs long enough that the GIL should be released
};

// A compiled function. It runs on the calling thread.
struct Native {
  PyObject_HEAD
  Entry entry;
  NativeSignature* signature;
  PyObject* owner;    // keeps the code in memory
  PyObject* explain;  // (code, site, index, iteration): raises the error of a check or kernel
  PyObject* improve;  // () -> (address, owner) of optimized code, or None
  int64_t calls;      // calls left before optimized code is requested; 0: never
};

extern PyTypeObject native_type;

// A Python subclass holds the description of the code; one that overrides the call is called as
// such.
inline bool is_native(PyObject* object) {
  return PyObject_TypeCheck(object, &native_type) &&
         Py_TYPE(object)->tp_call == native_type.tp_call;
}

// What a call does apart from running the function.
struct NativeCallOptions {
  PyObject* out_avals;                               // tuple of the types of the results
  PyObject* out_shardings = nullptr;                 // tuple of them; null: the first device
  bool committed = false;                            // whether results are committed
  bool takes_placed = false;                         // whether operands may be placed arrays
  const std::vector<Py_ssize_t>* donated = nullptr;  // operands that are deleted
  Ref (*convert)(void* context, size_t number, PyObject* object) = nullptr;
  void* context = nullptr;  // converts other values to arrays in host memory, or raises
};

// Run on arrays, NumPy arrays and Python scalars; returns a list of arrays of the given types.
Ref run_native(Native* native, PyObject* const* args, Py_ssize_t count,
               const NativeCallOptions& options);

}  // namespace kiln
