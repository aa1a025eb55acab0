#include "state.h"

#include <algorithm>

#include "processors.h"

namespace kiln {

__thread ThreadState thread_state = {};
PyObject* base_options = nullptr;
PyObject* root_trace = nullptr;

namespace {

PyObject* merge_function = nullptr;
PyObject* no_axes = nullptr;
PyObject* no_names = nullptr;
PyObject* none = Py_None;

void set(PyObject*& slot, PyObject* value) { Py_XSETREF(slot, Py_XNewRef(value)); }

// A part of a thread's state, and what it is where no context was entered.
struct Field {
  PyObject* ThreadState::* slot;
  PyObject** usual;
};

Field overrides = {&ThreadState::overrides, &none};
Field trace = {&ThreadState::trace, &root_trace};
Field axes = {&ThreadState::axes, &no_axes};
Field tracked = {&ThreadState::tracked, &no_names};
Field source = {&ThreadState::source, &none};

PyObject* get_field(PyObject*, void* closure) {
  const Field& field = *static_cast<Field*>(closure);
  PyObject* found = thread_state.*field.slot;
  return Py_XNewRef(found == nullptr ? *field.usual : found);
}

bool is_refused(PyObject* value) {
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "the state of a thread cannot be deleted");
  }
  return value == nullptr;
}

int set_field(PyObject*, PyObject* value, void* closure) {
  if (is_refused(value)) return -1;
  const Field& field = *static_cast<Field*>(closure);
  bool is_usual = value == *field.usual || (PyFrozenSet_Check(value) && PySet_GET_SIZE(value) == 0);
  set(thread_state.*field.slot, is_usual ? nullptr : value);
  return 0;
}

int set_overrides(PyObject* self, PyObject* value, void* closure) {
  // Read here, because compiled code asks without the interpreter's lock.
  PyObject* threads = nullptr;
  if (value != nullptr && PyDict_CheckExact(value)) {
    threads = PyDict_GetItemString(value, "num_threads");
  }
  long number = threads == nullptr ? 0 : threads == Py_None ? processors() : PyLong_AsLong(threads);
  if (number == -1 && PyErr_Occurred()) return -1;
  if (set_field(self, value, closure) < 0) return -1;
  thread_state.threads = static_cast<int32_t>(std::clamp(number, 0L, 1L << 16));
  set(thread_state.merged, nullptr);
  set(thread_state.merged_from, nullptr);
  return 0;
}

// Changes to the options of the thread, in force from `__enter__` to `__exit__`. Both are C++,
// because the interpreter handles signals between the instructions of a function in Python.
struct Override {
  PyObject_HEAD
  PyObject* changes;
};

PyObject*& changes_of(PyObject* self) { return reinterpret_cast<Override*>(self)->changes; }

PyObject* new_override(PyTypeObject* type, PyObject* args, PyObject* changes) {
  if (PyTuple_GET_SIZE(args) != 0) {
    PyErr_SetString(PyExc_TypeError, "Override takes the options to change as keyword arguments");
    return nullptr;
  }
  Ref copy = Ref::own(changes == nullptr ? PyDict_New() : PyDict_Copy(changes));
  if (!copy) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) changes_of(self) = copy.release();
  return self;
}

int traverse_override(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(changes_of(self));
  return 0;
}

int clear_override(PyObject* self) {
  Py_CLEAR(changes_of(self));
  return 0;
}

void dealloc_override(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_override(self);
  Py_TYPE(self)->tp_free(self);
}

PyObject* enter(PyObject* self, PyObject*) {
  PyObject* outer = thread_state.overrides;
  Ref changed = Ref::own(outer == nullptr ? PyDict_New() : PyDict_Copy(outer));
  if (!changed || PyDict_Update(changed.get(), changes_of(self)) < 0) return nullptr;
  Ref previous = Ref::borrow(outer == nullptr ? Py_None : outer);
  auto* entry = static_cast<EnteredContext*>(PyMem_Malloc(sizeof(EnteredContext)));
  if (entry == nullptr) return PyErr_NoMemory();
  if (set_overrides(nullptr, changed.get(), &overrides) < 0) {
    PyMem_Free(entry);
    return nullptr;
  }
  *entry = {Py_NewRef(self), previous.release(), thread_state.entered};
  thread_state.entered = entry;
  Py_RETURN_NONE;
}

