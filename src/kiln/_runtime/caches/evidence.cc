// Whether functions are still what they were when they were fingerprinted: `content/evidence.py`
// records what is compared here.
#include "objects/object.h"

namespace kiln {
namespace {

// A value is recorded itself or, if it is a user function, by a weak reference.
bool is_noted(PyObject* value, PyObject* held) {
  if (value == held) return true;
  return value != Py_None && PyWeakref_CheckRefExact(held) && refers_to(held, value);
}

bool has_items(PyObject* tuple, Py_ssize_t least) {
  return PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) >= least;
}

// `given` may be null, which means no items.
bool are_noted(PyObject* given, PyObject* held, PyObject* (*value_of)(PyObject*)) {
  Py_ssize_t count = given == nullptr ? 0 : PyTuple_GET_SIZE(given);
  if (!PyTuple_Check(held) || PyTuple_GET_SIZE(held) != count) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref value = Ref::own(value_of(PyTuple_GET_ITEM(given, i)));
    if (!value || !is_noted(value.get(), PyTuple_GET_ITEM(held, i))) return false;
  }
  return true;
}

PyObject* itself(PyObject* value) { return Py_NewRef(value); }

// Return what a global name is bound to, or nothing.
Ref bound(PyFunctionObject* f, PyObject* name) {
  if (!PyDict_CheckExact(f->func_globals) || !PyUnicode_Check(name)) return Ref();
  PyObject* found = PyDict_GetItemWithError(f->func_globals, name);
  if (found == nullptr && !PyErr_Occurred() && PyDict_CheckExact(f->func_builtins)) {
    found = PyDict_GetItemWithError(f->func_builtins, name);
  }
  return Ref::borrow(found);
}

bool is_bound(PyFunctionObject* f, PyObject* noted) {
  if (!has_items(noted, 3)) return false;
  Ref value = bound(f, PyTuple_GET_ITEM(noted, 0));
  PyObject* steps = PyTuple_GET_ITEM(noted, 1);
  if (!PyTuple_Check(steps)) return false;
  for (Py_ssize_t i = 0; value && i < PyTuple_GET_SIZE(steps); ++i) {
    if (!PyModule_CheckExact(value.get())) return false;
    PyObject* space = PyModule_GetDict(value.get());
    value = Ref::borrow(PyDict_GetItemWithError(space, PyTuple_GET_ITEM(steps, i)));
  }
  return value && is_noted(value.get(), PyTuple_GET_ITEM(noted, 2));
}

// A part: (a weak reference, or None for the root; code, name, defaults, cells, names).
bool is_as_noted(PyObject* part, PyObject* root) {
  if (!has_items(part, 6)) return false;
  PyObject* reference = PyTuple_GET_ITEM(part, 0);
  Ref held = Ref::borrow(root);
  if (reference != Py_None) {
    if (!PyWeakref_CheckRefExact(reference)) return false;
    held = Ref::own(PyObject_CallNoArgs(reference));
  }
  if (!held || !PyFunction_Check(held.get())) return false;
  PyFunctionObject* f = reinterpret_cast<PyFunctionObject*>(held.get());
  PyObject* name = PyTuple_GET_ITEM(part, 2);
  if (f->func_code != PyTuple_GET_ITEM(part, 1) || !PyUnicode_Check(name)) return false;
  if (f->func_name != name && PyUnicode_Compare(f->func_name, name) != 0) return false;
  if (f->func_dict != nullptr && PyDict_GET_SIZE(f->func_dict) > 0) return false;
  if (f->func_kwdefaults != nullptr && PyDict_GET_SIZE(f->func_kwdefaults) > 0) return false;
  // User code may replace what is being compared.
  Ref defaults = Ref::borrow(f->func_defaults), cells = Ref::borrow(f->func_closure);
  if (!are_noted(defaults.get(), PyTuple_GET_ITEM(part, 3), itself)) return false;
  if (!are_noted(cells.get(), PyTuple_GET_ITEM(part, 4), PyCell_Get)) return false;
  PyObject* names = PyTuple_GET_ITEM(part, 5);
  if (!PyTuple_Check(names)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (!is_bound(f, PyTuple_GET_ITEM(names, i))) return false;
  }
  return true;
}

// functions_are_as_noted(parts, root)
PyObject* functions_are_as_noted(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "functions are compared with a tuple of evidence");
    return nullptr;
  }
  bool all = true;
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(args[0]); ++i) {
    all = is_as_noted(PyTuple_GET_ITEM(args[0], i), args[1]);
  }
  if (PyErr_Occurred()) return nullptr;
  return PyBool_FromLong(all);
}

PyMethodDef functions[] = {
    {"functions_are_as_noted",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(functions_are_as_noted)),
     METH_FASTCALL,
     "Tell whether functions match recorded evidence; the first may be another function."},
    {nullptr},
};

}  // namespace

int add_evidence(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
