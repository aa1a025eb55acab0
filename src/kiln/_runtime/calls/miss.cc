#include "calls/miss.h"

#include <climits>

#include "programs/placed.h"
#include "state/state.h"
#include "trees/tree.h"
#include "trees/tree_def.h"

namespace kiln {
namespace {

constexpr size_t kMost = 8;

// Whether equality of static values of a kind is decided here.
bool is_plain_static(PyObject* value, int depth = 0) {
  constexpr int kDeepest = 100;
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyTuple_Type) {
    if (depth == kDeepest) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (!is_plain_static(PyTuple_GET_ITEM(value, i), depth + 1)) return false;
    }
    return true;
  }
  return type == &PyLong_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyFloat_Type || type == &PyComplex_Type ||
         type == &PyFunction_Type || type == &PyType_Type || value == Py_None;
}

// Record the metadata that traversing such a structure compares; -1 with an exception set, 0 if
// some of it is unhashable: it may be mutated, which `_call` handles.
int note_metadata(PyObject* root, std::vector<Static>& metadata) {
  return visit_keys(root, [&](PyObject* key) {
    if (key == Py_None) return 1;
    Kind kind = kind_of(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(key, 0)));
    if (!kind && PyErr_Occurred()) return -1;
    if (kind && is_plain_container(kind.form())) return 1;
    PyObject* value = PyTuple_GET_ITEM(key, 1);
    Static s;
    s.value = Ref::borrow(value);
    s.is_plain = is_plain_static(value);
    if (!s.is_plain) s.hash = PyObject_Hash(value);
    if (s.hash == -1) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
      PyErr_Clear();
      return 0;
    }
    metadata.push_back(std::move(s));
    return 1;
  });
}

// What a leaf of a call must match; false if such leaves are left to `_call`.
bool describe(PyObject* object, PyObject* aval, Leaf& leaf) {
  leaf.type = Py_TYPE(object);
  if (is_array(object) || is_placed(object)) {
    leaf.aval = Ref::borrow(aval);
    if (is_array(object)) return true;
    leaf.sharding = Ref::borrow(reinterpret_cast<ArrayData*>(object)->sharding);
    leaf.committed = reinterpret_cast<ArrayData*>(object)->committed;
    return true;
  }
  if (PyArray_CheckExact(object)) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
    leaf.dtype = Ref::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
    leaf.shape.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
    return true;
  }
  if (leaf.type == &PyLong_Type) {
    Ref dtype = Ref::own(PyObject_GetAttrString(aval, "dtype"));
    Ref size = dtype ? Ref::own(PyObject_GetAttrString(dtype.get(), "itemsize")) : Ref();
    long bytes = size ? PyLong_AsLong(size.get()) : 0;
    dismiss_exception();
    if (bytes != 4 && bytes != 8) return false;
    leaf.greatest = bytes == 4 ? INT32_MAX : INT64_MAX;
    leaf.least = -leaf.greatest - 1;
    return true;
  }
  return leaf.type == &PyFloat_Type || leaf.type == &PyBool_Type || leaf.type == &PyComplex_Type ||
         PyArray_CheckScalar(object);
}

bool is_argument(Py_ssize_t position, Py_ssize_t most) {
  if (0 <= position && position < most) return true;
  PyErr_SetString(PyExc_IndexError, "a call has no argument with that number");
  return false;
}

bool is_tuple(PyObject* given) {
  if (PyTuple_Check(given)) return true;
  PyErr_SetString(PyExc_TypeError, "the parts of a call are described by tuples");
  return false;
}

// Read how a value is compared: what `comparison_of` in jit/signatures/static_values.py returns.
bool read_static(PyObject* given, Static& s) {
  PyObject *value, *key, *names, *parts;
  int is_constant;
  if (!is_tuple(given) || !PyArg_ParseTuple(given, "OOpOO!", &value, &key, &is_constant, &names,
                                            &PyTuple_Type, &parts)) {
    return false;
  }
  s.is_constant = is_constant != 0;
  s.value = Ref::borrow(value);
  s.is_plain = is_plain_static(value);
  if (key != Py_None) s.key = Ref::borrow(key);
  Py_ssize_t count = PyTuple_GET_SIZE(parts);
  bool is_named = names != Py_None;
  if (is_named && (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) != count)) {
    PyErr_SetString(PyExc_TypeError, "fields are compared by name and value");
    return false;
  }
  s.has_parts = count > 0 || !is_named;
  if (is_named && count > 0) s.names = Ref::borrow(names);
  s.parts.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts, i);
    if ((is_named && !PyUnicode_Check(PyTuple_GET_ITEM(names, i))) || !PyTuple_Check(part)) {
      PyErr_SetString(PyExc_TypeError, "fields are compared by name and value");
      return false;
    }
    if (!read_static(part, s.parts[static_cast<size_t>(i)])) return false;
  }
  if (!s.is_plain && !s.key && !s.has_parts) s.hash = PyObject_Hash(value);
  return s.hash != -1;
}

