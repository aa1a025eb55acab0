#include "tree.h"

#include <cstring>
#include <vector>

namespace kiln {
namespace {

// Tables and functions of base/tree_nodes.py and base/treedef.py, given by `set_tree_tables`.
PyObject* kinds = nullptr;          // class -> NodeKind
PyObject* leaf_types = nullptr;     // classes known to be leaves, which live for ever
PyObject* kind_of_new = nullptr;    // class -> NodeKind or None, for classes in no table yet
PyObject* sorted_keys = nullptr;    // dict -> its keys in order, or an explanation why not
PyObject* explain_count = nullptr;  // raises: too few or too many leaves
PyObject* explain_prefix = nullptr; // raises: the tree does not begin like the structure
PyTypeObject* tree_def_class = nullptr;
PyObject* none_key = nullptr;

// Recently seen leaf classes: most leaves of a tree have the same few.
constexpr size_t kSeen = 64;
PyTypeObject* seen_leaves[kSeen];

size_t place_of(PyTypeObject* type) { return (reinterpret_cast<size_t>(type) >> 4) % kSeen; }

bool is_known_leaf(PyTypeObject* type) { return seen_leaves[place_of(type)] == type; }

Py_ssize_t count_leaves(PyObject* key) {
  if (key == Py_None) return 1;
  PyObject* children = PyTuple_GET_ITEM(key, 2);
  Py_ssize_t count = 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); ++i) count += count_leaves(PyTuple_GET_ITEM(children, i));
  return count;
}

bool is_key(PyObject* key) {
  if (key == Py_None) return true;
  if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) != 3) return false;
  if (!PyType_Check(PyTuple_GET_ITEM(key, 0)) || !PyTuple_CheckExact(PyTuple_GET_ITEM(key, 2))) return false;
  PyObject* children = PyTuple_GET_ITEM(key, 2);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); ++i) {
    if (!is_key(PyTuple_GET_ITEM(children, i))) return false;
  }
  return true;
}

Ref node_key(PyTypeObject* type, PyObject* metadata, Ref children) {
  if (!children) return Ref();
  return Ref::own(PyTuple_Pack(3, reinterpret_cast<PyObject*>(type), metadata, children.get()));
}

// The keys of a dict in the order of its leaves.
Ref keys_of(PyObject* dict) {
  Ref keys = Ref::own(PyDict_Keys(dict));
  if (!keys) return Ref();
  if (PyList_Sort(keys.get()) < 0) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return Ref();
    PyErr_Clear();
    return Ref::own(PyObject_CallOneArg(sorted_keys, dict));
  }
  return Ref::own(PyList_AsTuple(keys.get()));
}

// How a value came apart. `children` is a list or tuple; its size may change while user code runs.
struct Node {
  Ref children;
  Ref metadata;
};

Ref attributes(PyObject* value, PyObject* names) {
  Py_ssize_t count = PyTuple_GET_SIZE(names);
  Ref found = Ref::own(PyTuple_New(count));
  if (!found) return Ref();
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PyObject_GetAttr(value, PyTuple_GET_ITEM(names, i));
    if (item == nullptr) return Ref();
    PyTuple_SET_ITEM(found.get(), i, item);
  }
  return found;
}

