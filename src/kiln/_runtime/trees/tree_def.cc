#include "trees/tree_def.h"

#include "trees/tree.h"

namespace kiln {
namespace {

// The class of structures and functions of base/tree/treedef.py, installed by `set_tree_class`.
PyTypeObject* tree_def_class = &tree_def_type;
PyObject* explain_count = nullptr;   // raises: too few or too many leaves
PyObject* explain_prefix = nullptr;  // raises: the tree does not begin like the structure

Py_ssize_t count_leaves(PyObject* key) {
  Py_ssize_t count = 0;
  visit_keys(key, [&](PyObject* each) {
    count += each == Py_None;
    return 1;
  });
  return count;
}

// Whether a node of a class can have such metadata and this many children.
bool is_possible(NodeKind* kind, PyObject* metadata, Py_ssize_t count) {
  switch (static_cast<Form>(kind->form)) {
    case Form::kNone: return count == 0;
    case Form::kDict: return PyTuple_CheckExact(metadata) && PyTuple_GET_SIZE(metadata) == count;
    case Form::kFields:
      return PyTuple_CheckExact(metadata) &&
             PyTuple_GET_SIZE(metadata) == PyTuple_GET_SIZE(kind->metadata) &&
             PyTuple_GET_SIZE(kind->children) == count;
    default: return true;
  }
}

// Whether one node of a structure is valid, regardless of its children. Returns 1 or 0, -1 on
// error.
int is_node(PyObject* key) {
  if (key == Py_None) return 1;
  if (!PyTuple_CheckExact(key) || PyTuple_GET_SIZE(key) != 3) return 0;
  if (!PyType_Check(PyTuple_GET_ITEM(key, 0)) || !PyTuple_CheckExact(PyTuple_GET_ITEM(key, 2))) {
    return 0;
  }
  Kind kind = kind_of(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(key, 0)));
  if (!kind) return PyErr_Occurred() ? -1 : 1;
  return is_possible(kind.get(), PyTuple_GET_ITEM(key, 1),
                     PyTuple_GET_SIZE(PyTuple_GET_ITEM(key, 2)));
}

int is_key(PyObject* key) { return visit_keys(key, is_node); }

// Metadata may hold structures, whose metadata holds structures, and so on.
class Recursion {
 public:
  explicit Recursion(const char* where) : entered_(Py_EnterRecursiveCall(where) == 0) {}
  Recursion(const Recursion&) = delete;
  ~Recursion() {
    if (entered_) Py_LeaveRecursiveCall();
  }
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

// Hash a structure, consistently with equality; -1 with an exception set. Unhashable metadata does
// not contribute.
Py_hash_t hash_of(PyObject* key, char& is_hashable) {
  Recursion recursion(" while hashing the structure of a pytree");
  if (!recursion) return -1;
  size_t hash = 0x345678;
  is_hashable = 1;
  auto mix = [&](size_t value) { hash = (hash ^ value) * 1000003 + 97531; };
  int answer = visit_keys(key, [&](PyObject* each) {
    if (each == Py_None) {
      mix(1);
      return 1;
    }
    PyObject* metadata = PyTuple_GET_ITEM(each, 1);
    Py_hash_t found = metadata == Py_None ? 2 : PyObject_Hash(metadata);
    if (found == -1) {
      if (!PyErr_ExceptionMatches(PyExc_Exception) ||
          PyErr_ExceptionMatches(PyExc_RecursionError)) {
        return -1;
      }
      PyErr_Clear();
      is_hashable = 0;
    }
    mix(reinterpret_cast<size_t>(PyTuple_GET_ITEM(each, 0)) >> 4);
    mix(static_cast<size_t>(found));
    mix(static_cast<size_t>(PyTuple_GET_SIZE(PyTuple_GET_ITEM(each, 2))));
    return 1;
  });
  if (answer < 0) return -1;
  Py_hash_t found = static_cast<Py_hash_t>(hash);
  return found == -1 ? -2 : found;
}

// Compare structures: 1, 0, -1 on error.
int is_same(PyObject* one, PyObject* other) {
  struct Level {
    PyObject *one, *other;
    Py_ssize_t next;
  };
  Recursion recursion(" while comparing the structures of pytrees");
  if (!recursion) return -1;
  Levels<Level> levels;
  while (true) {
    if (one != other) {
      if (one == Py_None || other == Py_None ||
          PyTuple_GET_ITEM(one, 0) != PyTuple_GET_ITEM(other, 0)) {
        return 0;
      }
      PyObject *a = PyTuple_GET_ITEM(one, 2), *b = PyTuple_GET_ITEM(other, 2);
      if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return 0;
      int same =
          PyObject_RichCompareBool(PyTuple_GET_ITEM(one, 1), PyTuple_GET_ITEM(other, 1), Py_EQ);
      if (same <= 0) return same;
      levels.push({a, b, 0});
    }
    while (!levels.empty() && levels.top().next == PyTuple_GET_SIZE(levels.top().one)) levels.pop();
    if (levels.empty()) return 1;
    Level& top = levels.top();
    one = PyTuple_GET_ITEM(top.one, top.next);
    other = PyTuple_GET_ITEM(top.other, top.next);
    ++top.next;
  }
}

PyObject* tree_def_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* key;
  if (!PyArg_ParseTuple(args, "O", &key)) return nullptr;
  int answer = is_key(key);
  if (answer < 0) return nullptr;
  if (answer == 0) {
    PyErr_Format(PyExc_ValueError,
                 "PyTreeDef(%.200R)\nthis is not a structure\nuse tree_structure(tree)", key);
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

void tree_def_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, tree_def_dealloc)
  if (reinterpret_cast<TreeDef*>(self)->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  Py_CLEAR(reinterpret_cast<TreeDef*>(self)->key);
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

Py_hash_t tree_def_hash(PyObject* self) {
  TreeDef* tree = reinterpret_cast<TreeDef*>(self);
  if (tree->hash == -1) tree->hash = hash_of(tree->key, tree->is_hashable);
  return tree->hash;
}

PyObject* tree_def_is_hashable(PyObject* self, void*) {
  if (tree_def_hash(self) == -1) return nullptr;
  return PyBool_FromLong(reinterpret_cast<TreeDef*>(self)->is_hashable);
}

PyGetSetDef tree_def_fields[] = {
    {"is_hashable", tree_def_is_hashable, nullptr, "Whether all metadata of nodes has a hash.",
     nullptr},
    {nullptr},
};

PyObject* tree_def_compare(PyObject* self, PyObject* other, int op) {
  if (op != Py_EQ && op != Py_NE) Py_RETURN_NOTIMPLEMENTED;
  int same = self == other;
  if (!same && PyObject_TypeCheck(other, &tree_def_type)) {
    TreeDef *a = reinterpret_cast<TreeDef*>(self), *b = reinterpret_cast<TreeDef*>(other);
    if (a->num_leaves == b->num_leaves && (a->hash == -1 || b->hash == -1 || a->hash == b->hash)) {
      same = is_same(a->key, b->key);
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
  if (count != tree->num_leaves) {
    Ref number = Ref::own(PyLong_FromSsize_t(count));
    return number ? call_held(explain_count, self, number.get()).release() : nullptr;
  }
  if (tree->key == Py_None) return Py_NewRef(PySequence_Fast_GET_ITEM(leaves.get(), 0));
  // A list may be mutated by user functions that unflatten nodes; a tuple may not.
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
  if (same == 0) return call_held(explain_prefix, self, tree).release();
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
     "Raises: ValueError if this structure is not a prefix of the tree."},
    {nullptr},
};

// Sort the arguments of a call by name; missing ones are left unchanged. False with an exception
// set.
template <size_t N>
bool take_arguments(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                    const char* const (&names)[N], PyObject* (&values)[N], const char* usage) {
  Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  bool wrong = nargs > static_cast<Py_ssize_t>(N);
  for (Py_ssize_t i = 0; i < nargs && !wrong; ++i) values[i] = args[i];
  for (Py_ssize_t i = 0; i < named && !wrong; ++i) {
    size_t position = static_cast<size_t>(nargs);
    while (position < N &&
           PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), names[position]) != 0) {
      ++position;
    }
    wrong = position == N;
    if (!wrong) values[position] = args[nargs + i];
  }
  if (wrong || values[0] == nullptr) PyErr_SetString(PyExc_TypeError, usage);
  return !wrong && values[0] != nullptr;
}

PyObject* with_structure(Ref found, Ref key) {
  Ref structure = key ? make_tree_def(std::move(key), PyList_GET_SIZE(found.get())) : Ref();
  return structure ? PyTuple_Pack(2, found.get(), structure.get()) : nullptr;
}

PyObject* function_or_null(PyObject* given) { return given == Py_None ? nullptr : given; }

PyObject* tree_flatten(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const char* const names[] = {"tree", "is_leaf"};
  PyObject* values[] = {nullptr, Py_None};
  const char* usage = "tree_flatten takes a tree and is_leaf: tree_flatten(tree, is_leaf=None)";
  if (!take_arguments(args, nargs, kwnames, names, values, usage)) return nullptr;
  Ref leaves = Ref::own(PyList_New(0));
  if (!leaves) return nullptr;
  Ref key = flatten(values[0], leaves.get(), function_or_null(values[1]));
  return with_structure(std::move(leaves), std::move(key));
}

PyObject* tree_flatten_with_path(PyObject*, PyObject* const* args, Py_ssize_t nargs,
                                 PyObject* kwnames) {
  static const char* const names[] = {"tree", "is_leaf", "is_leaf_takes_path"};
  PyObject* values[] = {nullptr, Py_None, Py_False};
  const char* usage =
      "tree_flatten_with_path takes a tree, is_leaf and is_leaf_takes_path: "
      "tree_flatten_with_path(tree, is_leaf=None, is_leaf_takes_path=False)";
  if (!take_arguments(args, nargs, kwnames, names, values, usage)) return nullptr;
  int takes_path = PyObject_IsTrue(values[2]);
  if (takes_path < 0) return nullptr;
  Ref pairs = Ref::own(PyList_New(0));
  if (!pairs) return nullptr;
  Ref key = flatten_with_path(values[0], pairs.get(), function_or_null(values[1]), takes_path > 0);
  return with_structure(std::move(pairs), std::move(key));
}

PyObject* set_tree_class(PyObject*, PyObject* args) {
  PyObject *cls, *count, *prefix;
  if (!PyArg_ParseTuple(args, "O!OO", &PyType_Type, &cls, &count, &prefix)) return nullptr;
  if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &tree_def_type)) {
    PyErr_SetString(PyExc_TypeError, "structures need a subclass of TreeDef");
    return nullptr;
  }
  Py_XSETREF(explain_count, Py_NewRef(count));
  Py_XSETREF(explain_prefix, Py_NewRef(prefix));
  Ref old = Ref::own(reinterpret_cast<PyObject*>(
      std::exchange(tree_def_class, reinterpret_cast<PyTypeObject*>(Py_NewRef(cls)))));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"tree_flatten", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(tree_flatten)),
     METH_FASTCALL | METH_KEYWORDS,
     "tree_flatten(tree, is_leaf=None)\n--\n\n"
     "Return the leaves of a pytree and its structure.\n\n"
     "Raises: ValueError for a dict whose keys cannot be sorted, RecursionError for one too deep."},
    {"tree_flatten_with_path",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(tree_flatten_with_path)),
     METH_FASTCALL | METH_KEYWORDS,
     "tree_flatten_with_path(tree, is_leaf=None, is_leaf_takes_path=False)\n--\n\n"
     "Return (key path, leaf) pairs of a pytree and its structure."},
    {"set_tree_class", set_tree_class, METH_VARARGS,
     "Set the class of structures and the functions that explain errors."},
    {nullptr},
};

}  // namespace

PyTypeObject tree_def_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.TreeDef",
    .tp_basicsize = sizeof(TreeDef),
    .tp_dealloc = tree_def_dealloc,
    .tp_hash = tree_def_hash,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The structure of a pytree.",
    .tp_traverse = tree_def_traverse,
    .tp_richcompare = tree_def_compare,
    .tp_weaklistoffset = offsetof(TreeDef, weakrefs),
    .tp_methods = tree_def_methods,
    .tp_members = tree_def_members,
    .tp_getset = tree_def_fields,
    .tp_new = tree_def_new,
};

Ref make_tree_def(Ref key, Py_ssize_t num_leaves) {
  TreeDef* made = reinterpret_cast<TreeDef*>(tree_def_class->tp_alloc(tree_def_class, 0));
  if (made == nullptr) return Ref();
  made->key = key.release();
  made->num_leaves = num_leaves;
  made->hash = -1;
  return Ref::own(reinterpret_cast<PyObject*>(made));
}

int add_tree_def(PyObject* module) {
  Py_INCREF(&tree_def_type);
  if (add_type(module, &tree_def_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
