#include "program.h"

#include <cstring>
#include <vector>

#include "array.h"
#include "native.h"
#include "state.h"

namespace kiln {

long long clock_now = 1;

namespace {

// Functions of core/compilation.py and of the engines.
PyObject* buffer_for = nullptr;      // (array, engine) -> buffer, moving the data if needed
PyObject* new_buffer = nullptr;      // (scalar or ndarray, engine) -> buffer
PyObject* explain_failure = nullptr; // (error, name): raises it in kiln's words
PyObject* consume_name = nullptr;    // "consume_with_handlers"

// Buffers of Python scalars met before: a program is called with few different ones, or with one
// that changes at every call, which then replaces the one before in one place.
struct Scalar {
  PyTypeObject* type;
  uint64_t bits;
  PyObject* options;  // their identity decides the dtype
  PyObject* engine;
  PyObject* buffer;
};
constexpr size_t kScalars = 256;
Scalar scalars[kScalars];

// Whether a scalar's value fits the table, and as which bits.
bool bits_of(PyObject* object, uint64_t& bits) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyFloat_Type) {
    double value = PyFloat_AS_DOUBLE(object);
    std::memcpy(&bits, &value, sizeof bits);
    return true;
  }
  if (type == &PyLong_Type || type == &PyBool_Type) {
    int overflow = 0;
    bits = static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(object, &overflow));
    return overflow == 0;
  }
  return false;
}

Scalar& place_of(PyTypeObject* type, uint64_t bits) {
  uint64_t hash = (bits ^ reinterpret_cast<uint64_t>(type)) * 0x9E3779B97F4A7C15u;
  return scalars[hash >> 56];
}
static_assert(kScalars == 256, "the top eight bits of the hash choose the place");

void forget(Scalar& scalar) {
  Scalar old = std::exchange(scalar, Scalar{});
  Py_XDECREF(old.options);
  Py_XDECREF(old.engine);
  Py_XDECREF(old.buffer);
}

