// Pytrees: flattening nested containers into leaves and a structure, and unflattening them.
//
// A structure is a Python value, the *key*: None for a leaf, `(class, metadata, keys of the
// children)` for a node. Keys are compared and hashed as tuples are.
#pragma once

#include "trees/nodes.h"

namespace kiln {

// Append the leaves of `tree` to the list `leaves` and return its key. A subtree for which the
// function `is_leaf` returns true is a leaf.
Ref flatten(PyObject* tree, PyObject* leaves, PyObject* is_leaf = nullptr);

// Append pairs of a key path and a leaf, and return the key. `is_leaf` receives the path too if it
// accepts one.
Ref flatten_with_path(PyObject* tree, PyObject* pairs, PyObject* is_leaf, bool takes_path);

// Append the subtrees of `tree` at the leaves of `key`. Returns 1, 0 where they differ, -1 on
// error.
int flatten_up_to(PyObject* key, PyObject* tree, PyObject* leaves);

// Receives leaves one by one, as borrowed references.
struct Leaves {
  PyObject* const* next;
  PyObject* const* end;
};

// Unflatten a tree.
Ref build(PyObject* key, Leaves& leaves);

// Deeper trees are refused: most of them are infinite, because they contain themselves.
constexpr size_t kDeepest = 5000;

// Whether a traversal may descend one more level; false with RecursionError set.
bool may_enter(size_t depth);

// Visit the keys of a tree from the root to the leaves, in order, until `visit(key)` returns 0 or
// less; return what it returned last. A key is validated only by its visit.
template <typename Visit>
int visit_keys(PyObject* key, Visit visit) {
  struct Level {
    PyObject* children;
    Py_ssize_t next;
  };
  Levels<Level> levels;
  while (true) {
    int answer = visit(key);
    if (answer <= 0) return answer;
    if (key != Py_None) {
      if (!may_enter(levels.size())) return -1;
      levels.push({PyTuple_GET_ITEM(key, 2), 0});
    }
    while (!levels.empty() && levels.top().next == PyTuple_GET_SIZE(levels.top().children)) {
      levels.pop();
    }
    if (levels.empty()) return answer;
    Level& top = levels.top();
    key = PyTuple_GET_ITEM(top.children, top.next++);
  }
}

}  // namespace kiln
