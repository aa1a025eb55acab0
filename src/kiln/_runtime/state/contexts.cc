#include "state/contexts.h"

#include "state/state.h"

namespace kiln {
namespace {

struct Assigned {
  PyObject_HEAD
  PyObject *target, *name, *value, *result;
};

Assigned* as_assigned(PyObject* object) { return reinterpret_cast<Assigned*>(object); }

PyObject* new_assigned(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *target, *name, *value, *result = nullptr;
  if (!PyArg_ParseTuple(args, "OUO|O", &target, &name, &value, &result)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Py_INCREF(name);
  PyUnicode_InternInPlace(&name);
  as_assigned(self)->target = Py_NewRef(target);
  as_assigned(self)->name = name;
  as_assigned(self)->value = Py_NewRef(value);
  as_assigned(self)->result = Py_NewRef(result == nullptr ? value : result);
  return self;
}

int traverse_assigned(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_assigned(self)->target);
  Py_VISIT(as_assigned(self)->value);
  Py_VISIT(as_assigned(self)->result);
  return 0;
}

void dealloc_assigned(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(as_assigned(self)->target);
  Py_CLEAR(as_assigned(self)->name);
  Py_CLEAR(as_assigned(self)->value);
  Py_CLEAR(as_assigned(self)->result);
  Py_TYPE(self)->tp_free(self);
}

PyObject* enter_assigned(PyObject* self, PyObject*) {
  const Assigned& one = *as_assigned(self);
  if (!enter_context(self, one.target, one.name, one.value)) return nullptr;
  return Py_NewRef(one.result);
}

PyObject* exit_assigned(PyObject* self, PyObject* const*, Py_ssize_t) {
  if (!leave_context(self)) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef assigned_methods[] = {
    {"__enter__", enter_assigned, METH_NOARGS, "Set the attribute, and return the result."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(exit_assigned)),
     METH_FASTCALL, "Restore what the attribute was."},
    {nullptr},
};

PyTypeObject assigned_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Assigned",
    .tp_basicsize = sizeof(Assigned),
    .tp_dealloc = dealloc_assigned,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "An attribute of an object of this thread, set in a context.",
    .tp_traverse = traverse_assigned,
    .tp_methods = assigned_methods,
    .tp_new = new_assigned,
};

// An attribute that entering the context sets to a function of its current value.
PyObject* enter_changed(PyObject* self, PyObject*) {
  const Assigned& one = *as_assigned(self);
  Ref previous = Ref::own(PyObject_GetAttr(one.target, one.name));
  if (!previous) return nullptr;
  Ref made = Ref::own(PyObject_CallOneArg(one.value, previous.get()));
  if (!made) return nullptr;
  if (!PyTuple_Check(made.get()) || PyTuple_GET_SIZE(made.get()) != 2) {
    PyErr_SetString(PyExc_TypeError, "a change returns the new value, and the context's result");
    return nullptr;
  }
  if (!enter_context(self, one.target, one.name, PyTuple_GET_ITEM(made.get(), 0))) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(made.get(), 1));
}

PyMethodDef changed_methods[] = {
    {"__enter__", enter_changed, METH_NOARGS, "Change the attribute, and return the result."},
    {nullptr},
};

PyTypeObject changed_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Changed",
    .tp_basicsize = sizeof(Assigned),
    .tp_dealloc = dealloc_assigned,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "An attribute of an object of this thread, changed in a context by a function.",
    .tp_traverse = traverse_assigned,
    .tp_methods = changed_methods,
    .tp_base = &assigned_type,
    .tp_new = new_assigned,
};

// An item that is in a list, for all threads, until the context exits.
struct Listed {
  PyObject_HEAD
  PyObject *list, *item, *result;
};

Listed* as_listed(PyObject* object) { return reinterpret_cast<Listed*>(object); }

PyObject* new_listed(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *list, *item, *result = nullptr;
  if (!PyArg_ParseTuple(args, "O!O|O", &PyList_Type, &list, &item, &result)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  as_listed(self)->list = Py_NewRef(list);
  as_listed(self)->item = Py_NewRef(item);
  as_listed(self)->result = Py_NewRef(result == nullptr ? item : result);
  return self;
}

int traverse_listed(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_listed(self)->list);
  Py_VISIT(as_listed(self)->item);
  Py_VISIT(as_listed(self)->result);
  return 0;
}

void dealloc_listed(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(as_listed(self)->list);
  Py_CLEAR(as_listed(self)->item);
  Py_CLEAR(as_listed(self)->result);
  Py_TYPE(self)->tp_free(self);
}

PyObject* enter_listed(PyObject* self, PyObject*) {
  if (PyList_Append(as_listed(self)->list, as_listed(self)->item) < 0) return nullptr;
  return Py_NewRef(as_listed(self)->result);
}

// By identity: equal items may belong to other contexts.
PyObject* exit_listed(PyObject* self, PyObject* const*, Py_ssize_t) {
  PyObject* list = as_listed(self)->list;
  for (Py_ssize_t i = PyList_GET_SIZE(list); i-- > 0;) {
    if (PyList_GET_ITEM(list, i) != as_listed(self)->item) continue;
    if (PyList_SetSlice(list, i, i + 1, nullptr) < 0) return nullptr;
    break;
  }
  Py_RETURN_NONE;
}

PyMethodDef listed_methods[] = {
    {"__enter__", enter_listed, METH_NOARGS, "Append the item, and return the result."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(exit_listed)), METH_FASTCALL,
     "Remove the item."},
    {nullptr},
};

PyTypeObject listed_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Listed",
    .tp_basicsize = sizeof(Listed),
    .tp_dealloc = dealloc_listed,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "An item that is in a list, for all threads, in a context.",
    .tp_traverse = traverse_listed,
    .tp_methods = listed_methods,
    .tp_new = new_listed,
};

