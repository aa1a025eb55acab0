#include "state.h"

namespace kiln {

thread_local ThreadState thread_state = {};
PyObject* base_options = nullptr;
PyObject* root_trace = nullptr;

namespace {

PyObject* merge_function = nullptr;
PyObject* no_axes = nullptr;

PyObject* refuse_deletion() {
  PyErr_SetString(PyExc_AttributeError, "the state of a thread cannot be deleted");
  return nullptr;
}

void set(PyObject*& slot, PyObject* value) { Py_XSETREF(slot, Py_XNewRef(value)); }

PyObject* options(PyObject*, PyObject*) { return Py_XNewRef(current_options()); }

PyObject* set_base_options(PyObject*, PyObject* value) {
  set(base_options, value);
  Py_RETURN_NONE;
}

PyObject* set_merge(PyObject*, PyObject* function) {
  set(merge_function, function);
  Py_RETURN_NONE;
}

PyObject* get_root(PyObject*, void*) { return Py_NewRef(root_trace == nullptr ? Py_None : root_trace); }

int set_root(PyObject*, PyObject* value, void*) {
  if (value == nullptr) return refuse_deletion() == nullptr ? -1 : 0;
  set(root_trace, value);
  return 0;
}

PyObject* get_overrides(PyObject*, void*) {
  return Py_NewRef(thread_state.overrides == nullptr ? Py_None : thread_state.overrides);
}

int set_overrides(PyObject*, PyObject* value, void*) {
  if (value == nullptr) return refuse_deletion() == nullptr ? -1 : 0;
  set(thread_state.overrides, value == Py_None ? nullptr : value);
  set(thread_state.merged, nullptr);
  set(thread_state.merged_from, nullptr);
  return 0;
}

PyObject* get_trace(PyObject*, void*) {
  return Py_NewRef(thread_state.trace == nullptr ? root_trace : thread_state.trace);
}

int set_trace(PyObject*, PyObject* value, void*) {
  if (value == nullptr) return refuse_deletion() == nullptr ? -1 : 0;
  set(thread_state.trace, value == root_trace ? nullptr : value);
  return 0;
}

PyObject* get_axes(PyObject*, void*) {
  return Py_NewRef(thread_state.axes == nullptr ? no_axes : thread_state.axes);
}

int set_axes(PyObject*, PyObject* value, void*) {
  if (value == nullptr) return refuse_deletion() == nullptr ? -1 : 0;
  set(thread_state.axes, PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 0 ? nullptr : value);
  return 0;
}

PyObject* get_source(PyObject*, void*) {
  return Py_NewRef(thread_state.source == nullptr ? Py_None : thread_state.source);
}

int set_source(PyObject*, PyObject* value, void*) {
  if (value == nullptr) return refuse_deletion() == nullptr ? -1 : 0;
  set(thread_state.source, value == Py_None ? nullptr : value);
  return 0;
}

PyGetSetDef fields[] = {
    {"overrides", get_overrides, set_overrides, "The options changed on this thread, or None.", nullptr},
    {"root", get_root, set_root, "The trace in force outside of all transformations, on every thread.", nullptr},
    {"trace", get_trace, set_trace, "The trace in force.", nullptr},
    {"axes", get_axes, set_axes, "The mapped axes in scope: pairs of a name and a size.", nullptr},
    {"source", get_source, set_source, "The source of the equation being replayed, or None.", nullptr},
    {nullptr},
};

PyTypeObject state_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.State",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "What the thread that asks has in force.",
    .tp_getset = fields,
};

PyMethodDef functions[] = {
    {"options", options, METH_NOARGS, "Return the options in force on this thread."},
    {"set_base_options", set_base_options, METH_O, "Set the options of threads that change none."},
    {"set_merge", set_merge, METH_O, "Say how changes are made to options: `merge(base, changes)`."},
    {nullptr},
};

}  // namespace

PyObject* current_options() {
  ThreadState& thread = thread_state;
  if (thread.overrides == nullptr) return base_options;
  if (thread.merged == nullptr || thread.merged_from != base_options) {
    Ref base = Ref::borrow(base_options);
    PyObject* merged = PyObject_CallFunctionObjArgs(merge_function, base.get(), thread.overrides, nullptr);
    if (merged == nullptr) return nullptr;
    Py_XSETREF(thread.merged, merged);
    Py_XSETREF(thread.merged_from, base.release());
  }
  return thread.merged;
}

int add_state(PyObject* module) {
  no_axes = PyTuple_New(0);
  if (no_axes == nullptr || PyType_Ready(&state_type) < 0) return -1;
  PyObject* state = state_type.tp_alloc(&state_type, 0);
  if (state == nullptr || PyModule_AddObject(module, "state", state) < 0 || add_type(module, &state_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
