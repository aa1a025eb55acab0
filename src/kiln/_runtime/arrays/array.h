// The data of a concrete array. Its methods are in core/arrays/array.py, in a subclass without fields.
#pragma once

#include "objects/object.h"

namespace kiln {

// An array holds a buffer in an engine's memory, a host view of it, or both. It is on the first
// device unless it has a sharding.
struct ArrayData {
  PyObject_HEAD
  PyObject* aval;
  PyObject* host;    // a read-only ndarray, a MemoryBlock without a view yet, or None
  PyObject* buffer;  // None, or a buffer in `memory`
  PyObject* memory;
  PyObject* sharding;  // None, or the sharding it was placed with
  PyObject* weakrefs;
  ArrayData *before, *after;  // in the ring of all arrays
  char committed;             // whether it was placed on purpose
  char is_part;               // whether its buffer is a part of one on several devices
};

extern PyTypeObject array_data_type;

// The classes of arrays created here: not placed, and placed.
extern PyTypeObject* array_class;
extern PyTypeObject* placed_class;

// Returns the ndarray of an array, and blocks until an engine has computed it: core/arrays/array.py.
extern PyObject* host_value_function;

// The operators of arrays, in eager/operators.cc.
extern PyNumberMethods array_numbers;
PyObject* compare_arrays(PyObject* left, PyObject* right, int op);

inline bool is_array(PyObject* object) { return Py_TYPE(object) == array_class; }
inline bool is_placed(PyObject* object) { return Py_TYPE(object) == placed_class; }

// The fields may change whenever Python code or another thread runs, because the array may be
// deleted, donated or moved: take a reference before using what they hold.

// Return a read-only ndarray of the array's values, or None; nothing with an exception set.
Ref host_of(ArrayData* array);

// Return the ndarray of an array's values, or the object stored in its place; block until an engine
// has computed it.
Ref values_waited_for(ArrayData* array);
inline Ref values_of(ArrayData* array) {
  return array->host != Py_None ? Ref::borrow(array->host) : values_waited_for(array);
}

// Create an array. Every argument but the type may be None.
Ref make_array(PyObject* aval, PyObject* host, PyObject* buffer, PyObject* memory);
Ref make_placed(PyObject* aval, PyObject* host, PyObject* buffer, PyObject* memory,
                PyObject* sharding, bool committed);

}  // namespace kiln
