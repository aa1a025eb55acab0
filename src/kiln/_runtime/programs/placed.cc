#include "programs/placed.h"

#include <algorithm>
#include <memory>

#include "arrays/array.h"
#include "native/native.h"
#include "programs/launcher.h"

namespace kiln {
namespace {

PyObject* buffer_at = nullptr;     // (array, memory, sharding) -> buffer, moved if necessary
PyObject* own_buffer = nullptr;    // (array, memory) -> a buffer with the same values and sharding
PyObject* warn_name = nullptr;     // "warn_of_unusable"
PyObject* refuse_name = nullptr;   // "refuse_second_use"
PyObject* devices_name = nullptr;  // "device_set"

PyObject* buffer_of(PyObject* array) { return reinterpret_cast<ArrayData*>(array)->buffer; }

bool is_any_array(PyObject* object) { return PyObject_TypeCheck(object, &array_data_type); }

// Move an operand to where its sharding requires it.
Ref placed_operand(PlacedProgram* placed, size_t number, PyObject* object,
                   HostOperands& host_operands) {
  CompiledProgram* program = placed->program;
  if (placed->in_shardings == nullptr)
    return operand(program, number, object, nullptr, host_operands);
  PyObject* sharding = PyTuple_GET_ITEM(placed->in_shardings, static_cast<Py_ssize_t>(number));
  if (!is_any_array(object)) return operand(program, number, object, sharding, host_operands);
  ArrayData* array = reinterpret_cast<ArrayData*>(object);
  // The sharding of an array that was not placed is None: it satisfies a request for the first
  // device.
  PyObject*& met = (*placed->met)[number];
  bool is_there = array->memory == program->memory && array->buffer != Py_None;
  if (is_there && array->sharding == met) return Ref::borrow(array->buffer);
  Ref buffer = call_held(buffer_at, object, program->memory, sharding);
  if (buffer && buffer.get() == array->buffer) Py_XSETREF(met, Py_NewRef(array->sharding));
  return buffer;
}

// Whether a donated operand is passed twice.
bool is_used_twice(const std::vector<Py_ssize_t>& donated, PyObject* const* args,
                   Py_ssize_t count) {
  std::vector<std::pair<PyObject*, Py_ssize_t>> memory;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_any_array(args[i])) continue;
    PyObject* buffer = buffer_of(args[i]);
    memory.emplace_back(buffer == Py_None ? args[i] : buffer, i);
  }
  std::sort(memory.begin(), memory.end());
  for (size_t i = 1; i < memory.size(); ++i) {
    if (memory[i].first != memory[i - 1].first) continue;
    for (size_t j : {i - 1, i}) {
      if (std::find(donated.begin(), donated.end(), memory[j].second) != donated.end()) return true;
    }
  }
  return false;
}

// Whether a donated array is itself the operand: it is already where the program runs and needs no
// copy. 1, 0, or -1 with an exception set.
int is_given(PlacedProgram* placed, Py_ssize_t number, PyObject* object) {
  if (is_array(object)) return 1;
  if (!is_placed(object) || placed->in_shardings == nullptr) return 0;
  ArrayData* array = reinterpret_cast<ArrayData*>(object);
  PyObject*& met = (*placed->met)[static_cast<size_t>(number)];
  Ref sharding = Ref::borrow(array->sharding);
  if (sharding.get() == met) return 1;
  Ref here = Ref::own(PyObject_GetAttr(sharding.get(), devices_name));
  Ref there =
      here
          ? Ref::own(PyObject_GetAttr(PyTuple_GET_ITEM(placed->in_shardings, number), devices_name))
          : Ref();
  int is_same = there ? PyObject_RichCompareBool(here.get(), there.get(), Py_EQ) : -1;
  if (is_same == 1) Py_XSETREF(met, sharding.release());
  return is_same;
}

// Run a compiled function by address, on one device. Arrays donated to it are deleted just as those
// donated to an engine.
Ref run_placed_by_address(PlacedProgram* placed, PyObject* native, PyObject* const* args,
                          Py_ssize_t count) {
  CompiledProgram* program = placed->program;
  std::vector<Py_ssize_t> given;
  for (Py_ssize_t i : *placed->usable) {
    if (i >= count || !is_any_array(args[i])) continue;
    int is_operand = is_given(placed, i, args[i]);
    if (is_operand < 0) return Ref();
    if (is_operand) given.push_back(i);
  }
  if (placed->out_shardings != nullptr &&
      PyTuple_GET_SIZE(placed->out_shardings) != PyTuple_GET_SIZE(program->out_avals)) {
    PyErr_SetString(PyExc_RuntimeError, "a program has another number of results than shardings");
    return Ref();
  }
  Ref outs = run_by_address(program, native, args, count, placed->out_shardings, placed->committed,
                            &given);
  if (!outs) return outs;
  for (Py_ssize_t i : given) {
    ArrayData* array = reinterpret_cast<ArrayData*>(args[i]);
    Py_SETREF(array->host, Py_NewRef(Py_None));
    Py_SETREF(array->buffer, Py_NewRef(Py_None));
  }
  return outs;
}

