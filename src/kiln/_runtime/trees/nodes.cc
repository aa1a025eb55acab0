#include "trees/nodes.h"

#include <cstring>

#include "objects/enumeration.h"
#include "trees/keys.h"

namespace kiln {

PyTypeObject* seen_leaves[kSeen];

namespace {

// Tables and functions of base/tree/nodes.py, installed by `set_tree_tables`.
PyObject* kinds = nullptr;        // class -> NodeKind
PyObject* leaf_types = nullptr;   // classes known to be leaves, which are immortal
PyObject* kind_of_new = nullptr;  // class -> NodeKind or None, for classes in no table yet
PyObject* sorted_keys = nullptr;  // dict -> its keys in order, or an explanation why not

// The keys of a dict in the order of its leaves.
Ref keys_of(PyObject* dict) {
  Ref keys = Ref::own(PyDict_Keys(dict));
  if (!keys) return Ref();
  if (PyList_Sort(keys.get()) < 0) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return Ref();
    PyErr_Clear();
    return call_held(sorted_keys, dict);
  }
  return Ref::own(PyList_AsTuple(keys.get()));
}

// Whether comparing and hashing the keys runs no Python code.
bool has_plain_keys(PyObject* dict) {
  Py_ssize_t position = 0;
  PyObject* key;
  while (PyDict_Next(dict, &position, &key, nullptr)) {
    if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return false;
  }
  return true;
}

// A dict may change between any two steps that run Python code, or that collect garbage: other
// threads, and finalizers. Its keys and children are a consistent snapshot: either no such step
// happens between the first key and the last child, or they are taken from a copy.
bool take_dict_apart(PyObject* dict, Node& node) {
  bool is_copy = !has_plain_keys(dict);
  for (Ref held = is_copy ? Ref::own(PyDict_Copy(dict)) : Ref::borrow(dict); held;
       held = Ref::own(PyDict_Copy(dict)), is_copy = true) {
    node.metadata = keys_of(held.get());
    if (!node.metadata) return false;
    if (!PyTuple_CheckExact(node.metadata.get())) {
      PyErr_SetString(PyExc_TypeError, "the keys of a dict in their order are a tuple");
      return false;
    }
    Py_ssize_t count = PyTuple_GET_SIZE(node.metadata.get());
    node.children = Ref::own(PyTuple_New(count));
    if (!node.children) return false;
    bool is_same = is_copy || PyDict_GET_SIZE(held.get()) == count;
    for (Py_ssize_t i = 0; i < count && is_same; ++i) {
      PyObject* key = PyTuple_GET_ITEM(node.metadata.get(), i);
      PyObject* child = PyDict_GetItemWithError(held.get(), key);
      if (child == nullptr && PyErr_Occurred()) return false;
      if (child == nullptr && is_copy) {
        PyErr_SetObject(PyExc_KeyError, key);
        return false;
      }
      is_same = child != nullptr;
      if (is_same) PyTuple_SET_ITEM(node.children.get(), i, Py_NewRef(child));
    }
    if (is_same) return true;
  }
  return false;
}

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

// Call a function that splits a value into two.
bool call_for_two(PyObject* function, const char* role, PyObject* value, Ref& first, Ref& second) {
  Ref pair = call_held(function, value);
  Ref both = pair ? Ref::own(PySequence_Tuple(pair.get())) : Ref();
  if (!both) return false;
  if (PyTuple_GET_SIZE(both.get()) != 2) {
    PyErr_Format(
        PyExc_ValueError,
        "flattening a %.200s\nThe to_iterable function for a custom PyTree node should return "
        "a (children, aux_data) tuple, got %R\nreturn (%s, metadata)",
        Py_TYPE(value)->tp_name, pair.get(), role);
    return false;
  }
  PyObject* children = PyTuple_GET_ITEM(both.get(), 0);
  if (Py_TYPE(children)->tp_iter == nullptr && !PySequence_Check(children)) {
    PyErr_Format(
        PyExc_ValueError,
        "flattening a %.200s\nThe to_iterable function for a custom PyTree node should return "
        "a (children, aux_data) tuple where 'children' is iterable, got %R\n"
        "return (%s, metadata)",
        Py_TYPE(value)->tp_name, pair.get(), role);
    return false;
  }
  first = Ref::own(PySequence_Tuple(children));
  second = Ref::borrow(PyTuple_GET_ITEM(both.get(), 1));
  return bool(first);
}

template <typename Entry>
Ref tuple_of(Py_ssize_t count, Entry entry) {
  Ref made = Ref::own(PyTuple_New(count));
  for (Py_ssize_t i = 0; made && i < count; ++i) {
    Ref item = entry(i);
    if (!item) return Ref();
    PyTuple_SET_ITEM(made.get(), i, item.release());
  }
  return made;
}

Ref attribute_entries(PyObject* names) {
  return tuple_of(PyTuple_GET_SIZE(names), [&](Py_ssize_t i) {
    return path_entry(&get_attr_key_type, PyTuple_GET_ITEM(names, i));
  });
}

// The key entries of a node known by its metadata.
Ref entries_of(NodeKind* kind, PyObject* metadata, Py_ssize_t count) {
  Ref entries;
  switch (static_cast<Form>(kind->form)) {
    case Form::kTuple:
    case Form::kList: return tuple_of(count, sequence_key);
    case Form::kDict:
      if (!PyTuple_CheckExact(metadata)) {
        PyErr_SetString(PyExc_TypeError, "the metadata of a dict is a tuple of keys");
        return Ref();
      }
      return tuple_of(PyTuple_GET_SIZE(metadata), [&](Py_ssize_t i) {
        return path_entry(&dict_key_type, PyTuple_GET_ITEM(metadata, i));
      });
    case Form::kNone: return Ref::own(PyTuple_New(0));
    case Form::kNamedTuple:
    case Form::kFields: entries = Ref::borrow(kind->entries); break;
    case Form::kCustom:
      if (kind->entries == Py_None) {
        return tuple_of(count, [](Py_ssize_t i) {
          Ref number = Ref::own(PyLong_FromSsize_t(i));
          return number ? path_entry(&flattened_index_key_type, number.get()) : Ref();
        });
      }
      Ref number = Ref::own(PyLong_FromSsize_t(count));
      Ref given = number ? call_held(kind->entries, metadata, number.get()) : Ref();
      entries = given ? Ref::own(PySequence_Tuple(given.get())) : Ref();
  }
  if (entries && !PyTuple_CheckExact(entries.get())) {
    PyErr_SetString(PyExc_TypeError, "the key entries of a node kind are a tuple");
    return Ref();
  }
  if (entries && PyTuple_GET_SIZE(entries.get()) != count) {
    PyErr_Format(PyExc_ValueError,
                 "the key paths of a pytree\na node has %zd children and %zd names for them\n"
                 "name every child, and nothing else",
                 count, PyTuple_GET_SIZE(entries.get()));
    return Ref();
  }
  return entries;
}

PyObject* node_kind_new(PyTypeObject* type, PyObject*, PyObject*) {
  NodeKind* kind = reinterpret_cast<NodeKind*>(type->tp_alloc(type, 0));
  if (kind == nullptr) return nullptr;
  for (PyObject** field : {&kind->flatten, &kind->build, &kind->entries, &kind->keyed,
                           &kind->children, &kind->metadata}) {
    *field = Py_NewRef(Py_None);
  }
  return reinterpret_cast<PyObject*>(kind);
}

int node_kind_init(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"flatten", "build",    "entries",  "keyed", "registered",
                                "form",    "children", "metadata", nullptr};
  NodeKind* kind = reinterpret_cast<NodeKind*>(self);
  if (!may_be_made(kind->is_made, self)) return -1;
  PyObject *flatten = Py_None, *build = Py_None, *entries = Py_None, *keyed = Py_None,
           *children = Py_None, *metadata = Py_None;
  int registered = 1, form = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOpiOO", const_cast<char**>(names), &flatten,
                                   &build, &entries, &keyed, &registered, &form, &children,
                                   &metadata)) {
    return -1;
  }
  bool is_fields = form == static_cast<int>(Form::kFields);
  bool is_named = is_fields || form == static_cast<int>(Form::kNamedTuple);
  if (is_named && PyTuple_CheckExact(children) &&
      PyTuple_CheckExact(is_fields ? metadata : children)) {
    for (PyObject* names : {children, is_fields ? metadata : children}) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
        if (PyUnicode_Check(PyTuple_GET_ITEM(names, i))) continue;
        PyErr_SetString(PyExc_TypeError, "the names of children and metadata are strings");
        return -1;
      }
    }
  }
  if (form < 0 || form > static_cast<int>(Form::kFields) ||
      (is_named && !PyTuple_CheckExact(children)) || (is_fields && !PyTuple_CheckExact(metadata))) {
    PyErr_SetString(PyExc_ValueError, "a node kind with named children needs tuples of names");
    return -1;
  }
  if (form == static_cast<int>(Form::kCustom) &&
      (!PyCallable_Check(flatten) || !PyCallable_Check(build))) {
    PyErr_SetString(PyExc_ValueError, "a node kind without a form needs functions");
    return -1;
  }
  Ref keys = is_named ? attribute_entries(children) : Ref::borrow(entries);
  if (!keys) return -1;
  Py_XSETREF(kind->flatten, Py_NewRef(flatten));
  Py_XSETREF(kind->build, Py_NewRef(build));
  Py_XSETREF(kind->entries, keys.release());
  Py_XSETREF(kind->keyed, Py_NewRef(keyed));
  Py_XSETREF(kind->children, Py_NewRef(children));
  Py_XSETREF(kind->metadata, Py_NewRef(metadata));
  kind->registered = static_cast<char>(registered);
  kind->form = form;
  kind->is_made = 1;
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
  for (PyObject** field : {&kind->flatten, &kind->build, &kind->entries, &kind->keyed}) {
    Py_XSETREF(*field, Py_NewRef(Py_None));
  }
  return 0;
}

