// Pytrees: nested containers of values, taken apart into leaves and a structure, and put together.
//
// A structure is a Python value, the *key*: None for a leaf, `(class, metadata, keys of the
// children)` for a node. Keys are compared and hashed as tuples are.
#pragma once

#include "object.h"

namespace kiln {

// The ways in which a node comes apart that are known here; others are Python functions.
enum class Form : int { kCustom, kTuple, kList, kDict, kNone, kNamedTuple, kFields };

// How values of one class come apart and are put together.
struct NodeKind {
  PyObject_HEAD
  PyObject* flatten;   // value -> (children, metadata)
  PyObject* build;     // (metadata, children) -> value
  PyObject* entries;   // (metadata, number of children) -> key entries, or None
  PyObject* keyed;     // value -> ((key entry, child) pairs, metadata), or None
  PyObject* children;  // of kFields: names of the attributes that are children
  PyObject* metadata;  // of kFields: names of the attributes that are metadata
  char registered;
  int form;
};

// The structure of a pytree.
struct TreeDef {
  PyObject_HEAD
  PyObject* key;
  PyObject* weakrefs;
  Py_ssize_t num_leaves;
  Py_hash_t hash;  // -1 until asked for
};

extern PyTypeObject node_kind_type;
extern PyTypeObject tree_def_type;

// Return the kind of a class, borrowed; null for leaves, and null with an exception set.
NodeKind* kind_of(PyTypeObject* type);

// Append the leaves of `tree` to the list `leaves` and return its key.
Ref flatten(PyObject* tree, PyObject* leaves);

// Return the structure with a key.
Ref make_tree_def(Ref key, Py_ssize_t num_leaves);

// Takes leaves one by one; they are borrowed.
struct Leaves {
  PyObject* const* next;
  PyObject* const* end;
};

// Put a tree together.
Ref build(PyObject* key, Leaves& leaves);

int add_tree(PyObject* module);

}  // namespace kiln
