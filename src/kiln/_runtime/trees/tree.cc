#include "trees/tree.h"

#include <vector>

namespace kiln {
namespace {

PyObject* none_key = nullptr;

Ref node_key(PyObject* type, PyObject* metadata, PyObject* children) {
  return Ref::own(PyTuple_Pack(3, type, metadata, children));
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

// A list may be mutated by the functions that flatten its items. False with an exception
// set.
bool has_still(PyObject* children, Py_ssize_t count) {
  if (PySequence_Fast_GET_SIZE(children) == count) return true;
  PyErr_SetString(PyExc_RuntimeError, "a list changed its size while it was flattened as a pytree");
  return false;
}

Ref leaf(PyObject* value, PyObject* leaves) {
  return PyList_Append(leaves, value) < 0 ? Ref() : Ref::borrow(Py_None);
}

// A node whose children are being flattened.
struct Opened {
  Ref type;
  Node node;
  Ref entries;  // of its children, in a traversal with paths
  Ref keys;
  Py_ssize_t count, next;
};

// Traverses a tree and builds its key. `Reader` handles the subtrees:
// `leaf_or_node(value, opened)` returns the key of a leaf, or null after opening a node, or null
// with an exception set; `enter(opened, i)` and `leave()` are called before and after the i-th
// child.
template <typename Reader>
Ref walk(PyObject* root, Reader& reader) {
  Levels<Opened> levels;
  Ref value = Ref::borrow(root);
  while (true) {
    Opened opened;
    Ref key = reader.leaf_or_node(value.get(), opened);
    if (!key) {
      if (!opened.node.children || !may_enter(levels.size())) return Ref();
      opened.type = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value.get())));
      opened.keys = Ref::own(PyTuple_New(opened.count));
      if (!opened.keys) return Ref();
      opened.next = 0;
      levels.push(std::move(opened));
    }
    while (true) {
      if (levels.empty()) return key;
      Opened& top = levels.top();
      if (key) {
        reader.leave();
        PyTuple_SET_ITEM(top.keys.get(), top.next++, key.release());
      }
      if (top.next < top.count) {
        if (!has_still(top.node.children.get(), top.count)) return Ref();
        value = Ref::borrow(PySequence_Fast_GET_ITEM(top.node.children.get(), top.next));
        reader.enter(top);
        break;
      }
      key = node_key(top.type.get(), top.node.metadata.get(), top.keys.get());
      if (!key) return Ref();
      levels.pop();
    }
  }
}

class Flattening {
 public:
  Flattening(PyObject* leaves, PyObject* is_leaf) : leaves_(leaves), is_leaf_(is_leaf) {}

  Ref leaf_or_node(PyObject* value, Opened& opened) {
    bool failed = false;
    if (stops_at(is_leaf_, value, failed)) return leaf(value, leaves_);
    if (failed) return Ref();
    PyTypeObject* type = Py_TYPE(value);
    if (is_known_leaf(type)) return leaf(value, leaves_);
    if (value == Py_None && is_leaf_ == nullptr) return Ref::borrow(none_key);
    Kind kind = kind_of(type);
    if (!kind) return PyErr_Occurred() ? Ref() : leaf(value, leaves_);
    Node node;
    if (!take_apart(kind.get(), value, node)) return Ref();
    opened.node = std::move(node);
    opened.count = PySequence_Fast_GET_SIZE(opened.node.children.get());
    return Ref();
  }
  void enter(Opened&) {}
  void leave() {}

 private:
  PyObject* leaves_;
  PyObject* is_leaf_;
};

// Keeps the current path; its entries are borrowed from the ancestor nodes.
class PathFlattening {
 public:
  PathFlattening(PyObject* pairs, PyObject* is_leaf, bool takes_path)
      : pairs_(pairs), is_leaf_(is_leaf), takes_path_(takes_path) {}