Ref as_tuple(PyObject* const* args, Py_ssize_t count) {
  Ref tuple = Ref::own(PyTuple_New(count));
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  }
  return tuple;
}

// Warn, once, about donated arrays that cannot be used, and refuse those that are passed twice.
bool may_donate(PlacedProgram* placed, PyObject* const* args, Py_ssize_t count) {
  bool is_twice = is_used_twice(*placed->donated, args, count);
  if (!is_twice && placed->has_warned) return true;
  Ref given = as_tuple(args, count);
  if (!given) return false;
  PyObject* name = is_twice ? refuse_name : warn_name;
  placed->has_warned = placed->has_warned || !is_twice;
  return bool(Ref::own(PyObject_CallMethodOneArg(placed->donation, name, given.get())));
}

Ref wrap_placed(PlacedProgram* placed, PyObject* buffers) {
  CompiledProgram* program = placed->program;
  if (placed->out_shardings == nullptr) return wrap(program, buffers);
  PyObject* types = program->out_avals;
  Py_ssize_t count = PyList_Check(buffers) ? PyList_GET_SIZE(buffers) : -1;
  if (count != PyTuple_GET_SIZE(types) || count != PyTuple_GET_SIZE(placed->out_shardings)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "an executable returned another number of results than it has");
    return Ref();
  }
  Ref arrays = Ref::own(PyList_New(count));
  for (Py_ssize_t i = 0; arrays && i < count; ++i) {
    // The garbage collector may run here, and with it arbitrary code.
    if (PyList_GET_SIZE(buffers) <= i) {
      PyErr_SetString(PyExc_RuntimeError, "the results of a program changed while it ran");
      return Ref();
    }
    Ref array =
        make_placed(PyTuple_GET_ITEM(types, i), Py_None, PyList_GET_ITEM(buffers, i),
                    program->memory, PyTuple_GET_ITEM(placed->out_shardings, i), placed->committed);
    if (!array) return array;
    PyList_SET_ITEM(arrays.get(), i, array.release());
  }
  return arrays;
}

bool read_numbers(PyObject* given, std::vector<Py_ssize_t>& numbers, Py_ssize_t count) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i));
    if (number < 0 || (count >= 0 && number >= count)) {
      if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_IndexError, "a program has no operand of that number");
      }
      return false;
    }
    numbers.push_back(number);
  }
  return true;
}

// PlacedProgram(program, in_shardings, out_shardings, committed, donated, usable, donation)
int placed_init(PyObject* self, PyObject* args, PyObject*) {
  PlacedProgram* placed = reinterpret_cast<PlacedProgram*>(self);
  PyObject *program, *in_shardings, *out_shardings, *donated, *usable, *donation;
  int committed;
  if (!PyArg_ParseTuple(args, "O!OOpO!O!O", &program_type, &program, &in_shardings, &out_shardings,
                        &committed, &PyTuple_Type, &donated, &PyTuple_Type, &usable, &donation)) {
    return -1;
  }
  if ((in_shardings != Py_None && !PyTuple_CheckExact(in_shardings)) ||
      (out_shardings != Py_None && !PyTuple_CheckExact(out_shardings)) ||
      (in_shardings == Py_None) != (out_shardings == Py_None) || placed->program != nullptr) {
    PyErr_SetString(PyExc_TypeError, "shardings are given as two tuples, once");
    return -1;
  }
  Py_ssize_t count = in_shardings == Py_None ? -1 : PyTuple_GET_SIZE(in_shardings);
  auto all_donated = std::make_unique<std::vector<Py_ssize_t>>(),
       all_usable = std::make_unique<std::vector<Py_ssize_t>>();
  if (!read_numbers(donated, *all_donated, count) || !read_numbers(usable, *all_usable, count)) {
    return -1;
  }
  placed->donated = all_donated.release();
  placed->usable = all_usable.release();
  placed->met = new std::vector<PyObject*>(static_cast<size_t>(std::max<Py_ssize_t>(count, 0)));
  placed->program = reinterpret_cast<CompiledProgram*>(Py_NewRef(program));
  placed->in_shardings = in_shardings == Py_None ? nullptr : Py_NewRef(in_shardings);
  placed->out_shardings = out_shardings == Py_None ? nullptr : Py_NewRef(out_shardings);
  placed->donation = Py_NewRef(donation);
  placed->committed = static_cast<char>(committed);
  return 0;
}

int placed_traverse(PyObject* self, visitproc visit, void* arg) {
  PlacedProgram* placed = reinterpret_cast<PlacedProgram*>(self);
  Py_VISIT(placed->program);
  Py_VISIT(placed->in_shardings);
  Py_VISIT(placed->out_shardings);
  Py_VISIT(placed->donation);
  return 0;
}

