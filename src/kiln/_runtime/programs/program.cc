#include "programs/program.h"

#include <vector>

#include "arrays/array.h"
#include "native/native.h"
#include "programs/launcher.h"

namespace kiln {

long long clock_now = 1;

namespace {

// Functions of execution/compilation.py.
PyObject* buffer_for = nullptr;  // (array, memory) -> buffer, moving the data if needed
PyObject* new_buffer = nullptr;  // (scalar or ndarray, memory, sharding or None) -> buffer

// CompiledProgram, the Python type.

int program_init(PyObject* self, PyObject* args, PyObject*) {
  CompiledProgram* program = reinterpret_cast<CompiledProgram*>(self);
  if (!may_be_made(program->memory != nullptr, self)) return -1;
  PyObject *run, *out_avals, *kept, *memory;
  int in_host_memory;
  if (!PyArg_ParseTuple(args, "OOOOp", &run, &out_avals, &kept, &memory, &in_host_memory)) {
    return -1;
  }
  if (kept != Py_None && !PyList_CheckExact(kept)) {
    PyErr_SetString(PyExc_TypeError, "the inputs kept are a list of numbers, or None");
    return -1;
  }
  Ref types = Ref::own(PySequence_Tuple(out_avals));
  if (!types || !may_be_made(program->memory != nullptr, self)) return -1;
  Py_XSETREF(program->run, Py_NewRef(run));
  Py_XSETREF(program->out_avals, types.release());
  Py_XSETREF(program->kept, Py_NewRef(kept));
  Py_XSETREF(program->memory, Py_NewRef(memory));
  program->in_host_memory = static_cast<char>(in_host_memory);
  return 0;
}

int program_traverse(PyObject* self, visitproc visit, void* arg) {
  CompiledProgram* program = reinterpret_cast<CompiledProgram*>(self);
  Py_VISIT(program->run);
  Py_VISIT(program->out_avals);
  Py_VISIT(program->kept);
  Py_VISIT(program->memory);
  return 0;
}

int program_clear(PyObject* self) {
  CompiledProgram* program = reinterpret_cast<CompiledProgram*>(self);
  Py_CLEAR(program->run);
  Py_CLEAR(program->out_avals);
  Py_CLEAR(program->kept);
  Py_CLEAR(program->memory);
  return 0;
}

void program_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, program_dealloc)
  program_clear(self);
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

PyObject* program_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* given;
  if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError, "a program takes one sequence of arguments");
    return nullptr;
  }
  if (!PyArg_ParseTuple(args, "O", &given)) return nullptr;
  // A tuple, because a list may be mutated while the program runs.
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return nullptr;
  return run_program(reinterpret_cast<CompiledProgram*>(self), &PyTuple_GET_ITEM(items.get(), 0),
                     PyTuple_GET_SIZE(items.get()))
      .release();
}

PyMemberDef program_members[] = {
    {"_call", T_OBJECT_EX, offsetof(CompiledProgram, run), 0, "What runs it: buffers -> buffers."},
    {"out_avals", T_OBJECT_EX, offsetof(CompiledProgram, out_avals), READONLY,
     "The types of the results."},
    {"kept", T_OBJECT_EX, offsetof(CompiledProgram, kept), READONLY,
     "The numbers of the inputs it takes, or None for all."},
    {"memory", T_OBJECT_EX, offsetof(CompiledProgram, memory), READONLY,
     "The memory of its operands and results."},
    {"used", T_LONGLONG, offsetof(CompiledProgram, used), 0, "When it last ran, by `clock`."},
    {nullptr},
};

// Unloaded, the Python type.

struct Unloaded {
  PyObject_HEAD
  PyObject* load;
};

int unloaded_init(PyObject* self, PyObject* args, PyObject*) {
  PyObject* load;
  if (!PyArg_ParseTuple(args, "O", &load)) return -1;
  Py_XSETREF(reinterpret_cast<Unloaded*>(self)->load, Py_NewRef(load));
  return 0;
}

int unloaded_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Unloaded*>(self)->load);
  return 0;
}

int unloaded_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Unloaded*>(self)->load);
  return 0;
}