Ref call_two(PyObject* function, PyObject* a, PyObject* b) {
  PyObject* args[] = {nullptr, a, b};
  return Ref::own(PyObject_Vectorcall(function, args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

Ref scalar_buffer(PyObject* object, PyObject* engine) {
  uint64_t bits;
  if (!bits_of(object, bits)) return call_two(new_buffer, object, engine);
  PyTypeObject* type = Py_TYPE(object);
  PyObject* options = current_options();
  if (options == nullptr) return Ref();
  Scalar& known = place_of(type, bits);
  if (known.type == type && known.bits == bits && known.options == options && known.engine == engine) {
    return Ref::borrow(known.buffer);
  }
  Ref kept = Ref::borrow(options);
  Ref made = call_two(new_buffer, object, engine);
  if (!made) return made;
  Scalar& place = place_of(type, bits);
  forget(place);
  place = Scalar{type, bits, kept.release(), Py_NewRef(engine), Py_NewRef(made.get())};
  return made;
}

Ref input(PyObject* object, Program* program) {
  if (is_array(object)) {
    ArrayData* array = reinterpret_cast<ArrayData*>(object);
    if (array->engine == program->engine && array->buffer != Py_None) return Ref::borrow(array->buffer);
    return call_two(buffer_for, object, program->engine);
  }
  if (program->in_host_memory) return call_two(new_buffer, object, program->engine);
  return scalar_buffer(object, program->engine);
}

PyObject* launch(Launcher* launcher, PyObject* buffers) {
  Ref results = Ref::own(PyObject_CallOneArg(launcher->execute, buffers));
  if (results) {
    PyObject* args[] = {results.get(), launcher->handlers};
    PyObject* outs = PyObject_VectorcallMethod(consume_name, args, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    if (outs != nullptr) return outs;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Ref answer = call_two(explain_failure, value, launcher->name);
  if (answer) {
    // It had nothing to say about this kind of error.
    PyErr_Restore(type, value, traceback);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return nullptr;
}

// Choose the arguments that a program takes.
bool take(PyObject* kept, PyObject* const* args, Py_ssize_t count, std::vector<PyObject*>& taken) {
  taken.reserve(static_cast<size_t>(PyList_GET_SIZE(kept)));
  for (Py_ssize_t n = 0; n < PyList_GET_SIZE(kept); ++n) {
    Py_ssize_t i = PyLong_AsSsize_t(PyList_GET_ITEM(kept, n));
    if (i < 0 || i >= count) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "a program takes input %zd, but was given %zd", i, count);
      return false;
    }
    taken.push_back(args[i]);
  }
  return true;
}

Ref run_on(Program* program, PyObject* buffers) {
  Ref run = Ref::borrow(program->run);
  if (PyObject_TypeCheck(run.get(), &launcher_type) && Py_TYPE(run.get())->tp_call == launcher_type.tp_call) {
    return Ref::own(launch(reinterpret_cast<Launcher*>(run.get()), buffers));
  }
  return Ref::own(PyObject_CallOneArg(run.get(), buffers));
}

Ref wrap(PyObject* avals, PyObject* buffers, PyObject* engine, bool in_host_memory) {
  Ref outs = Ref::own(PySequence_Fast(buffers, "an executable returns a sequence of buffers"));
  if (!outs) return outs;
  Py_ssize_t count = PySequence_Fast_GET_SIZE(outs.get());
  if (count != PyList_GET_SIZE(avals)) {
    PyErr_Format(PyExc_RuntimeError, "an executable returned %zd results instead of %zd", count, PyList_GET_SIZE(avals));
    return Ref();
  }
  Ref arrays = Ref::own(PyList_New(count));
  if (!arrays) return arrays;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *aval = PyList_GET_ITEM(avals, i), *buffer = PySequence_Fast_GET_ITEM(outs.get(), i);
    Ref array = in_host_memory ? make_array(aval, buffer, Py_None, Py_None) : make_array(aval, Py_None, buffer, engine);
    if (!array) return array;
    PyList_SET_ITEM(arrays.get(), i, array.release());
  }
  return arrays;
}

// Program, the Python type.

int program_init(PyObject* self, PyObject* args, PyObject*) {
  Program* program = reinterpret_cast<Program*>(self);
  PyObject *run, *out_avals, *kept, *engine;
  int in_host_memory;
  if (!PyArg_ParseTuple(args, "OO!OOp", &run, &PyList_Type, &out_avals, &kept, &engine, &in_host_memory)) return -1;
  if (kept != Py_None && !PyList_CheckExact(kept)) {
    PyErr_SetString(PyExc_TypeError, "the inputs kept are a list of numbers, or None");
    return -1;
  }
  Py_XSETREF(program->run, Py_NewRef(run));
  Py_XSETREF(program->out_avals, Py_NewRef(out_avals));
  Py_XSETREF(program->kept, Py_NewRef(kept));
  Py_XSETREF(program->engine, Py_NewRef(engine));
  program->in_host_memory = static_cast<char>(in_host_memory);
  return 0;
}

int program_traverse(PyObject* self, visitproc visit, void* arg) {
  Program* program = reinterpret_cast<Program*>(self);
  Py_VISIT(program->run);
  Py_VISIT(program->out_avals);
  Py_VISIT(program->kept);
  Py_VISIT(program->engine);
  return 0;
}

int program_clear(PyObject* self) {
  Program* program = reinterpret_cast<Program*>(self);
  Py_CLEAR(program->run);
  Py_CLEAR(program->out_avals);
  Py_CLEAR(program->kept);
  Py_CLEAR(program->engine);
  return 0;
}

void program_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  program_clear(self);
  Py_TYPE(self)->tp_free(self);
}

PyObject* program_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* given;
  if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError, "a program takes one sequence of arguments");
    return nullptr;
  }
  if (!PyArg_ParseTuple(args, "O", &given)) return nullptr;
  Ref items = Ref::own(PySequence_Fast(given, "a program takes a sequence of arguments"));
  if (!items) return nullptr;
  return run_program(reinterpret_cast<Program*>(self), PySequence_Fast_ITEMS(items.get()),
                     PySequence_Fast_GET_SIZE(items.get()))
      .release();
}

PyMemberDef program_members[] = {
    {"_call", T_OBJECT_EX, offsetof(Program, run), 0, "What runs it: buffers -> buffers."},
    {"out_avals", T_OBJECT_EX, offsetof(Program, out_avals), 0, "The types of the results."},
    {"kept", T_OBJECT_EX, offsetof(Program, kept), READONLY, "The numbers of the inputs it takes, or None for all."},
    {"engine", T_OBJECT_EX, offsetof(Program, engine), READONLY, "The engine it runs on."},
    {"used", T_LONGLONG, offsetof(Program, used), 0, "When it last ran, in the time of `clock`."},
    {nullptr},
};

// Launcher, the Python type.

int launcher_init(PyObject* self, PyObject* args, PyObject*) {
  Launcher* launcher = reinterpret_cast<Launcher*>(self);
  PyObject *execute, *handlers, *name;
  if (!PyArg_ParseTuple(args, "OO!O", &execute, &PyList_Type, &handlers, &name)) return -1;
  Py_XSETREF(launcher->execute, Py_NewRef(execute));
  Py_XSETREF(launcher->handlers, Py_NewRef(handlers));
  Py_XSETREF(launcher->name, Py_NewRef(name));
  return 0;
}

