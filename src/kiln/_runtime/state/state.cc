#include "state/state.h"

#include <algorithm>

#include "machine/processors.h"
#include "state/contexts.h"

namespace kiln {

__thread ThreadState thread_state = {};
PyObject* base_options = nullptr;
PyObject* root_trace = nullptr;

namespace {

PyObject* merge_function = nullptr;
PyObject* no_axes = nullptr;
PyObject* no_names = nullptr;
PyObject* none = Py_None;
PyObject* state_object = nullptr;
PyObject* overrides_name = nullptr;

void set(PyObject*& slot, PyObject* value) { Py_XSETREF(slot, Py_XNewRef(value)); }

// A part of a thread's state, and its value outside all contexts.
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
  // Read here, because compiled code queries it without the GIL.
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

// Sets the axes and what is tracked along them together.
PyObject* get_bound(PyObject*, void*) {
  Ref in_scope = Ref::own(get_field(nullptr, &axes)),
      names = Ref::own(get_field(nullptr, &tracked));
  return PyTuple_Pack(2, in_scope.get(), names.get());
}

int set_bound(PyObject* self, PyObject* value, void*) {
  if (is_refused(value)) return -1;
  if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) != 2) {
    PyErr_SetString(PyExc_TypeError, "what is bound are mapped axes and the tracked names");
    return -1;
  }
  Ref held = Ref::borrow(value);
  set_field(self, PyTuple_GET_ITEM(value, 0), &axes);
  return set_field(self, PyTuple_GET_ITEM(value, 1), &tracked);
}

// Changes to the options of the thread, in force from `__enter__` to `__exit__`.
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

bool enter_changes(PyObject* context, PyObject* changes) {
  // Keep a reference: a finalizer that runs meanwhile may exit the context that owns them.
  Ref outer = Ref::borrow(thread_state.overrides);
  Ref changed = Ref::own(outer ? PyDict_Copy(outer.get()) : PyDict_New());
  return changed && PyDict_Update(changed.get(), changes) == 0 &&
         enter_context(context, state_object, overrides_name, changed.get());
}

PyObject* enter(PyObject* self, PyObject*) {
  if (!enter_changes(self, changes_of(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  if (!leave_context(self)) return nullptr;
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
    .tp_doc = "A context that changes options of the thread that enters it.",
    .tp_traverse = traverse_override,
    .tp_clear = clear_override,
    .tp_methods = override_methods,
    .tp_new = new_override,
};

// An object that is itself a context manager which sets an option to the object, as `with mesh:`.
PyObject* enter_value(PyObject* self, PyObject*) {
  Ref option = Ref::own(PyObject_GetAttrString(self, "option"));
  Ref changes = option ? Ref::own(PyDict_New()) : Ref();
  if (!changes || PyDict_SetItem(changes.get(), option.get(), self) < 0) return nullptr;
  return enter_changes(self, changes.get()) ? Py_NewRef(self) : nullptr;
}

PyMethodDef option_value_methods[] = {
    {"__enter__", enter_value, METH_NOARGS, "Be the value of the option on this thread."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(exit)), METH_FASTCALL,
     "Restore the options that this thread had."},
    {nullptr},
};

PyTypeObject option_value_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.OptionValue",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc =
        "A value of the option that its class names in `option`; as a context, it sets the option.",
    .tp_methods = option_value_methods,
    .tp_new = PyType_GenericNew,
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
    {"bound", get_bound, set_bound, "Both: the mapped axes, and the tracked names.", nullptr},
    {"source", get_field, set_field, "The source of the equation being replayed, or None.",
     &source},
    {nullptr},
};

PyTypeObject state_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.State",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The options, trace and mapped axes in force on the calling thread.",
    .tp_getset = fields,
};

PyMethodDef functions[] = {
    {"options", options, METH_NOARGS, "Return the options in force on this thread."},
    {"set_base_options", set_base_options, METH_O, "Set the options of threads that change none."},
    {"set_merge", set_merge, METH_O,
     "Set the function that applies changes to options: `merge(base, changes)`."},
    {nullptr},
};

}  // namespace

PyObject* merged_options(ThreadState& thread) {
  if (base_options == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "kiln._runtime has no options yet: import kiln first");
    return nullptr;
  }
  while (thread.merged == nullptr || thread.merged_from != base_options) {
    Ref base = Ref::borrow(base_options), overrides = Ref::borrow(thread.overrides);
    Ref merged = call_held(merge_function, base.get(), overrides.get());
    if (!merged) return nullptr;
    // A finalizer that ran meanwhile may have exited a context.
    if (thread.overrides != overrides.get()) continue;
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
  overrides_name = PyUnicode_InternFromString("overrides");
  state_object = state_type.tp_alloc(&state_type, 0);
  if (overrides_name == nullptr || state_object == nullptr ||
      PyModule_AddObjectRef(module, "state", state_object) < 0 ||
      add_type(module, &state_type) < 0 || add_type(module, &override_type) < 0 ||
      add_type(module, &option_value_type) < 0 || guard_enter(&override_type) < 0 ||
      guard_enter(&option_value_type) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