bool take_apart(NodeKind* kind, PyObject* value, Node& node) {
  switch (static_cast<Form>(kind->form)) {
    case Form::kTuple:
    case Form::kList:
    case Form::kNamedTuple:
      node.children = Ref::borrow(value);
      node.metadata = Ref::borrow(Py_None);
      return true;
    case Form::kNone:
      node.children = Ref::own(PyTuple_New(0));
      node.metadata = Ref::borrow(Py_None);
      return bool(node.children);
    case Form::kDict: {
      node.metadata = keys_of(value);
      if (!node.metadata) return false;
      Py_ssize_t count = PyTuple_GET_SIZE(node.metadata.get());
      node.children = Ref::own(PyTuple_New(count));
      if (!node.children) return false;
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* key = PyTuple_GET_ITEM(node.metadata.get(), i);
        PyObject* child = PyDict_GetItemWithError(value, key);
        if (child == nullptr) {
          if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, key);
          return false;
        }
        PyTuple_SET_ITEM(node.children.get(), i, Py_NewRef(child));
      }
      return true;
    }
    case Form::kFields:
      node.children = attributes(value, kind->children);
      if (node.children) node.metadata = attributes(value, kind->metadata);
      return node.children && node.metadata;
    case Form::kCustom:
      break;
  }
  Ref pair = Ref::own(PyObject_CallOneArg(kind->flatten, value));
  if (!pair) return false;
  Ref both = Ref::own(PySequence_Tuple(pair.get()));
  if (!both) return false;
  if (PyTuple_GET_SIZE(both.get()) != 2) {
    PyErr_Format(PyExc_ValueError,
                 "flattening a %.200s\nits flatten function returned %zd values\n"
                 "return (children, metadata)",
                 Py_TYPE(value)->tp_name, PyTuple_GET_SIZE(both.get()));
    return false;
  }
  PyObject* children = PyTuple_GET_ITEM(both.get(), 0);
  node.children = Ref::own(PySequence_Tuple(children));
  node.metadata = Ref::borrow(PyTuple_GET_ITEM(both.get(), 1));
  return bool(node.children);
}

bool stops_at(PyObject* is_leaf, PyObject* value, bool& failed) {
  if (is_leaf == nullptr) return false;
  Ref answer = Ref::own(PyObject_CallOneArg(is_leaf, value));
  int truth = answer ? PyObject_IsTrue(answer.get()) : -1;
  failed = truth < 0;
  return truth > 0;
}

Ref leaf(PyObject* value, PyObject* leaves) {
  return PyList_Append(leaves, value) < 0 ? Ref() : Ref::borrow(Py_None);
}

Ref flatten_node(PyObject* value, PyObject* leaves, PyObject* is_leaf) {
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
    if (PySequence_Fast_GET_SIZE(children) != count) {
      PyErr_SetString(PyExc_RuntimeError, "a list changed its size while it was flattened as a pytree");
      return Ref();
    }
    Ref child = Ref::borrow(PySequence_Fast_GET_ITEM(children, i));
    Ref key = flatten_node(child.get(), leaves, is_leaf);
    if (!key) return Ref();
    PyTuple_SET_ITEM(keys.get(), i, key.release());
  }
  return node_key(type, node.metadata.get(), std::move(keys));
}

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

// Append the subtrees of `tree` at the leaves of `key`. Returns 1, 0 where they differ, -1 on error.
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

// NodeKind, the Python type.

int node_kind_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"flatten", "build", "entries", "keyed", "registered", "form", "children", "metadata", nullptr};
  NodeKind* kind = reinterpret_cast<NodeKind*>(self);
  PyObject *flatten, *build, *entries = Py_None, *keyed = Py_None, *children = Py_None, *metadata = Py_None;
  int registered = 1, form = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOpiOO", const_cast<char**>(names), &flatten, &build, &entries,
                                   &keyed, &registered, &form, &children, &metadata)) {
    return -1;
  }
  if (form < 0 || form > static_cast<int>(Form::kFields) ||
      (form == static_cast<int>(Form::kFields) && (!PyTuple_CheckExact(children) || !PyTuple_CheckExact(metadata)))) {
    PyErr_SetString(PyExc_ValueError, "a node kind of fields needs two tuples of names");
    return -1;
  }
  Py_XSETREF(kind->flatten, Py_NewRef(flatten));
  Py_XSETREF(kind->build, Py_NewRef(build));
  Py_XSETREF(kind->entries, Py_NewRef(entries));
  Py_XSETREF(kind->keyed, Py_NewRef(keyed));
  Py_XSETREF(kind->children, Py_NewRef(children));
  Py_XSETREF(kind->metadata, Py_NewRef(metadata));
  kind->registered = static_cast<char>(registered);
  kind->form = form;
  return 0;
}

