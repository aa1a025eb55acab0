// The data of a concrete array. Its methods are in core/array.py, in a subclass without fields.
#pragma once

#include "object.h"

namespace kiln {

// An array is on the first device. It holds an engine's buffer, a host view of it, or both.
struct ArrayData {
  PyObject_HEAD
  PyObject* aval;
  PyObject* host;    // a read-only ndarray, a Memory that nobody has looked at yet, or None
  PyObject* buffer;  // None, or a buffer of `engine`
  PyObject* engine;
  PyObject* weakrefs;
  ArrayData *before, *after;  // in the ring of all arrays
};

extern PyTypeObject array_data_type;

// The class of the arrays that are made here.
extern PyTypeObject* array_class;

// Returns the ndarray of an array, waiting for an engine if it must: core/array.py.
extern PyObject* host_value_function;

// Its operators, in operators.cc.
extern PyNumberMethods array_numbers;
PyObject* compare_arrays(PyObject* left, PyObject* right, int op);

inline bool is_array(PyObject* object) { return Py_TYPE(object) == array_class; }

// Return a read-only ndarray of the array's values, or None, borrowed; null with an exception set.
PyObject* host_of(ArrayData* array);

// Make an array. All but the type may be None.
Ref make_array(PyObject* aval, PyObject* host, PyObject* buffer, PyObject* engine);

}  // namespace kiln