void node_kind_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, node_kind_dealloc)
  NodeKind* kind = reinterpret_cast<NodeKind*>(self);
  for (PyObject** field : {&kind->flatten, &kind->build, &kind->entries, &kind->keyed,
                           &kind->children, &kind->metadata}) {
    Py_CLEAR(*field);
  }
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

PyObject* node_kind_take_apart(PyObject* self, PyObject* value) {
  Node node;
  if (!take_apart(reinterpret_cast<NodeKind*>(self), value, node)) return nullptr;
  return PyTuple_Pack(2, node.children.get(), node.metadata.get());
}

PyObject* node_kind_with_entries(PyObject* self, PyObject* value) {
  Node node;
  Ref entries = take_apart_with_entries(reinterpret_cast<NodeKind*>(self), value, node);
  // As many children as entries, even if a list is mutated.
  Ref children = entries ? Ref::own(PySequence_Tuple(node.children.get())) : Ref();
  return children ? PyTuple_Pack(3, entries.get(), children.get(), node.metadata.get()) : nullptr;
}

PyObject* node_kind_entries_of(PyObject* self, PyObject* args) {
  NodeKind* kind = reinterpret_cast<NodeKind*>(self);
  PyObject* metadata;
  Py_ssize_t count;
  if (!PyArg_ParseTuple(args, "On", &metadata, &count)) return nullptr;
  if (count < 0) {
    PyErr_SetString(PyExc_ValueError, "a node has at least 0 children");
    return nullptr;
  }
  return entries_of(kind, metadata, count).release();
}