void placed_dealloc(PyObject* self) {
  PlacedProgram* placed = reinterpret_cast<PlacedProgram*>(self);
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, placed_dealloc)
  Py_CLEAR(placed->program);
  Py_CLEAR(placed->in_shardings);
  Py_CLEAR(placed->out_shardings);
  Py_CLEAR(placed->donation);
  if (placed->met != nullptr) {
    for (PyObject* sharding : *placed->met) Py_XDECREF(sharding);
  }
  delete placed->met;
  delete placed->donated;
  delete placed->usable;
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

PyObject* placed_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PlacedProgram* placed = reinterpret_cast<PlacedProgram*>(self);
  PyObject* given;
  if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError, "a program takes one sequence of arguments");
    return nullptr;
  }
  if (!PyArg_ParseTuple(args, "O", &given)) return nullptr;
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return nullptr;
  return run_placed(placed, &PyTuple_GET_ITEM(items.get(), 0), PyTuple_GET_SIZE(items.get()))
      .release();
}

PyObject* set_buffer_at(PyObject*, PyObject* args) {
  PyObject *existing, *own;
  if (!PyArg_ParseTuple(args, "OO", &existing, &own)) return nullptr;
  Py_XSETREF(buffer_at, Py_NewRef(existing));
  Py_XSETREF(own_buffer, Py_NewRef(own));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_buffer_at", set_buffer_at, METH_VARARGS,
     "Set the functions that move an array to devices, and that copy it."},
    {nullptr},
};

}  // namespace

PyTypeObject placed_program_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.PlacedProgram",
    .tp_basicsize = sizeof(PlacedProgram),
    .tp_dealloc = placed_dealloc,
    .tp_call = placed_call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "A program with the shardings of its operands and results, and the arguments it is given "
        "for good.",
    .tp_traverse = placed_traverse,
    .tp_init = placed_init,
    .tp_new = PyType_GenericNew,
};

Ref run_placed(PlacedProgram* placed, PyObject* const* args, Py_ssize_t count) {
  CompiledProgram* program = placed->program;
  if (!was_made(program != nullptr, reinterpret_cast<PyObject*>(placed))) return Ref();
  program->used = clock_now;
  std::vector<PyObject*> taken;
  if (!take(program, args, count, taken)) return Ref();
  if (placed->in_shardings != nullptr && count != PyTuple_GET_SIZE(placed->in_shardings)) {
    PyErr_SetString(PyExc_TypeError,
                    "a program was given another number of arguments than it has operands");
    return Ref();
  }
  Ref run = runner(program);
  if (!run) return run;
  if (is_native(run.get())) {
    if (!placed->donated->empty() && !may_donate(placed, args, count)) return Ref();
    return run_placed_by_address(placed, run.get(), args, count);
  }
  HostOperands host_operands(run.get(), static_cast<size_t>(count));
  Ref buffers = Ref::own(PyList_New(count));
  for (Py_ssize_t i = 0; buffers && i < count; ++i) {
    Ref buffer = placed_operand(placed, static_cast<size_t>(i), args[i], host_operands);
    if (!buffer) return buffer;
    PyList_SET_ITEM(buffers.get(), i, buffer.release());
  }
  if (!buffers) return buffers;
  std::vector<ArrayData*> given;
  if (!placed->donated->empty()) {
    if (!may_donate(placed, args, count)) return Ref();
    for (Py_ssize_t i : *placed->usable) {
      // Except operands that were copied to move them.
      if (i >= count || !is_any_array(args[i]) ||
          buffer_of(args[i]) != PyList_GET_ITEM(buffers.get(), i)) {
        continue;
      }
      ArrayData* array = reinterpret_cast<ArrayData*>(args[i]);
      if (array->is_part) {
        // The whole array keeps its memory: a program on several devices crashes if one of the
        // shards is freed.
        Ref own = call_held(own_buffer, args[i], program->memory);
        if (!own || PyList_SetItem(buffers.get(), i, own.release()) < 0) return Ref();
      }
      // Memory that others reference cannot be reused.
      Py_SETREF(array->host, Py_NewRef(Py_None));
      given.push_back(array);
    }
  }
  Ref outs = execute(run.get(), buffers.get(), host_operands);
  if (!outs) return outs;
  for (ArrayData* array : given) {
    Py_SETREF(array->host, Py_NewRef(Py_None));
    Py_SETREF(array->buffer, Py_NewRef(Py_None));
  }
  return wrap_placed(placed, outs.get());
}

int add_placed(PyObject* module) {
  warn_name = PyUnicode_InternFromString("warn_of_unusable");
  refuse_name = PyUnicode_InternFromString("refuse_second_use");
  devices_name = PyUnicode_InternFromString("device_set");
  if (warn_name == nullptr || refuse_name == nullptr || devices_name == nullptr ||
      add_type(module, &placed_program_type) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
