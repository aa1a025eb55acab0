// The data of a concrete array. Its methods are in core/array.py, in a subclass without fields.
#pragma once

#include "object.h"

namespace kiln {

// An array is on the first device. It holds an engine's buffer, a host view of it, or both.
struct ArrayData {
  PyObject_HEAD
  PyObject* aval;
  PyObject* host;    // a read-only ndarray, or None
  PyObject* buffer;  // None, or a buffer of `engine`
  PyObject* engine;
  PyObject* weakrefs;
  ArrayData *before, *after;  // in the ring of all arrays
};

extern PyTypeObject array_data_type;

// The class of the arrays that are made here.
extern PyTypeObject* array_class;

inline bool is_array(PyObject* object) { return Py_TYPE(object) == array_class; }

// Make an array. All but the type may be None.
Ref make_array(PyObject* aval, PyObject* host, PyObject* buffer, PyObject* engine);

}  // namespace kiln
