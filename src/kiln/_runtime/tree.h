// Pytrees: nested containers of values, taken apart into leaves and a structure, and put together.
//
// A structure is a Python value, the *key*: None for a leaf, `(class, metadata, keys of the
// children)` for a node. Keys are compared and hashed as tuples are.
#pragma once

#include "tree_nodes.h"

namespace kiln {

// Append the leaves of `tree` to the list `leaves` and return its key. A tree for which the function
// `is_leaf` says so is a leaf.
Ref flatten(PyObject* tree, PyObject* leaves, PyObject* is_leaf = nullptr);

// Append pairs of a key path and a leaf, and return the key. `is_leaf` gets the path too if it takes one.
Ref flatten_with_path(PyObject* tree, PyObject* pairs, PyObject* is_leaf, bool takes_path);

// Append the subtrees of `tree` at the leaves of `key`. Returns 1, 0 where they differ, -1 on error.
int flatten_up_to(PyObject* key, PyObject* tree, PyObject* leaves);

// Takes leaves one by one; they are borrowed.
struct Leaves {
  PyObject* const* next;
  PyObject* const* end;
};

// Put a tree together.
Ref build(PyObject* key, Leaves& leaves);

}  // namespace kiln