  Ref leaf_or_node(PyObject* value, Opened& opened) {
    bool failed = false;
    if (stops_here(value, failed)) return leaf_here(value);
    if (failed) return Ref();
    PyTypeObject* type = Py_TYPE(value);
    if (is_known_leaf(type)) return leaf_here(value);
    Kind kind = kind_of(type);
    if (!kind) return PyErr_Occurred() ? Ref() : leaf_here(value);
    Node node;
    opened.entries = take_apart_with_entries(kind.get(), value, node);
    if (!opened.entries) return Ref();
    opened.node = std::move(node);
    opened.count = PyTuple_GET_SIZE(opened.entries.get());
    return Ref();
  }
  void enter(Opened& opened) {
    path_.push_back(PyTuple_GET_ITEM(opened.entries.get(), opened.next));
  }
  void leave() { path_.pop_back(); }

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
    Ref answer =
        here ? Ref::own(PyObject_CallFunctionObjArgs(is_leaf_, here.get(), value, nullptr)) : Ref();
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

// A node that is being unflattened: its children so far, in the node itself or in the arguments
// from which it is built.
struct Unfinished {
  Kind kind;
  PyObject* key;
  Ref children;  // a list, a tuple, or the dict itself
  Py_ssize_t next = 0;

  PyObject* type() const { return PyTuple_GET_ITEM(key, 0); }
  PyObject* metadata() const { return PyTuple_GET_ITEM(key, 1); }
  PyObject* keys() const { return PyTuple_GET_ITEM(key, 2); }
};

bool enter(PyObject* key, Levels<Unfinished>& levels) {
  Unfinished node;
  node.key = key;
  node.kind = kind_of(reinterpret_cast<PyTypeObject*>(node.type()));
  if (!node.kind) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_ValueError, "%R is no longer a class of pytree nodes", node.type());
    }
    return false;
  }
  Py_ssize_t count = PyTuple_GET_SIZE(node.keys());
  switch (node.kind.form()) {
    case Form::kList:
    case Form::kCustom: node.children = Ref::own(PyList_New(count)); break;
    case Form::kDict:
      if (!PyTuple_CheckExact(node.metadata()) || PyTuple_GET_SIZE(node.metadata()) != count) {
        PyErr_SetString(PyExc_ValueError,
                        "the structure of a pytree has other children than its dict");
        return false;
      }
      node.children = Ref::own(PyDict_New());
      break;
    default: node.children = Ref::own(PyTuple_New(count));
  }
  if (!node.children) return false;
  levels.push(std::move(node));
  return true;
}

bool add_child(Unfinished& node, Ref child) {
  Py_ssize_t i = node.next++;
  switch (node.kind.form()) {
    case Form::kList:
    case Form::kCustom: PyList_SET_ITEM(node.children.get(), i, child.release()); return true;
    case Form::kDict:
      return PyDict_SetItem(node.children.get(), PyTuple_GET_ITEM(node.metadata(), i),
                            child.get()) == 0;
    default: PyTuple_SET_ITEM(node.children.get(), i, child.release()); return true;
  }
}

// Construct a dataclass from its fields by name.
Ref new_from_fields(const Unfinished& node) {
  Ref names = Ref::own(PySequence_Concat(node.kind->children, node.kind->metadata));
  Ref values = names ? Ref::own(PySequence_Concat(node.children.get(), node.metadata())) : Ref();
  if (!values) return Ref();
  if (!PyTuple_CheckExact(values.get()) ||
      PyTuple_GET_SIZE(values.get()) != PyTuple_GET_SIZE(names.get())) {
    PyErr_Format(PyExc_ValueError, "%R has other fields than it had in the structure of a pytree",
                 node.type());
    return Ref();
  }
  return Ref::own(
      PyObject_Vectorcall(node.type(), &PyTuple_GET_ITEM(values.get(), 0), 0, names.get()));
}

Ref finish(Unfinished& node) {
  switch (node.kind.form()) {
    case Form::kTuple:
    case Form::kList:
    case Form::kDict: return std::move(node.children);
    case Form::kNone: return Ref::borrow(Py_None);
    case Form::kNamedTuple:
      return Ref::own(PyObject_Call(node.type(), node.children.get(), nullptr));
    case Form::kFields: return new_from_fields(node);
    case Form::kCustom: break;
  }
  return call_held(node.kind->build, node.metadata(), node.children.get());
}

// A node whose children are compared with those of a structure.
struct Compared {
  PyObject* keys;
  Ref children;
  Py_ssize_t next = 0;
};

