// The entries of key paths: how a child of a node is reached from it.
#pragma once

#include "objects/object.h"

namespace kiln {

// An entry holds one value: a position, a key or a name.
struct PathEntry {
  PyObject_HEAD
  PyObject* value;
};

extern PyTypeObject sequence_key_type;         // a position in a tuple or list
extern PyTypeObject dict_key_type;             // a key of a mapping
extern PyTypeObject get_attr_key_type;         // an attribute
extern PyTypeObject flattened_index_key_type;  // a child of a class that does not name its children

Ref path_entry(PyTypeObject* type, PyObject* value);

// Return SequenceKey(i).
Ref sequence_key(Py_ssize_t i);

}  // namespace kiln