int node_kind_traverse(PyObject* self, visitproc visit, void* arg) {
  NodeKind* kind = reinterpret_cast<NodeKind*>(self);
  Py_VISIT(kind->flatten);
  Py_VISIT(kind->build);
  Py_VISIT(kind->entries);
  Py_VISIT(kind->keyed);
  Py_VISIT(kind->children);
  Py_VISIT(kind->metadata);
  return 0;
}

int node_kind_clear(PyObject* self) {
  NodeKind* kind = reinterpret_cast<NodeKind*>(self);
  Py_CLEAR(kind->flatten);
  Py_CLEAR(kind->build);
  Py_CLEAR(kind->entries);
  Py_CLEAR(kind->keyed);
  Py_CLEAR(kind->children);
  Py_CLEAR(kind->metadata);
  return 0;
}

void node_kind_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  node_kind_clear(self);
  Py_TYPE(self)->tp_free(self);
}

PyMemberDef node_kind_members[] = {
    {"flatten", T_OBJECT, offsetof(NodeKind, flatten), READONLY, "value -> (children, metadata)"},
    {"build", T_OBJECT, offsetof(NodeKind, build), READONLY, "(metadata, children) -> value"},
    {"entries", T_OBJECT, offsetof(NodeKind, entries), READONLY, "(metadata, number of children) -> key entries"},
    {"keyed", T_OBJECT, offsetof(NodeKind, keyed), READONLY, "value -> ((key entry, child) pairs, metadata)"},
    {"registered", T_BOOL, offsetof(NodeKind, registered), READONLY, "whether somebody registered the class"},
    {nullptr},
};

// TreeDef, the Python type.

PyObject* tree_def_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* key;
  if (!PyArg_ParseTuple(args, "O", &key)) return nullptr;
  if (!is_key(key)) {
    PyErr_Format(PyExc_ValueError, "PyTreeDef(%R)\nthis is no structure\nuse tree_structure(tree)", key);
    return nullptr;
  }
  TreeDef* self = reinterpret_cast<TreeDef*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->key = Py_NewRef(key);
  self->num_leaves = count_leaves(key);
  self->hash = -1;
  return reinterpret_cast<PyObject*>(self);
}

int tree_def_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<TreeDef*>(self)->key);
  return 0;
}

int tree_def_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<TreeDef*>(self)->key);
  return 0;
}

void tree_def_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<TreeDef*>(self)->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  tree_def_clear(self);
  Py_TYPE(self)->tp_free(self);
}

Py_hash_t tree_def_hash(PyObject* self) {
  TreeDef* tree = reinterpret_cast<TreeDef*>(self);
  if (tree->hash == -1) tree->hash = PyObject_Hash(tree->key);
  return tree->hash;
}

PyObject* tree_def_compare(PyObject* self, PyObject* other, int op) {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  int same = self == other;
  if (!same && PyObject_TypeCheck(other, &tree_def_type)) {
    TreeDef *a = reinterpret_cast<TreeDef*>(self), *b = reinterpret_cast<TreeDef*>(other);
    if (a->num_leaves == b->num_leaves && (a->hash == -1 || b->hash == -1 || a->hash == b->hash)) {
      same = PyObject_RichCompareBool(a->key, b->key, Py_EQ);
      if (same < 0) return nullptr;
    }
  }
  return PyBool_FromLong(same == (op == Py_EQ));
}

PyObject* tree_def_unflatten(PyObject* self, PyObject* given) {
  TreeDef* tree = reinterpret_cast<TreeDef*>(self);
  Ref leaves = Ref::own(PySequence_Fast(given, "the leaves of a pytree must be iterable"));
  if (!leaves) return nullptr;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(leaves.get());
  if (count != tree->num_leaves) return PyObject_CallFunction(explain_count, "On", self, count);
  if (tree->key == Py_None) return Py_NewRef(PySequence_Fast_GET_ITEM(leaves.get(), 0));
  // A list may be changed by the user's functions that put nodes together; a tuple may not.
  if (PyList_CheckExact(leaves.get())) leaves = Ref::own(PyList_AsTuple(leaves.get()));
  if (!leaves) return nullptr;
  PyObject** items = PySequence_Fast_ITEMS(leaves.get());
  Leaves rest{items, items + count};
  return build(tree->key, rest).release();
}

