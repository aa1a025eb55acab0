#include "tree.h"

#include <vector>

namespace kiln {
namespace {

PyObject* none_key = nullptr;

Ref node_key(PyTypeObject* type, PyObject* metadata, Ref children) {
  if (!children) return Ref();
  return Ref::own(PyTuple_Pack(3, reinterpret_cast<PyObject*>(type), metadata, children.get()));
}

bool is_true(const Ref& answer, bool& failed) {
  int truth = answer ? PyObject_IsTrue(answer.get()) : -1;
  failed = truth < 0;
  return truth > 0;
}

bool stops_at(PyObject* is_leaf, PyObject* value, bool& failed) {
  if (is_leaf == nullptr) return false;
  return is_true(Ref::own(PyObject_CallOneArg(is_leaf, value)), failed);
}

// A list may be changed by the functions that take apart what is in it. False with an exception set.
bool has_still(PyObject* children, Py_ssize_t count) {
  if (PySequence_Fast_GET_SIZE(children) == count) return true;
  PyErr_SetString(PyExc_RuntimeError, "a list changed its size while it was flattened as a pytree");
  return false;
}

Ref leaf(PyObject* value, PyObject* leaves) {
  return PyList_Append(leaves, value) < 0 ? Ref() : Ref::borrow(Py_None);
}

// A walk that keeps the path to where it is; the entries are borrowed from the nodes above.
class PathWalk {
 public:
  PathWalk(PyObject* pairs, PyObject* is_leaf, bool takes_path)
      : pairs_(pairs), is_leaf_(is_leaf), takes_path_(takes_path) {}

  Ref visit(PyObject* value) {
    bool failed = false;
    if (stops_here(value, failed)) return leaf_here(value);
    if (failed) return Ref();
    PyTypeObject* type = Py_TYPE(value);
    if (is_known_leaf(type)) return leaf_here(value);
    NodeKind* kind = kind_of(type);
    if (kind == nullptr) return PyErr_Occurred() ? Ref() : leaf_here(value);
    Recursion recursion(" while flattening a pytree");
    if (!recursion) return Ref();
    Node node;
    Ref entries = take_apart_with_entries(kind, value, node);
    if (!entries) return Ref();
    PyObject* children = node.children.get();
    Py_ssize_t count = PyTuple_GET_SIZE(entries.get());
    Ref keys = Ref::own(PyTuple_New(count));
    if (!keys) return Ref();
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!has_still(children, count)) return Ref();
      Ref child = Ref::borrow(PySequence_Fast_GET_ITEM(children, i));
      path_.push_back(PyTuple_GET_ITEM(entries.get(), i));
      Ref key = visit(child.get());
      path_.pop_back();
      if (!key) return Ref();
      PyTuple_SET_ITEM(keys.get(), i, key.release());
    }
    return node_key(type, node.metadata.get(), std::move(keys));
  }

 private:
  Ref path() const {
    Py_ssize_t count = static_cast<Py_ssize_t>(path_.size());
    Ref made = Ref::own(PyTuple_New(count));
    for (Py_ssize_t i = 0; made && i < count; ++i) {
      PyTuple_SET_ITEM(made.get(), i, Py_NewRef(path_[static_cast<size_t>(i)]));
    }
    return made;
  }

  bool stops_here(PyObject* value, bool& failed) const {
    if (is_leaf_ == nullptr || !takes_path_) return stops_at(is_leaf_, value, failed);
    Ref here = path();
    Ref answer = here ? Ref::own(PyObject_CallFunctionObjArgs(is_leaf_, here.get(), value, nullptr)) : Ref();
    return is_true(answer, failed);
  }

  Ref leaf_here(PyObject* value) const {
    Ref here = path();
    Ref pair = here ? Ref::own(PyTuple_Pack(2, here.get(), value)) : Ref();
    return pair ? leaf(pair.get(), pairs_) : Ref();
  }

  std::vector<PyObject*> path_;
  PyObject* pairs_;
  PyObject* is_leaf_;
  bool takes_path_;
};

Ref build_children(PyObject* keys, Leaves& leaves, PyObject* into, void (*put)(PyObject*, Py_ssize_t, PyObject*)) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    Ref child = build(PyTuple_GET_ITEM(keys, i), leaves);
    if (!child) {
      Py_DECREF(into);
      return Ref();
    }
    put(into, i, child.release());
  }
  return Ref::own(into);
}

void put_in_list(PyObject* list, Py_ssize_t i, PyObject* item) { PyList_SET_ITEM(list, i, item); }
void put_in_tuple(PyObject* tuple, Py_ssize_t i, PyObject* item) { PyTuple_SET_ITEM(tuple, i, item); }

Ref new_list(PyObject* keys, Leaves& leaves) {
  PyObject* list = PyList_New(PyTuple_GET_SIZE(keys));
  return list == nullptr ? Ref() : build_children(keys, leaves, list, put_in_list);
}

Ref new_tuple(PyObject* keys, Leaves& leaves) {
  PyObject* tuple = PyTuple_New(PyTuple_GET_SIZE(keys));
  return tuple == nullptr ? Ref() : build_children(keys, leaves, tuple, put_in_tuple);
}

Ref new_dict(PyObject* names, PyObject* keys, Leaves& leaves) {
  Ref dict = Ref::own(PyDict_New());
  if (!dict) return Ref();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    Ref child = build(PyTuple_GET_ITEM(keys, i), leaves);
    if (!child || PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(names, i), child.get()) < 0) return Ref();
  }
  return dict;
}

