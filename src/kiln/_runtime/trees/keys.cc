#include "trees/keys.h"

namespace kiln {
namespace {

// The name of an entry's attribute, and the delimiters around it in a printed path.
struct Spelling {
  const char* name;
  const char* before;
  const char* after;
  bool is_quoted;  // by repr, not by str
};

const Spelling& spelling_of(PyObject* self) {
  static const Spelling spellings[] = {{"idx", "[", "]", true},
                                       {"key", "[", "]", true},
                                       {"name", ".", "", false},
                                       {"key", "[<flat index ", ">]", false}};
  if (PyObject_TypeCheck(self, &sequence_key_type)) return spellings[0];
  if (PyObject_TypeCheck(self, &dict_key_type)) return spellings[1];
  if (PyObject_TypeCheck(self, &get_attr_key_type)) return spellings[2];
  return spellings[3];
}

PyObject* value_of(PyObject* self) { return reinterpret_cast<PathEntry*>(self)->value; }

PyObject* entry_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PathEntry* self = reinterpret_cast<PathEntry*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  Ref made = Ref::own(reinterpret_cast<PyObject*>(self));
  char* names[] = {const_cast<char*>(spelling_of(made.get()).name), nullptr};
  PyObject* value;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &value)) return nullptr;
  self->value = Py_NewRef(value);
  return made.release();
}

int entry_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(value_of(self));
  return 0;
}

void entry_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, entry_dealloc)
  Py_CLEAR(reinterpret_cast<PathEntry*>(self)->value);
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

PyObject* entry_compare(PyObject* self, PyObject* other, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(self) != Py_TYPE(other)) Py_RETURN_NOTIMPLEMENTED;
  int same = PyObject_RichCompareBool(value_of(self), value_of(other), Py_EQ);
  return same < 0 ? nullptr : PyBool_FromLong(same == (op == Py_EQ));
}

Py_hash_t entry_hash(PyObject* self) {
  if (Py_EnterRecursiveCall(" while hashing a key path")) return -1;
  Ref values = Ref::own(PyTuple_Pack(1, value_of(self)));
  Py_hash_t hash = values ? PyObject_Hash(values.get()) : -1;
  Py_LeaveRecursiveCall();
  return hash;
}

PyObject* entry_repr(PyObject* self) {
  Ref name =
      Ref::own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "__qualname__"));
  return name
             ? PyUnicode_FromFormat("%S(%s=%R)", name.get(), spelling_of(self).name, value_of(self))
             : nullptr;
}

PyObject* entry_str(PyObject* self) {
  const Spelling& spelling = spelling_of(self);
  return PyUnicode_FromFormat(spelling.is_quoted ? "%s%R%s" : "%s%S%s", spelling.before,
                              value_of(self), spelling.after);
}

PyObject* entry_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(O)", Py_TYPE(self), value_of(self));
}

PyMethodDef entry_methods[] = {
    {"__reduce__", entry_reduce, METH_NOARGS, "Return what pickles the entry."},
    {nullptr},
};

constexpr int kMember = T_OBJECT;
PyMemberDef idx_member[] = {{"idx", kMember, offsetof(PathEntry, value), READONLY, "The position."},
                            {nullptr}};
PyMemberDef key_member[] = {{"key", kMember, offsetof(PathEntry, value), READONLY, "The key."},
                            {nullptr}};
PyMemberDef name_member[] = {
    {"name", kMember, offsetof(PathEntry, value), READONLY, "The attribute."}, {nullptr}};

constexpr PyTypeObject entry_type(const char* name, const char* doc, PyMemberDef* members) {
  PyTypeObject type = {
      .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
  };
  type.tp_name = name;
  type.tp_basicsize = sizeof(PathEntry);
  type.tp_dealloc = entry_dealloc;
  type.tp_repr = entry_repr;
  type.tp_hash = entry_hash;
  type.tp_str = entry_str;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  type.tp_doc = doc;
  type.tp_traverse = entry_traverse;
  type.tp_richcompare = entry_compare;
  type.tp_methods = entry_methods;
  type.tp_members = members;
  type.tp_new = entry_new;
  return type;
}

// Entries are immutable, so one for each of the first positions is shared.
constexpr Py_ssize_t kShared = 256;
PyObject* shared[kShared];

}  // namespace

PyTypeObject sequence_key_type =
    entry_type("kiln.tree_util.SequenceKey", "A position in a tuple or list: `[0]`.", idx_member);
PyTypeObject dict_key_type =
    entry_type("kiln.tree_util.DictKey", "A key of a mapping: `['a']`.", key_member);
PyTypeObject get_attr_key_type =
    entry_type("kiln.tree_util.GetAttrKey", "An attribute: `.x`.", name_member);
PyTypeObject flattened_index_key_type =
    entry_type("kiln.tree_util.FlattenedIndexKey",
               "A child of a registered class that does not name its children.", key_member);

Ref path_entry(PyTypeObject* type, PyObject* value) {
  PathEntry* made = PyObject_GC_New(PathEntry, type);
  if (made == nullptr) return Ref();
  made->value = Py_NewRef(value);
  // An object that holds only a string or an int is in no reference cycle.
  if (!PyUnicode_CheckExact(value) && !PyLong_CheckExact(value)) PyObject_GC_Track(made);
  return Ref::own(reinterpret_cast<PyObject*>(made));
}

Ref sequence_key(Py_ssize_t i) {
  if (i < kShared && shared[i] != nullptr) return Ref::borrow(shared[i]);
  Ref number = Ref::own(PyLong_FromSsize_t(i));
  Ref made = number ? path_entry(&sequence_key_type, number.get()) : Ref();
  if (made && i < kShared) shared[i] = Py_NewRef(made.get());
  return made;
}

int add_tree_keys(PyObject* module) {
  for (PyTypeObject* type :
       {&sequence_key_type, &dict_key_type, &get_attr_key_type, &flattened_index_key_type}) {
    if (add_type(module, type) < 0) return -1;
    Ref names = Ref::own(Py_BuildValue("(s)", type->tp_members[0].name));
    if (!names || PyDict_SetItemString(type->tp_dict, "__match_args__", names.get()) < 0) return -1;
    PyType_Modified(type);
  }
  return 0;
}

}  // namespace kiln