void unloaded_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  unloaded_clear(self);
  Py_TYPE(self)->tp_free(self);
}

PyTypeObject unloaded_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Unloaded",
    .tp_basicsize = sizeof(Unloaded),
    .tp_dealloc = unloaded_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A placeholder for an executable that is not in memory: `load()` returns it.",
    .tp_traverse = unloaded_traverse,
    .tp_clear = unloaded_clear,
    .tp_init = unloaded_init,
    .tp_new = PyType_GenericNew,
};

// The clock.

PyObject* get_now(PyObject*, void*) { return PyLong_FromLongLong(clock_now); }

int set_now(PyObject*, PyObject* value, void*) {
  long long now = value == nullptr ? -1 : PyLong_AsLongLong(value);
  if (now < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a time is a number from 0");
    return -1;
  }
  clock_now = now;
  return 0;
}

PyGetSetDef clock_fields[] = {
    {"now", get_now, set_now, "The time, counted in insertions.", nullptr},
    {nullptr},
};

PyTypeObject clock_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Clock",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The time of all bounded mappings.",
    .tp_getset = clock_fields,
};

PyObject* set_buffer_functions(PyObject*, PyObject* args) {
  PyObject *existing, *fresh;
  if (!PyArg_ParseTuple(args, "OO", &existing, &fresh)) return nullptr;
  Py_XSETREF(buffer_for, Py_NewRef(existing));
  Py_XSETREF(new_buffer, Py_NewRef(fresh));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_buffer_functions", set_buffer_functions, METH_VARARGS,
     "Set the functions that move arrays and scalars to a memory."},
    {nullptr},
};

}  // namespace

PyTypeObject program_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.CompiledProgram",
    .tp_basicsize = sizeof(CompiledProgram),
    .tp_dealloc = program_dealloc,
    .tp_call = program_call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A compiled program. Calling it with a sequence of arrays and scalars runs it.",
    .tp_traverse = program_traverse,
    .tp_clear = program_clear,
    .tp_members = program_members,
    .tp_init = program_init,
    .tp_new = PyType_GenericNew,
};

bool take(CompiledProgram* program, PyObject* const*& args, Py_ssize_t& count,
          std::vector<PyObject*>& taken) {
  PyObject* kept = program->kept;
  if (!was_made(kept != nullptr && program->memory != nullptr,
                reinterpret_cast<PyObject*>(program))) {
    return false;
  }
  if (kept == Py_None) return true;
  taken.reserve(static_cast<size_t>(PyList_GET_SIZE(kept)));
  for (Py_ssize_t n = 0; n < PyList_GET_SIZE(kept); ++n) {
    Py_ssize_t i = PyLong_AsSsize_t(PyList_GET_ITEM(kept, n));
    if (i < 0 || i >= count) {
      if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "a program takes input %zd, but was given %zd", i, count);
      }
      return false;
    }
    taken.push_back(args[i]);
  }
  args = taken.data();
  count = static_cast<Py_ssize_t>(taken.size());
  return true;
}

Ref operand(CompiledProgram* program, size_t number, PyObject* object, PyObject* sharding,
            HostOperands& host_operands) {
  if (is_array(object)) {
    ArrayData* array = reinterpret_cast<ArrayData*>(object);
    if (array->memory == program->memory && array->buffer != Py_None) {
      return Ref::borrow(array->buffer);
    }
    return call_held(buffer_for, object, program->memory);
  }
  if (host_operands.takes(number, object)) {
    Ref buffer = host_operands.buffer(number, object);
    if (buffer || PyErr_Occurred()) return buffer;
  }
  if (sharding == nullptr) return call_held(new_buffer, object, program->memory);
  return call_held(new_buffer, object, program->memory, sharding);
}

Ref execute(PyObject* run, PyObject* buffers, HostOperands& host_operands) {
  if (!is_launcher(run)) return Ref::own(PyObject_CallOneArg(run, buffers));
  Ref outs = launch(reinterpret_cast<Launcher*>(run), buffers);
  if (outs) host_operands.end(outs.get());
  return outs;
}