PyMethodDef node_kind_methods[] = {
    {"take_apart", node_kind_take_apart, METH_O,
     "Return the children and the metadata of a value."},
    {"with_entries", node_kind_with_entries, METH_O,
     "Return the key entries, the children and the metadata of a value."},
    {"entries_of", node_kind_entries_of, METH_VARARGS,
     "Return the key entries of a node known by its metadata and the number of its children."},
    {nullptr},
};

PyMemberDef node_kind_members[] = {
    {"registered", T_BOOL, offsetof(NodeKind, registered), READONLY,
     "whether somebody registered the class"},
    {nullptr},
};

PyObject* set_tree_tables(PyObject*, PyObject* args) {
  PyObject* given[4];
  PyObject** tables[] = {&kinds, &leaf_types, &kind_of_new, &sorted_keys};
  if (!PyArg_ParseTuple(args, "O!O!OO", &PyDict_Type, &given[0], &PySet_Type, &given[1], &given[2],
                        &given[3])) {
    return nullptr;
  }
  for (int i = 0; i < 4; ++i) Py_XSETREF(*tables[i], Py_NewRef(given[i]));
  Py_RETURN_NONE;
}

PyObject* forget_leaf_types(PyObject*, PyObject*) {
  std::memset(seen_leaves, 0, sizeof seen_leaves);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_tree_tables", set_tree_tables, METH_VARARGS,
     "Set the tables of node classes and leaf classes."},
    {"forget_leaf_types", forget_leaf_types, METH_NOARGS,
     "Forget cached leaf classes: one may have been registered as a node."},
    {nullptr},
};

}  // namespace

PyTypeObject node_kind_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.NodeKind",
    .tp_basicsize = sizeof(NodeKind),
    .tp_dealloc = node_kind_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "How values of one class are flattened and unflattened.",
    .tp_traverse = node_kind_traverse,
    .tp_clear = node_kind_clear,
    .tp_methods = node_kind_methods,
    .tp_members = node_kind_members,
    .tp_init = node_kind_init,
    .tp_new = node_kind_new,
};