PyObject* tree_def_flatten_up_to(PyObject* self, PyObject* tree) {
  Ref leaves = Ref::own(PyList_New(0));
  if (!leaves) return nullptr;
  int same = flatten_up_to(reinterpret_cast<TreeDef*>(self)->key, tree, leaves.get());
  if (same < 0) return nullptr;
  if (same == 0) return PyObject_CallFunctionObjArgs(explain_prefix, self, tree, nullptr);
  return leaves.release();
}

PyMemberDef tree_def_members[] = {
    {"key", T_OBJECT_EX, offsetof(TreeDef, key), READONLY, "The structure as nested tuples."},
    {"num_leaves", T_PYSSIZET, offsetof(TreeDef, num_leaves), READONLY, "The number of leaves."},
    {nullptr},
};

PyMethodDef tree_def_methods[] = {
    {"unflatten", tree_def_unflatten, METH_O,
     "Return the pytree of this structure with the given leaves.\n\n"
     "Raises: ValueError for too few or too many leaves."},
    {"flatten_up_to", tree_def_flatten_up_to, METH_O,
     "Return the subtrees of a tree that stand where this structure has leaves.\n\n"
     "Raises: ValueError when the tree does not begin like this structure."},
    {nullptr},
};

PyObject* tree_flatten(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  PyObject *tree = nullptr, *is_leaf = Py_None;
  if (nargs > 0) tree = args[0];
  if (nargs > 1) is_leaf = args[1];
  bool wrong = nargs > 2;
  for (Py_ssize_t i = 0; i < named && !wrong; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    if (PyUnicode_CompareWithASCIIString(name, "tree") == 0 && tree == nullptr) {
      tree = args[nargs + i];
    } else if (PyUnicode_CompareWithASCIIString(name, "is_leaf") == 0 && nargs < 2) {
      is_leaf = args[nargs + i];
    } else {
      wrong = true;
    }
  }
  if (wrong || tree == nullptr) {
    PyErr_SetString(PyExc_TypeError, "tree_flatten takes a tree and is_leaf: tree_flatten(tree, is_leaf=None)");
    return nullptr;
  }
  Ref leaves = Ref::own(PyList_New(0));
  if (!leaves) return nullptr;
  Ref key = flatten_node(tree, leaves.get(), is_leaf == Py_None ? nullptr : is_leaf);
  if (!key) return nullptr;
  Ref structure = make_tree_def(std::move(key), PyList_GET_SIZE(leaves.get()));
  if (!structure) return nullptr;
  return PyTuple_Pack(2, leaves.get(), structure.get());
}

PyObject* set_tree_tables(PyObject*, PyObject* args) {
  PyObject* given[3];
  PyObject** tables[] = {&kinds, &leaf_types, &kind_of_new};
  if (!PyArg_ParseTuple(args, "O!O!O", &PyDict_Type, &given[0], &PySet_Type, &given[1], &given[2])) return nullptr;
  for (int i = 0; i < 3; ++i) Py_XSETREF(*tables[i], Py_NewRef(given[i]));
  Py_RETURN_NONE;
}

PyObject* set_tree_class(PyObject*, PyObject* args) {
  PyObject* given[4];
  PyObject** tables[] = {&sorted_keys, &explain_count, &explain_prefix};
  if (!PyArg_ParseTuple(args, "O!OOO", &PyType_Type, &given[3], &given[0], &given[1], &given[2])) return nullptr;
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(given[3]), &tree_def_type)) {
    PyErr_SetString(PyExc_TypeError, "structures need a subclass of TreeDef");
    return nullptr;
  }
  for (int i = 0; i < 3; ++i) Py_XSETREF(*tables[i], Py_NewRef(given[i]));
  Py_INCREF(given[3]);
  Py_XSETREF(tree_def_class, reinterpret_cast<PyTypeObject*>(given[3]));
  Py_RETURN_NONE;
}