int launcher_traverse(PyObject* self, visitproc visit, void* arg) {
  Launcher* launcher = reinterpret_cast<Launcher*>(self);
  Py_VISIT(launcher->execute);
  Py_VISIT(launcher->handlers);
  Py_VISIT(launcher->name);
  return 0;
}

int launcher_clear(PyObject* self) {
  Launcher* launcher = reinterpret_cast<Launcher*>(self);
  Py_CLEAR(launcher->execute);
  Py_CLEAR(launcher->handlers);
  Py_CLEAR(launcher->name);
  return 0;
}

void launcher_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  launcher_clear(self);
  Py_TYPE(self)->tp_free(self);
}

PyObject* launcher_call(PyObject* self, PyObject* args, PyObject*) {
  PyObject* buffers;
  if (!PyArg_ParseTuple(args, "O", &buffers)) return nullptr;
  return launch(reinterpret_cast<Launcher*>(self), buffers);
}

PyMemberDef launcher_members[] = {
    {"name", T_OBJECT_EX, offsetof(Launcher, name), READONLY, "The name of the program."},
    {"_execute", T_OBJECT_EX, offsetof(Launcher, execute), 0, "buffers -> results"},
    {nullptr},
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

PyObject* wrap_buffers(PyObject*, PyObject* args) {
  PyObject *avals, *buffers, *engine;
  int in_host_memory;
  if (!PyArg_ParseTuple(args, "O!OOp", &PyList_Type, &avals, &buffers, &engine, &in_host_memory)) return nullptr;
  return wrap(avals, buffers, engine, in_host_memory).release();
}

PyObject* set_buffer_functions(PyObject*, PyObject* args) {
  PyObject *existing, *fresh;
  if (!PyArg_ParseTuple(args, "OO", &existing, &fresh)) return nullptr;
  Py_XSETREF(buffer_for, Py_NewRef(existing));
  Py_XSETREF(new_buffer, Py_NewRef(fresh));
  Py_RETURN_NONE;
}

PyObject* set_explain_failure(PyObject*, PyObject* function) {
  Py_XSETREF(explain_failure, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* forget_scalars(PyObject*, PyObject*) {
  for (Scalar& scalar : scalars) forget(scalar);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"wrap_buffers", wrap_buffers, METH_VARARGS, "Make arrays of types, buffers, an engine, and whether it is NumPy's memory."},
    {"set_buffer_functions", set_buffer_functions, METH_VARARGS, "Set what brings arrays, and scalars, to an engine."},
    {"set_explain_failure", set_explain_failure, METH_O, "Set what raises an engine's error in kiln's words."},
    {"forget_scalars", forget_scalars, METH_NOARGS, "Let the buffers of scalars go."},
    {nullptr},
};

}  // namespace

PyTypeObject program_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Program",
    .tp_basicsize = sizeof(Program),
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

PyTypeObject launcher_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Launcher",
    .tp_basicsize = sizeof(Launcher),
    .tp_dealloc = launcher_dealloc,
    .tp_call = launcher_call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "An executable that enqueues a program and hands its results over.",
    .tp_traverse = launcher_traverse,
    .tp_clear = launcher_clear,
    .tp_members = launcher_members,
    .tp_init = launcher_init,
    .tp_new = PyType_GenericNew,
};

Ref run_program(Program* program, PyObject* const* args, Py_ssize_t count) {
  program->used = clock_now;
  Ref kept = Ref::borrow(program->kept);
  std::vector<PyObject*> taken;
  if (kept.get() != Py_None) {
    if (!take(kept.get(), args, count, taken)) return Ref();
    args = taken.data();
    count = static_cast<Py_ssize_t>(taken.size());
  }
  if (Py_TYPE(program->run) == &native_type) {
    Ref native = Ref::borrow(program->run);
    return run_native(reinterpret_cast<Native*>(native.get()), args, count, program->out_avals);
  }
  Ref buffers = Ref::own(PyList_New(count));
  if (!buffers) return Ref();
  for (Py_ssize_t i = 0; i < count; ++i) {
    Ref buffer = input(args[i], program);
    if (!buffer) return Ref();
    PyList_SET_ITEM(buffers.get(), i, buffer.release());
  }
  Ref outs = run_on(program, buffers.get());
  if (!outs) return Ref();
  return wrap(program->out_avals, outs.get(), program->engine, program->in_host_memory);
}

int add_program(PyObject* module) {
  consume_name = PyUnicode_InternFromString("consume_with_handlers");
  if (consume_name == nullptr || add_type(module, &program_type) < 0 || add_type(module, &launcher_type) < 0 ||
      add_type(module, &clock_type) < 0) {
    return -1;
  }
  PyObject* clock = clock_type.tp_alloc(&clock_type, 0);
  if (clock == nullptr || PyModule_AddObject(module, "clock", clock) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