// Flatten a tree as a node of a structure; 1, 0 if they differ, -1 on error.
int take_apart_as(PyObject* key, PyObject* tree, Compared& found) {
  PyTypeObject* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(key, 0));
  PyObject* metadata = PyTuple_GET_ITEM(key, 1);
  found.keys = PyTuple_GET_ITEM(key, 2);
  if (Py_TYPE(tree) != type) return 0;
  Kind kind = kind_of(type);
  if (!kind) return PyErr_Occurred() ? -1 : 0;
  if (kind.form() == Form::kDict && PyTuple_CheckExact(metadata)) {
    // The structure's key order is used, so that the keys of other trees need not be sortable.
    Py_ssize_t count = PyTuple_GET_SIZE(metadata);
    if (!PyDict_Check(tree) || PyDict_GET_SIZE(tree) != count) return 0;
    found.children = Ref::own(PyTuple_New(count));
    if (!found.children) return -1;
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* child = PyDict_GetItemWithError(tree, PyTuple_GET_ITEM(metadata, i));
      if (child == nullptr) return PyErr_Occurred() ? -1 : 0;
      PyTuple_SET_ITEM(found.children.get(), i, Py_NewRef(child));
    }
  } else {
    Node node;
    if (!take_apart(kind.get(), tree, node)) return -1;
    int same = PyObject_RichCompareBool(node.metadata.get(), metadata, Py_EQ);
    if (same <= 0) return same;
    found.children = std::move(node.children);
  }
  return PySequence_Fast_GET_SIZE(found.children.get()) == PyTuple_GET_SIZE(found.keys);
}

}  // namespace

bool may_enter(size_t depth) {
  if (depth < kDeepest) return true;
  PyErr_Format(PyExc_RecursionError,
               "flattening a pytree\nits containers are nested more than %zu deep, or one of "
               "them contains itself\n"
               "use lists or arrays instead of chains of containers",
               kDeepest);
  return false;
}

Ref flatten(PyObject* value, PyObject* leaves, PyObject* is_leaf) {
  Flattening reader(leaves, is_leaf);
  return walk(value, reader);
}

Ref flatten_with_path(PyObject* tree, PyObject* pairs, PyObject* is_leaf, bool takes_path) {
  PathFlattening reader(pairs, is_leaf, takes_path);
  return walk(tree, reader);
}

int flatten_up_to(PyObject* root, PyObject* tree, PyObject* leaves) {
  Levels<Compared> levels;
  PyObject* key = root;
  Ref value = Ref::borrow(tree);
  while (true) {
    if (key == Py_None) {
      if (PyList_Append(leaves, value.get()) < 0) return -1;
    } else {
      Compared found;
      int same = take_apart_as(key, value.get(), found);
      if (same <= 0) return same;
      levels.push(std::move(found));
    }
    while (true) {
      if (levels.empty()) return 1;
      Compared& top = levels.top();
      // A list may change while its items are flattened.
      if (PySequence_Fast_GET_SIZE(top.children.get()) != PyTuple_GET_SIZE(top.keys)) return 0;
      if (top.next == PyTuple_GET_SIZE(top.keys)) {
        levels.pop();
        continue;
      }
      key = PyTuple_GET_ITEM(top.keys, top.next);
      value = Ref::borrow(PySequence_Fast_GET_ITEM(top.children.get(), top.next));
      ++top.next;
      break;
    }
  }
}

Ref build(PyObject* root, Leaves& leaves) {
  auto next_leaf = [&] {
    if (leaves.next != leaves.end) return Ref::borrow(*leaves.next++);
    PyErr_SetString(PyExc_ValueError, "a pytree has more leaves than were given");
    return Ref();
  };
  if (root == Py_None) return next_leaf();
  Levels<Unfinished> levels;
  if (!enter(root, levels)) return Ref();
  while (true) {
    Unfinished& top = levels.top();
    if (top.next < PyTuple_GET_SIZE(top.keys())) {
      PyObject* key = PyTuple_GET_ITEM(top.keys(), top.next);
      if (key == Py_None) {
        Ref leaf = next_leaf();
        if (!leaf || !add_child(top, std::move(leaf))) return Ref();
      } else if (!enter(key, levels)) {
        return Ref();
      }
      continue;
    }
    Ref made = finish(top);
    if (!made) return made;
    levels.pop();
    if (levels.empty()) return made;
    if (!add_child(levels.top(), std::move(made))) return Ref();
  }
}

int add_tree(PyObject*) {
  none_key = Py_BuildValue("(OO())", reinterpret_cast<PyObject*>(Py_TYPE(Py_None)), Py_None);
  return none_key == nullptr ? -1 : 0;
}

}  // namespace kiln