Ref wrap(CompiledProgram* program, PyObject* buffers) {
  Ref outs = Ref::own(PySequence_Fast(buffers, "an executable returns a sequence of buffers"));
  if (!outs) return outs;
  PyObject* avals = program->out_avals;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(outs.get());
  Ref arrays = Ref::own(PyList_New(count));
  for (Py_ssize_t i = 0; arrays && i <= count; ++i) {
    // The collector may run in between, and with it anything.
    if (PySequence_Fast_GET_SIZE(outs.get()) != count || PyTuple_GET_SIZE(avals) != count) {
      PyErr_Format(PyExc_RuntimeError, "an executable returned %zd results instead of %zd",
                   PySequence_Fast_GET_SIZE(outs.get()), PyTuple_GET_SIZE(avals));
      return Ref();
    }
    if (i == count) break;
    PyObject *aval = PyTuple_GET_ITEM(avals, i), *buffer = PySequence_Fast_GET_ITEM(outs.get(), i);
    Ref array = program->in_host_memory ? make_array(aval, buffer, Py_None, Py_None)
                                        : make_array(aval, Py_None, buffer, program->memory);
    if (!array) return array;
    PyList_SET_ITEM(arrays.get(), i, array.release());
  }
  return arrays;
}

Ref runner(CompiledProgram* program) {
  Ref run = Ref::borrow(program->run);
  if (!was_made(bool(run), reinterpret_cast<PyObject*>(program))) return run;
  if (Py_TYPE(run.get()) != &unloaded_type) return run;
  // It is called directly, not through its wrapper: memory that a native executable returns is not
  // a buffer until an array is created from it.
  Ref load = Ref::borrow(reinterpret_cast<Unloaded*>(run.get())->load);
  if (!was_made(bool(load), run.get())) return Ref();
  Ref loaded = Ref::own(PyObject_CallNoArgs(load.get()));
  if (loaded && Py_TYPE(loaded.get()) == &unloaded_type) {
    PyErr_SetString(PyExc_RuntimeError, "an executable was not loaded");
    return Ref();
  }
  return loaded;
}

Ref run_by_address(CompiledProgram* program, PyObject* native, PyObject* const* args,
                   Py_ssize_t count, PyObject* out_shardings, bool committed,
                   const std::vector<Py_ssize_t>* donated) {
  NativeCallOptions options{program->out_avals};
  options.out_shardings = out_shardings;
  options.committed = committed;
  options.takes_placed = out_shardings != nullptr;
  options.donated = donated;
  // Operands that are neither arrays nor numbers fall back to the Python definition, which converts
  // or refuses them.
  options.convert = [](void* context, size_t, PyObject* object) {
    return call_held(new_buffer, object, static_cast<CompiledProgram*>(context)->memory);
  };
  options.context = program;
  return run_native(reinterpret_cast<Native*>(native), args, count, options);
}

Ref run_program(CompiledProgram* program, PyObject* const* args, Py_ssize_t count) {
  program->used = clock_now;
  std::vector<PyObject*> taken;
  if (!take(program, args, count, taken)) return Ref();
  Ref run = runner(program);
  if (!run) return run;
  if (is_native(run.get())) {
    return run_by_address(program, run.get(), args, count, nullptr, false, nullptr);
  }
  HostOperands host_operands(run.get(), static_cast<size_t>(count));
  Ref buffers = Ref::own(PyList_New(count));
  for (Py_ssize_t i = 0; buffers && i < count; ++i) {
    Ref buffer = operand(program, static_cast<size_t>(i), args[i], nullptr, host_operands);
    if (!buffer) return buffer;
    PyList_SET_ITEM(buffers.get(), i, buffer.release());
  }
  Ref outs = buffers ? execute(run.get(), buffers.get(), host_operands) : Ref();
  return outs ? wrap(program, outs.get()) : Ref();
}

int add_program(PyObject* module) {
  for (PyTypeObject* type : {&program_type, &unloaded_type, &clock_type}) {
    if (add_type(module, type) < 0) return -1;
  }
  PyObject* clock = clock_type.tp_alloc(&clock_type, 0);
  if (clock == nullptr || PyModule_AddObject(module, "clock", clock) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