// Construct a dataclass from its fields by name.
Ref new_from_fields(PyObject* type, NodeKind* kind, PyObject* metadata, PyObject* keys, Leaves& leaves) {
  Ref children = new_tuple(keys, leaves);
  if (!children) return Ref();
  Ref names = Ref::own(PySequence_Concat(kind->children, kind->metadata));
  Ref values = Ref::own(PySequence_Concat(children.get(), metadata));
  if (!names || !values) return Ref();
  return Ref::own(PyObject_Vectorcall(type, &PyTuple_GET_ITEM(values.get(), 0), 0, names.get()));
}

}  // namespace

Ref flatten(PyObject* value, PyObject* leaves, PyObject* is_leaf) {
  bool failed = false;
  if (stops_at(is_leaf, value, failed)) return leaf(value, leaves);
  if (failed) return Ref();
  PyTypeObject* type = Py_TYPE(value);
  if (is_known_leaf(type)) return leaf(value, leaves);
  if (value == Py_None && is_leaf == nullptr) return Ref::borrow(none_key);
  NodeKind* kind = kind_of(type);
  if (kind == nullptr) return PyErr_Occurred() ? Ref() : leaf(value, leaves);
  Recursion recursion(" while flattening a pytree");
  if (!recursion) return Ref();
  Node node;
  if (!take_apart(kind, value, node)) return Ref();
  PyObject* children = node.children.get();
  Py_ssize_t count = PySequence_Fast_GET_SIZE(children);
  Ref keys = Ref::own(PyTuple_New(count));
  if (!keys) return Ref();
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!has_still(children, count)) return Ref();
    Ref child = Ref::borrow(PySequence_Fast_GET_ITEM(children, i));
    Ref key = flatten(child.get(), leaves, is_leaf);
    if (!key) return Ref();
    PyTuple_SET_ITEM(keys.get(), i, key.release());
  }
  return node_key(type, node.metadata.get(), std::move(keys));
}

Ref flatten_with_path(PyObject* tree, PyObject* pairs, PyObject* is_leaf, bool takes_path) {
  return PathWalk(pairs, is_leaf, takes_path).visit(tree);
}

int flatten_up_to(PyObject* key, PyObject* tree, PyObject* leaves) {
  if (key == Py_None) return PyList_Append(leaves, tree) < 0 ? -1 : 1;
  PyTypeObject* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(key, 0));
  PyObject* metadata = PyTuple_GET_ITEM(key, 1);
  PyObject* keys = PyTuple_GET_ITEM(key, 2);
  if (Py_TYPE(tree) != type) return 0;
  NodeKind* kind = kind_of(type);
  if (kind == nullptr) return PyErr_Occurred() ? -1 : 0;
  Recursion recursion(" while flattening a pytree");
  if (!recursion) return -1;
  Node node;
  if (static_cast<Form>(kind->form) == Form::kDict) {
    // The order of the structure's keys counts, so that other trees need not have sortable ones.
    Py_ssize_t count = PyTuple_GET_SIZE(metadata);
    if (PyDict_GET_SIZE(tree) != count) return 0;
    node.children = Ref::own(PyTuple_New(count));
    if (!node.children) return -1;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* child = PyDict_GetItemWithError(tree, PyTuple_GET_ITEM(metadata, i));
      if (child == nullptr) return PyErr_Occurred() ? -1 : 0;
      PyTuple_SET_ITEM(node.children.get(), i, Py_NewRef(child));
    }
  } else {
    if (!take_apart(kind, tree, node)) return -1;
    int same = PyObject_RichCompareBool(node.metadata.get(), metadata, Py_EQ);
    if (same <= 0) return same;
  }
  Py_ssize_t count = PyTuple_GET_SIZE(keys);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PySequence_Fast_GET_SIZE(node.children.get()) != count) return 0;
    Ref child = Ref::borrow(PySequence_Fast_GET_ITEM(node.children.get(), i));
    int same = flatten_up_to(PyTuple_GET_ITEM(keys, i), child.get(), leaves);
    if (same <= 0) return same;
  }
  return PySequence_Fast_GET_SIZE(node.children.get()) == count ? 1 : 0;
}

Ref build(PyObject* key, Leaves& leaves) {
  if (key == Py_None) return Ref::borrow(*leaves.next++);
  Recursion recursion(" while putting a pytree together");
  if (!recursion) return Ref();
  PyObject* type = PyTuple_GET_ITEM(key, 0);
  PyObject* metadata = PyTuple_GET_ITEM(key, 1);
  PyObject* keys = PyTuple_GET_ITEM(key, 2);
  NodeKind* kind = kind_of(reinterpret_cast<PyTypeObject*>(type));
  if (kind == nullptr) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%R is no class of pytree nodes any more", type);
    return Ref();
  }
  switch (static_cast<Form>(kind->form)) {
    case Form::kTuple:
      return new_tuple(keys, leaves);
    case Form::kList:
      return new_list(keys, leaves);
    case Form::kDict:
      return new_dict(metadata, keys, leaves);
    case Form::kNone:
      return Ref::borrow(Py_None);
    case Form::kNamedTuple: {
      Ref children = new_tuple(keys, leaves);
      return children ? Ref::own(PyObject_Call(type, children.get(), nullptr)) : Ref();
    }
    case Form::kFields:
      return new_from_fields(type, kind, metadata, keys, leaves);
    case Form::kCustom:
      break;
  }
  Ref children = new_list(keys, leaves);
  return children ? Ref::own(PyObject_CallFunctionObjArgs(kind->build, metadata, children.get(), nullptr)) : Ref();
}

int add_tree(PyObject*) {
  none_key = Py_BuildValue("(OO())", reinterpret_cast<PyObject*>(Py_TYPE(Py_None)), Py_None);
  return none_key == nullptr ? -1 : 0;
}

}  // namespace kiln