PyObject* forget_leaf_types(PyObject*, PyObject*) {
  std::memset(seen_leaves, 0, sizeof seen_leaves);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"tree_flatten", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(tree_flatten)), METH_FASTCALL | METH_KEYWORDS,
     "tree_flatten(tree, is_leaf=None)\n--\n\n"
     "Return the leaves of a pytree and its structure.\n\n"
     "Raises: ValueError for a dict whose keys cannot be sorted, RecursionError for one too deep."},
    {"set_tree_tables", set_tree_tables, METH_VARARGS, "Say which classes are nodes and which are leaves."},
    {"set_tree_class", set_tree_class, METH_VARARGS, "Set the class of structures and the functions that explain."},
    {"forget_leaf_types", forget_leaf_types, METH_NOARGS, "Look classes up again: a leaf's class may be a node's now."},
    {nullptr},
};

}  // namespace

PyTypeObject node_kind_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.NodeKind",
    .tp_basicsize = sizeof(NodeKind),
    .tp_dealloc = node_kind_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "How values of one class come apart and are put together.",
    .tp_traverse = node_kind_traverse,
    .tp_clear = node_kind_clear,
    .tp_members = node_kind_members,
    .tp_init = node_kind_init,
    .tp_new = PyType_GenericNew,
};

PyTypeObject tree_def_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.TreeDef",
    .tp_basicsize = sizeof(TreeDef),
    .tp_dealloc = tree_def_dealloc,
    .tp_hash = tree_def_hash,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The structure of a pytree.",
    .tp_traverse = tree_def_traverse,
    .tp_clear = tree_def_clear,
    .tp_richcompare = tree_def_compare,
    .tp_weaklistoffset = offsetof(TreeDef, weakrefs),
    .tp_methods = tree_def_methods,
    .tp_members = tree_def_members,
    .tp_new = tree_def_new,
};

NodeKind* kind_of(PyTypeObject* type) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  PyObject* found = PyDict_GetItemWithError(kinds, object);
  if (found != nullptr) return reinterpret_cast<NodeKind*>(found);
  if (PyErr_Occurred()) return nullptr;
  int leaf = PySet_Contains(leaf_types, object);
  if (leaf < 0) return nullptr;
  if (leaf == 0) {
    Ref made = Ref::own(PyObject_CallOneArg(kind_of_new, object));
    if (!made) return nullptr;
    // The table holds it, so that what is returned here may be borrowed.
    if (made.get() != Py_None) return reinterpret_cast<NodeKind*>(PyDict_GetItemWithError(kinds, object));
    leaf = PySet_Contains(leaf_types, object);
    if (leaf < 0) return nullptr;
  }
  if (leaf) seen_leaves[place_of(type)] = type;
  return nullptr;
}

Ref flatten(PyObject* tree, PyObject* leaves) { return flatten_node(tree, leaves, nullptr); }

Ref make_tree_def(Ref key, Py_ssize_t num_leaves) {
  TreeDef* made = reinterpret_cast<TreeDef*>(tree_def_class->tp_alloc(tree_def_class, 0));
  if (made == nullptr) return Ref();
  made->key = key.release();
  made->num_leaves = num_leaves;
  made->hash = -1;
  return Ref::own(reinterpret_cast<PyObject*>(made));
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

int add_tree(PyObject* module) {
  none_key = Py_BuildValue("(OO())", reinterpret_cast<PyObject*>(Py_TYPE(Py_None)), Py_None);
  if (none_key == nullptr) return -1;
  if (add_type(module, &node_kind_type) < 0 || add_type(module, &tree_def_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