void release(EnteredContext* entries) {
  while (entries != nullptr) {
    EnteredContext* entry = entries;
    entries = entry->outer;
    for (PyObject* held : {entry->context, entry->target, entry->name, entry->previous}) {
      Py_DECREF(held);
    }
    PyMem_Free(entry);
  }
}

// Contexts of the latest entries that nobody else references, so that nobody can exit them, as with
// `set_mesh` called as a function.
EnteredContext* take_abandoned() {
  EnteredContext* abandoned = nullptr;
  while (thread_state.entered != nullptr && Py_REFCNT(thread_state.entered->context) == 1) {
    EnteredContext* entry = thread_state.entered;
    thread_state.entered = entry->outer;
    entry->outer = abandoned;
    abandoned = entry;
  }
  return abandoned;
}

}  // namespace

bool enter_context(PyObject* context, PyObject* target, PyObject* name, PyObject* value) {
  Ref previous = Ref::own(PyObject_GetAttr(target, name));
  if (!previous) return false;
  auto* entry = static_cast<EnteredContext*>(PyMem_Malloc(sizeof(EnteredContext)));
  if (entry == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  if (PyObject_SetAttr(target, name, value) < 0) {
    PyMem_Free(entry);
    return false;
  }
  EnteredContext* abandoned = take_abandoned();
  *entry = {Py_NewRef(context), Py_NewRef(target), Py_NewRef(name), previous.release(),
            thread_state.entered};
  thread_state.entered = entry;
  release(abandoned);
  return true;
}

bool leave_context(PyObject* context) {
  EnteredContext* own = thread_state.entered;
  while (own != nullptr && own->context != context) own = own->outer;
  if (own == nullptr) return true;
  // Contexts of the same attribute that were entered later never exited. Contexts of other
  // attributes may still exit, in a generator suspended inside them.
  EnteredContext* left = nullptr;
  for (EnteredContext** link = &thread_state.entered; left != own;) {
    EnteredContext* entry = *link;
    if (entry != own && (entry->target != own->target || entry->name != own->name)) {
      link = &entry->outer;
      continue;
    }
    *link = entry->outer;
    entry->outer = left;
    left = entry;
  }
  // Only now, because it may run code that enters and exits contexts.
  bool is_restored = PyObject_SetAttr(own->target, own->name, own->previous) == 0;
  release(left);
  return is_restored;
}

#if PY_VERSION_HEX >= 0x030E0000
namespace {

// Since Python 3.14 `with` calls `__enter__` by an instruction that handles signals after a call of
// C, before the block begins whose end calls `__exit__`: an interrupt there would leave the change
// in force. After the return of a Python function no instruction handles signals. So `__enter__` is
// a Python function, in which what strikes after the change undoes it.
const char* const guarding = R"(
def guarded(enter, times_entered, leave_again):
    def __enter__(self):
        before = times_entered(self)
        try:
            return enter(self)
        except BaseException:
            leave_again(self, before)
            raise
    return __enter__
)";

Py_ssize_t times_entered(PyObject* context) {
  Py_ssize_t count = 0;
  if (PyObject_TypeCheck(context, &listed_type)) {
    PyObject* list = as_listed(context)->list;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      count += PyList_GET_ITEM(list, i) == as_listed(context)->item;
    }
    return count;
  }
  for (EnteredContext* entry = thread_state.entered; entry != nullptr; entry = entry->outer) {
    count += entry->context == context;
  }
  return count;
}

PyObject* py_times_entered(PyObject*, PyObject* context) {
  return PyLong_FromSsize_t(times_entered(context));
}

PyObject* leave_again(PyObject*, PyObject* const* args, Py_ssize_t) {
  PyObject* context = args[0];
  if (times_entered(context) <= PyLong_AsSsize_t(args[1])) Py_RETURN_NONE;
  if (PyObject_TypeCheck(context, &listed_type)) return exit_listed(context, nullptr, 0);
  if (!leave_context(context)) return nullptr;
  Py_RETURN_NONE;
}

PyMethodDef times_entered_method = {"times_entered", py_times_entered, METH_O, nullptr};
PyMethodDef leave_again_method = {
    "leave_again", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(leave_again)),
    METH_FASTCALL, nullptr};

}  // namespace

int guard_enter(PyTypeObject* type) {
  Ref names = Ref::own(PyDict_New());
  Ref times = Ref::own(PyCFunction_New(&times_entered_method, nullptr));
  Ref leave = Ref::own(PyCFunction_New(&leave_again_method, nullptr));
  Ref methods = Ref::own(PyType_GetDict(type));
  if (!names || !times || !leave || !methods) return -1;
  Ref ran = Ref::own(PyRun_String(guarding, Py_file_input, names.get(), names.get()));
  PyObject* enter = PyDict_GetItemString(methods.get(), "__enter__");
  if (!ran || enter == nullptr) return -1;
  PyObject* guarded = PyDict_GetItemString(names.get(), "guarded");
  Ref made =
      Ref::own(PyObject_CallFunctionObjArgs(guarded, enter, times.get(), leave.get(), nullptr));
  if (!made || PyDict_SetItemString(methods.get(), "__enter__", made.get()) < 0) return -1;
  PyType_Modified(type);
  return 0;
}
#else
int guard_enter(PyTypeObject*) { return 0; }
#endif

int add_contexts(PyObject* module) {
  for (PyTypeObject* type : {&assigned_type, &changed_type, &listed_type}) {
    if (add_type(module, type) < 0 || guard_enter(type) < 0) return -1;
  }
  return 0;
}

}  // namespace kiln