bool is_entered(PyObject* context) {
  for (EnteredContext* entry = thread_state.entered; entry != nullptr; entry = entry->outer) {
    if (entry->context == context) return true;
  }
  return false;
}

// Restore what the thread had before its last entry, and forget what was entered later: contexts
// that were never left. A context that this thread did not enter has nothing to restore on it.
PyObject* exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  if (!is_entered(self)) Py_RETURN_NONE;
  for (bool is_own = false; !is_own;) {
    EnteredContext* entry = thread_state.entered;
    thread_state.entered = entry->outer;
    Ref context = Ref::own(entry->context), previous = Ref::own(entry->previous);
    PyMem_Free(entry);
    is_own = context.get() == self;
    if (is_own && set_overrides(nullptr, previous.get(), &overrides) < 0) return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef override_methods[] = {
    {"__enter__", enter, METH_NOARGS, "Change the options of this thread."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(exit)), METH_FASTCALL,
     "Restore the options that this thread had."},
    {nullptr},
};

PyTypeObject override_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Override",
    .tp_basicsize = sizeof(Override),
    .tp_dealloc = dealloc_override,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Changes to the options of the thread that enters it.",
    .tp_traverse = traverse_override,
    .tp_clear = clear_override,
    .tp_methods = override_methods,
    .tp_new = new_override,
};

PyObject* options(PyObject*, PyObject*) { return Py_XNewRef(current_options()); }

PyObject* set_base_options(PyObject*, PyObject* value) {
  set(base_options, value);
  Py_RETURN_NONE;
}

PyObject* set_merge(PyObject*, PyObject* function) {
  set(merge_function, function);
  Py_RETURN_NONE;
}

PyObject* get_root(PyObject*, void*) {
  return Py_NewRef(root_trace == nullptr ? Py_None : root_trace);
}

int set_root(PyObject*, PyObject* value, void*) {
  if (is_refused(value)) return -1;
  set(root_trace, value);
  return 0;
}

PyGetSetDef fields[] = {
    {"root", get_root, set_root,
     "The trace in force outside of all transformations, on every thread.", nullptr},
    {"overrides", get_field, set_overrides, "The options changed on this thread, or None.",
     &overrides},
    {"trace", get_field, set_field, "The trace in force.", &trace},
    {"axes", get_field, set_field, "The mapped axes in scope: a name, a size and a kind of each.",
     &axes},
    {"tracked", get_field, set_field, "The names of the axes along which types say what varies.",
     &tracked},
    {"source", get_field, set_field, "The source of the equation being replayed, or None.",
     &source},
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
    {"set_merge", set_merge, METH_O,
     "Say how changes are made to options: `merge(base, changes)`."},
    {nullptr},
};

}  // namespace

PyObject* merged_options(ThreadState& thread) {
  if (base_options == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "kiln._runtime has no options yet: import kiln first");
    return nullptr;
  }
  if (thread.merged == nullptr || thread.merged_from != base_options) {
    Ref base = Ref::borrow(base_options), overrides = Ref::borrow(thread.overrides);
    Ref merged = call_held(merge_function, base.get(), overrides.get());
    if (!merged) return nullptr;
    Py_XSETREF(thread.merged, merged.release());
    Py_XSETREF(thread.merged_from, base.release());
  }
  return thread.merged;
}

int add_state(PyObject* module) {
  no_axes = PyTuple_New(0);
  no_names = PyFrozenSet_New(nullptr);
  if (no_axes == nullptr || no_names == nullptr || PyType_Ready(&state_type) < 0 ||
      PyType_Ready(&override_type) < 0) {
    return -1;
  }
  PyObject* state = state_type.tp_alloc(&state_type, 0);
  if (state == nullptr || PyModule_AddObject(module, "state", state) < 0 ||
      add_type(module, &state_type) < 0 || add_type(module, &override_type) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