Kind kind_of(PyTypeObject* type) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  if (kinds == nullptr) {
    PyErr_SetString(PyExc_RuntimeError,
                    "kiln._runtime has no classes of nodes yet: import kiln first");
    return Kind();
  }
  Ref found = Ref::borrow(PyDict_GetItemWithError(kinds, object));
  if (!found) {
    if (PyErr_Occurred()) return Kind();
    int leaf = PySet_Contains(leaf_types, object);
    if (leaf == 0) {
      found = call_held(kind_of_new, object);
      if (!found) return Kind();
      leaf = found.get() == Py_None ? PySet_Contains(leaf_types, object) : -1;
    }
    if (leaf > 0) seen_leaves[place_of(type)] = type;
    if (!found || found.get() == Py_None) return Kind();
  }
  if (!PyObject_TypeCheck(found.get(), &node_kind_type)) {
    PyErr_Format(PyExc_TypeError, "the class %R is registered as a %.100s", object,
                 Py_TYPE(found.get())->tp_name);
    return Kind();
  }
  return Kind(std::move(found));
}

// Whether a value really has the form: kinds may be queried for values of any class.
bool has_form(Form form, PyObject* value) {
  switch (form) {
    case Form::kTuple:
    case Form::kNamedTuple: return PyTuple_Check(value);
    case Form::kList: return PyList_Check(value);
    case Form::kDict: return PyDict_Check(value);
    default: return true;
  }
}

bool take_apart(NodeKind* kind, PyObject* value, Node& node) {
  Form form = static_cast<Form>(kind->form);
  if (!has_form(form, value)) {
    PyErr_Format(PyExc_TypeError, "a %.100s cannot be flattened as its kind requires",
                 Py_TYPE(value)->tp_name);
    return false;
  }
  switch (form) {
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
    case Form::kDict: return take_dict_apart(value, node);
    case Form::kFields:
      node.children = attributes(value, kind->children);
      if (node.children) node.metadata = attributes(value, kind->metadata);
      return node.children && node.metadata;
    case Form::kCustom: break;
  }
  return call_for_two(kind->flatten, "children", value, node.children, node.metadata);
}

Ref take_apart_with_entries(NodeKind* kind, PyObject* value, Node& node) {
  if (kind->keyed == Py_None) {
    if (!take_apart(kind, value, node)) return Ref();
    return entries_of(kind, node.metadata.get(), PySequence_Fast_GET_SIZE(node.children.get()));
  }
  Ref pairs;
  if (!call_for_two(kind->keyed, "(key, child) pairs", value, pairs, node.metadata)) return Ref();
  Py_ssize_t count = PyTuple_GET_SIZE(pairs.get());
  Ref entries = Ref::own(PyTuple_New(count));
  node.children = Ref::own(PyTuple_New(count));
  if (!entries || !node.children) return Ref();
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref pair = Ref::own(PySequence_Tuple(PyTuple_GET_ITEM(pairs.get(), i)));
    if (!pair) return Ref();
    if (PyTuple_GET_SIZE(pair.get()) != 2) {
      PyErr_Format(PyExc_ValueError,
                   "flattening a %.200s\nchild %zd came with %zd values\n"
                   "return a pair of a key and a child for each",
                   Py_TYPE(value)->tp_name, i, PyTuple_GET_SIZE(pair.get()));
      return Ref();
    }
    PyTuple_SET_ITEM(entries.get(), i, Py_NewRef(PyTuple_GET_ITEM(pair.get(), 0)));
    PyTuple_SET_ITEM(node.children.get(), i, Py_NewRef(PyTuple_GET_ITEM(pair.get(), 1)));
  }
  return entries;
}

int add_tree_nodes(PyObject* module) {
  auto number = [](Form form) { return static_cast<int>(form); };
  if (add_type(module, &node_kind_type) < 0 ||
      add_enumeration(module, "Form",
                      "The built-in ways to flatten a node of a pytree, which need no function.",
                      {{"CUSTOM", number(Form::kCustom)},
                       {"TUPLE", number(Form::kTuple)},
                       {"LIST", number(Form::kList)},
                       {"DICT", number(Form::kDict)},
                       {"NONE", number(Form::kNone)},
                       {"NAMEDTUPLE", number(Form::kNamedTuple)},
                       {"FIELDS", number(Form::kFields)}}) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
