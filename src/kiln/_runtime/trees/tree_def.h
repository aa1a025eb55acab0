// The structure of a pytree as a Python object.
#pragma once

#include "objects/object.h"

namespace kiln {

struct TreeDef {
  PyObject_HEAD
  PyObject* key;  // see tree.h
  PyObject* weakrefs;
  Py_ssize_t num_leaves;
  Py_hash_t hash;    // -1 until computed
  char is_hashable;  // known with the hash: whether all metadata has one
};

extern PyTypeObject tree_def_type;

// Return the structure with a key.
Ref make_tree_def(Ref key, Py_ssize_t num_leaves);

}  // namespace kiln