// Read which axes of which leaves have names: (how many names, a tuple of pairs (axis, number of
// its name) for each leaf, what creates the program for given sizes).
bool read_names(PyObject* given, Known& known) {
  Py_ssize_t count;
  PyObject *axes, *for_sizes;
  if (!is_tuple(given) ||
      !PyArg_ParseTuple(given, "nO!O", &count, &PyTuple_Type, &axes, &for_sizes)) {
    return false;
  }
  if (count < 1 || PyTuple_GET_SIZE(axes) != static_cast<Py_ssize_t>(known.leaves.size())) {
    PyErr_SetString(PyExc_ValueError, "each leaf has axes, of which some have names");
    return false;
  }
  known.names = static_cast<size_t>(count);
  known.for_sizes = Ref::borrow(for_sizes);
  for (size_t i = 0; i < known.leaves.size(); ++i) {
    PyObject* pairs = PyTuple_GET_ITEM(axes, static_cast<Py_ssize_t>(i));
    if (!is_tuple(pairs)) return false;
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(pairs); ++j) {
      int axis;
      Py_ssize_t number;
      PyObject* pair = PyTuple_GET_ITEM(pairs, j);
      if (!is_tuple(pair) || !PyArg_ParseTuple(pair, "in", &axis, &number)) return false;
      if (number < 0 || number >= count) {
        PyErr_SetString(PyExc_IndexError, "a name has a number");
        return false;
      }
      known.leaves[i].named.axes.push_back({axis, static_cast<size_t>(number)});
    }
  }
  return true;
}

// Let the named axes of a leaf have any size; false if its kind has no axes here.
bool free_sizes(Leaf& leaf) {
  if (leaf.named.axes.empty()) return true;
  if (leaf.aval) return leaf.named.read(leaf.aval.get());
  if (!leaf.dtype) return false;
  for (const NamedAxis& each : leaf.named.axes) {
    if (each.axis < 0 || static_cast<size_t>(each.axis) >= leaf.shape.size()) return false;
    leaf.shape[static_cast<size_t>(each.axis)] = -1;
  }
  return true;
}

}  // namespace

PyObject* remember(KnownCalls& calls, PyObject* args) {
  Py_ssize_t positional;
  PyObject *kwnames, *statics, *dynamics, *avals, *consts, *program, *out_tree,
      *named_axes = Py_None;
  if (!PyArg_ParseTuple(args, "nO!O!O!O!OOO!|O", &positional, &PyTuple_Type, &kwnames, &PyList_Type,
                        &statics, &PyList_Type, &dynamics, &PyTuple_Type, &avals, &consts, &program,
                        &tree_def_type, &out_tree, &named_axes)) {
    return nullptr;
  }
  if (Py_TYPE(program) != &placed_program_type && !PyObject_TypeCheck(program, &program_type)) {
    PyErr_SetString(PyExc_TypeError, "remember takes a program");
    return nullptr;
  }
  bool named = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i) {
    named = named && PyUnicode_CheckExact(PyTuple_GET_ITEM(kwnames, i));
  }
  if (!named || positional < 0 || positional > INT_MAX) {
    PyErr_SetString(PyExc_TypeError,
                    "a call has a number of positional arguments, and names of others");
    return nullptr;
  }
  auto known = std::make_shared<Known>();
  PyObject* options = current_options();
  if (options == nullptr) return nullptr;
  known->options = Ref::borrow(options);
  known->positional = positional;
  if (PyTuple_GET_SIZE(kwnames) > 0) known->kwnames = Ref::borrow(kwnames);
  known->program = Ref::borrow(program);
  known->out_key = Ref::borrow(reinterpret_cast<TreeDef*>(out_tree)->key);
  known->consts = Ref::own(PySequence_Tuple(consts));
  Ref leaves = Ref::own(PyList_New(0));
  if (!known->consts || !leaves) return nullptr;
  Py_ssize_t most = positional + PyTuple_GET_SIZE(kwnames);
  // Hashing and flattening run Python code, which may change the lists.
  Ref all_statics = Ref::own(PyList_AsTuple(statics)),
      all_dynamics = Ref::own(PyList_AsTuple(dynamics));
  if (!all_statics || !all_dynamics) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all_statics.get()); ++i) {
    StaticArgument s;
    PyObject* comparison;
    PyObject* given = PyTuple_GET_ITEM(all_statics.get(), i);
    if (!is_tuple(given) ||
        !PyArg_ParseTuple(given, "nO!", &s.position, &PyTuple_Type, &comparison)) {
      return nullptr;
    }
    if (!is_argument(s.position, most) || !read_static(comparison, s.known)) return nullptr;
    known->statics.push_back(std::move(s));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all_dynamics.get()); ++i) {
    Py_ssize_t position;
    PyObject* value;
    PyObject* given = PyTuple_GET_ITEM(all_dynamics.get(), i);
    if (!is_tuple(given) || !PyArg_ParseTuple(given, "nO", &position, &value)) return nullptr;
    if (!is_argument(position, most)) return nullptr;
    Ref key = flatten(value, leaves.get());
    if (!key) return nullptr;
    int left = note_metadata(key.get(), known->metadata);
    if (left < 0) return nullptr;
    if (left == 0) Py_RETURN_FALSE;
    known->dynamics.push_back(Dynamic{position, std::move(key)});
  }
  Py_ssize_t count = PyList_GET_SIZE(leaves.get());
  if (count != PyTuple_GET_SIZE(avals)) Py_RETURN_FALSE;
  known->leaves.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!describe(PyList_GET_ITEM(leaves.get(), i), PyTuple_GET_ITEM(avals, i),
                  known->leaves[static_cast<size_t>(i)])) {
      Py_RETURN_FALSE;
    }
  }
  if (named_axes != Py_None) {
    if (!read_names(named_axes, *known)) return nullptr;
    for (Leaf& leaf : known->leaves) {
      if (free_sizes(leaf)) continue;
      dismiss_exception();
      Py_RETURN_FALSE;
    }
  }
  std::shared_ptr<Known> dropped;
  if (calls.size() == kMost) {
    dropped = std::move(calls.back());
    calls.pop_back();
  }
  calls.insert(calls.begin(), std::move(known));
  Py_RETURN_TRUE;
}

}  // namespace kiln
