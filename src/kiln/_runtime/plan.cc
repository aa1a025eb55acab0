#include "plan.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/level.h"
#include "kernels/strided.h"
#include "memory.h"
#include "numpy.h"
#include "operands.h"
#include "values.h"

#include <numpy/ufuncobject.h>

namespace kiln {
namespace {

// Programs over more elements than this let other threads run.
constexpr intptr_t kLetOthersRun = 1 << 15;
// Scratch memory up to so many bytes is on the stack.
constexpr size_t kOnStack = 2048;
constexpr int kMostOperands = 4;
constexpr int kMostAxes = 32;

// A loop with what it needs besides its operands.
struct Loop {
  PyObject_HEAD
  StridedLoop loop;
  void* data;
  PyObject* owner;
};

void loop_dealloc(PyObject* object) {
  Py_XDECREF(reinterpret_cast<Loop*>(object)->owner);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject loop_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Loop",
    .tp_basicsize = sizeof(Loop),
    .tp_dealloc = loop_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A compiled loop over strided operands.",
};

PyObject* make_loop(StridedLoop found, void* data, PyObject* owner) {
  Loop* made = reinterpret_cast<Loop*>(loop_type.tp_alloc(&loop_type, 0));
  if (made == nullptr) return nullptr;
  made->loop = found;
  made->data = data;
  made->owner = Py_XNewRef(owner);
  return reinterpret_cast<PyObject*>(made);
}

PyObject* loop_of_ufunc(PyObject*, PyObject* args) {
  PyObject* given;
  const char* types;
  if (!PyArg_ParseTuple(args, "Os", &given, &types)) return nullptr;
  if (std::strcmp(Py_TYPE(given)->tp_name, "numpy.ufunc") != 0) Py_RETURN_NONE;
  PyUFuncObject* ufunc = reinterpret_cast<PyUFuncObject*>(given);
  if (static_cast<int>(std::strlen(types)) != ufunc->nargs || ufunc->nargs > kMostOperands) {
    Py_RETURN_NONE;
  }
  for (int i = 0; i < ufunc->ntypes; ++i) {
    bool fits = true;
    for (int j = 0; j < ufunc->nargs; ++j) {
      PyArray_Descr* descr = PyArray_DescrFromType(ufunc->types[i * ufunc->nargs + j]);
      if (descr == nullptr) return nullptr;
      fits = fits && descr->type == types[j];
      Py_DECREF(descr);
    }
    if (fits && ufunc->functions[i] != nullptr) {
      static_assert(sizeof(npy_intp) == sizeof(intptr_t));
      return make_loop(reinterpret_cast<StridedLoop>(ufunc->functions[i]),
                       ufunc->data == nullptr ? nullptr : const_cast<void*>(static_cast<const void*>(ufunc->data[i])),
                       given);
    }
  }
  Py_RETURN_NONE;
}

PyObject* loop_named(PyObject*, PyObject* args) {
  const char* name;
  int type, result;
  if (!PyArg_ParseTuple(args, "sCC", &name, &type, &result)) return nullptr;
  StridedLoop found = nullptr;
#ifdef KILN_X86_64
  if (processor_level() == 4) found = strided_v4(name, static_cast<char>(type), static_cast<char>(result));
  else if (processor_level() == 3) found = strided_v3(name, static_cast<char>(type), static_cast<char>(result));
  else
#endif
    found = strided_baseline(name, static_cast<char>(type), static_cast<char>(result));
  if (found == nullptr) Py_RETURN_NONE;
  return make_loop(found, nullptr, nullptr);
}

// Where an operand is: a buffer, and the bytes to its first element.
struct Place {
  int buffer;
  intptr_t offset;
};

// An operand of a NumPy function, or a result of one.
struct View {
  Place place;
  Ref descr;
  std::vector<npy_intp> shape, strides;
};

struct Step {
  Ref loop;  // a Loop; if there is none, `function` is called
  StridedLoop run = nullptr;
  void* data = nullptr;
  int operands = 0;
  int outer = 0;  // axes around the one of the loop
  intptr_t count = 0;
  intptr_t inner[kMostOperands] = {};
  Place places[kMostOperands] = {};
  std::vector<intptr_t> sizes;    // of the outer axes
  std::vector<intptr_t> strides;  // for each outer axis, of each operand
  std::vector<intptr_t> core_sizes, core_steps;  // of a loop over more than elements, as NumPy has them

  Ref function;
  std::vector<View> given, made;
};

// What the bytes of a buffer are.
enum Source : int { kInput, kConstant, kScratch, kResult, kFromFunction };

struct Buffer {
  Source source;
  intptr_t number;  // of the input; bytes otherwise
  size_t offset = 0;  // in the scratch memory
  Ref constant;
};

// How a result is made: of a buffer, of the memory of an input, or it is an input.
enum Outcome : int { kFresh, kSame, kSharing };

struct Result {
  Outcome outcome;
  int buffer;
  Ref aval;
};

enum Container : int { kSingle, kTuple, kList };

struct Schedule {
  std::vector<Layout> inputs;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Result> results;
  Container container = kSingle;
  size_t scratch = 0;
  size_t bytes = 0;
  intptr_t work = 0;  // elements in all loops
  bool calls = false;
};

struct Plan {
  PyObject_HEAD
  Schedule* schedule;
};

// Everything a run holds on to.
struct Run {
  std::vector<char*> spilled_bases;
  std::vector<Ref> spilled_owners;
  static constexpr size_t kInline = 16;
  char* inline_bases[kInline];
  Ref inline_owners[kInline];
  char** bases = inline_bases;
  Ref* owners = inline_owners;

  explicit Run(size_t buffers) {
    if (buffers <= kInline) return;
    spilled_bases.resize(buffers);
    spilled_owners.resize(buffers);
    bases = spilled_bases.data();
    owners = spilled_owners.data();
  }
};

void run_loop(const Step& step, char* const* bases) {
  char* args[kMostOperands];
  for (int i = 0; i < step.operands; ++i) args[i] = bases[step.places[i].buffer] + step.places[i].offset;
  if (!step.core_sizes.empty()) {
    step.run(args, step.core_sizes.data(), step.core_steps.data(), step.data);
    return;
  }
  if (step.outer == 0) {
    step.run(args, &step.count, step.inner, step.data);
    return;
  }
  intptr_t at[kMostAxes] = {};
  const intptr_t* strides = step.strides.data();
  while (true) {
    char* here[kMostOperands];
    std::memcpy(here, args, sizeof here);
    step.run(here, &step.count, step.inner, step.data);
    int axis = step.outer - 1;
    for (; axis >= 0; --axis) {
      const intptr_t* stride = strides + axis * step.operands;
      for (int i = 0; i < step.operands; ++i) args[i] += stride[i];
      if (++at[axis] < step.sizes[static_cast<size_t>(axis)]) break;
      for (int i = 0; i < step.operands; ++i) args[i] -= stride[i] * at[axis];
      at[axis] = 0;
    }
    if (axis < 0) return;
  }
}

Ref view_of(const View& view, char* base, PyObject* owner) {
  Py_INCREF(view.descr.get());
  Ref made = Ref::own(PyArray_NewFromDescr(
      &PyArray_Type, reinterpret_cast<PyArray_Descr*>(view.descr.get()), static_cast<int>(view.shape.size()),
      view.shape.data(), view.strides.data(), base + view.place.offset, 0, nullptr));
  if (!made) return made;
  PyArray_UpdateFlags(reinterpret_cast<PyArrayObject*>(made.get()),
                      NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  if (owner != nullptr &&
      PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(made.get()), Py_NewRef(owner)) < 0) {
    return Ref();
  }
  return made;
}

bool take(const View& view, PyObject* value, Run& run) {
  Py_INCREF(view.descr.get());
  Ref made = Ref::own(PyArray_FromAny(value, reinterpret_cast<PyArray_Descr*>(view.descr.get()), 0, 0,
                                      NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_ENSUREARRAY, nullptr));
  if (!made) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(made.get());
  if (static_cast<size_t>(PyArray_NDIM(array)) != view.shape.size() ||
      !PyArray_CompareLists(PyArray_DIMS(array), view.shape.data(), PyArray_NDIM(array))) {
    PyErr_SetString(PyExc_RuntimeError, "a NumPy meaning gave another shape than was inferred");
    return false;
  }
  PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
  size_t buffer = static_cast<size_t>(view.place.buffer);
  run.bases[buffer] = PyArray_BYTES(array);
  run.owners[buffer] = std::move(made);
  return true;
}

bool run_function(const Step& step, Run& run) {
  PyObject* args[1 + kMostAxes] = {};
  std::vector<Ref> held;
  for (size_t i = 0; i < step.given.size(); ++i) {
    size_t buffer = static_cast<size_t>(step.given[i].place.buffer);
    held.push_back(view_of(step.given[i], run.bases[buffer], run.owners[buffer].get()));
    if (!held.back()) return false;
    args[1 + i] = held.back().get();
  }
  Ref value = Ref::own(PyObject_Vectorcall(step.function.get(), args + 1,
                                           step.given.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!value) return false;
  if (step.made.size() == 1) return take(step.made[0], value.get(), run);
  Ref values = Ref::own(PySequence_Fast(value.get(), "several results"));
  if (!values || PySequence_Fast_GET_SIZE(values.get()) != static_cast<Py_ssize_t>(step.made.size())) return false;
  for (size_t i = 0; i < step.made.size(); ++i) {
    if (!take(step.made[i], PySequence_Fast_GET_ITEM(values.get(), static_cast<Py_ssize_t>(i)), run)) return false;
  }
  return true;
}

Ref result_of(const Result& result, const Schedule& schedule, Run& run, ArrayData* const* arrays) {
  size_t buffer = static_cast<size_t>(result.buffer);
  if (result.outcome == kSame) {
    return Ref::borrow(reinterpret_cast<PyObject*>(arrays[schedule.buffers[buffer].number]));
  }
  PyObject* owner = run.owners[buffer].get();
  if (result.outcome == kSharing && PyArray_CheckExact(owner)) {
    Ref shape = Ref::own(PyObject_GetAttrString(result.aval.get(), "shape"));
    Ref view = shape ? Ref::own(PyArray_Reshape(reinterpret_cast<PyArrayObject*>(owner), shape.get())) : Ref();
    return view ? make_array(result.aval.get(), view.get(), Py_None, Py_None) : Ref();
  }
  return make_array(result.aval.get(), owner, Py_None, Py_None);
}

Ref run_steps(const Schedule& schedule, ArrayData* const* arrays) {
  Run run(schedule.buffers.size());
  alignas(64) char on_stack[kOnStack];
  Ref scratch_memory;
  char* scratch = on_stack;
  if (schedule.scratch > kOnStack || (schedule.scratch > 0 && schedule.calls)) {
    scratch_memory = Ref::own(reinterpret_cast<PyObject*>(allocate(schedule.scratch)));
    if (!scratch_memory) return Ref();
    scratch = static_cast<char*>(reinterpret_cast<Memory*>(scratch_memory.get())->data);
  }
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    switch (buffer.source) {
      case kInput: {
        Values values;
        const Layout& input = schedule.inputs[static_cast<size_t>(buffer.number)];
        if (!find_values(arrays[buffer.number], input.type_number, input.bytes, values)) return Ref();
        run.bases[i] = const_cast<char*>(static_cast<const char*>(values.pointer));
        run.owners[i] = std::move(values.owner);
        break;
      }
      case kConstant:
        run.bases[i] = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(buffer.constant.get()));
        break;
      case kScratch:
        run.bases[i] = scratch + buffer.offset;
        if (scratch_memory) run.owners[i] = Ref::borrow(scratch_memory.get());
        break;
      case kResult: {
        Memory* memory = allocate(static_cast<size_t>(buffer.number));
        if (memory == nullptr) return Ref();
        run.bases[i] = static_cast<char*>(memory->data);
        run.owners[i] = Ref::own(reinterpret_cast<PyObject*>(memory));
        break;
      }
      case kFromFunction:
        break;
    }
  }
  bool lets_others_run = schedule.work > kLetOthersRun && !schedule.calls;
  PyThreadState* saved = lets_others_run ? PyEval_SaveThread() : nullptr;
  for (const Step& step : schedule.steps) {
    if (step.loop) {
      run_loop(step, run.bases);
    } else if (!run_function(step, run)) {
      return Ref();
    }
  }
  if (saved != nullptr) PyEval_RestoreThread(saved);
  if (schedule.container == kSingle) return result_of(schedule.results[0], schedule, run, arrays);
  Py_ssize_t count = static_cast<Py_ssize_t>(schedule.results.size());
  Ref all = Ref::own(schedule.container == kTuple ? PyTuple_New(count) : PyList_New(count));
  for (Py_ssize_t i = 0; all && i < count; ++i) {
    Ref one = result_of(schedule.results[static_cast<size_t>(i)], schedule, run, arrays);
    if (!one) return Ref();
    if (schedule.container == kTuple) PyTuple_SET_ITEM(all.get(), i, one.release());
    else PyList_SET_ITEM(all.get(), i, one.release());
  }
  return all;
}

// Making a plan of what Python says.

bool numbers(PyObject* given, std::vector<npy_intp>& found) {
  if (!PyTuple_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "sizes and strides are tuples");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    found.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i)));
  }
  if (found.size() > kMostAxes) PyErr_SetString(PyExc_ValueError, "too many axes");
  return !PyErr_Occurred();
}

bool read_view(PyObject* given, View& view) {
  PyObject *descr, *shape, *strides;
  if (!PyArg_ParseTuple(given, "inO!OO", &view.place.buffer, &view.place.offset, &PyArrayDescr_Type, &descr, &shape,
                        &strides)) {
    return false;
  }
  view.descr = Ref::borrow(descr);
  return numbers(shape, view.shape) && numbers(strides, view.strides);
}

bool read_views(PyObject* given, std::vector<View>& views) {
  if (!PyList_Check(given) || PyList_GET_SIZE(given) > kMostAxes) {
    PyErr_SetString(PyExc_TypeError, "operands are a list, of at most 32");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given); ++i) {
    views.emplace_back();
    if (!read_view(PyList_GET_ITEM(given, i), views.back())) return false;
  }
  return true;
}

// (loop, sizes, [(buffer, offset, strides)]), or (loop, sizes, [(buffer, offset, ())], steps) for a
// loop over more than elements
bool read_loop(PyObject* given, Step& step) {
  PyObject *loop, *sizes, *operands, *core_steps = nullptr;
  if (!PyArg_ParseTuple(given, "O!OO!|O", &loop_type, &loop, &sizes, &PyList_Type, &operands, &core_steps)) return false;
  std::vector<npy_intp> found;
  if (!numbers(sizes, found)) return false;
  step.operands = static_cast<int>(PyList_GET_SIZE(operands));
  if (found.empty() || step.operands > kMostOperands) {
    PyErr_SetString(PyExc_ValueError, "a loop has an axis, and at most four operands");
    return false;
  }
  step.loop = Ref::borrow(loop);
  step.run = reinterpret_cast<Loop*>(loop)->loop;
  step.data = reinterpret_cast<Loop*>(loop)->data;
  if (core_steps != nullptr) {
    std::vector<npy_intp> steps;
    if (!numbers(core_steps, steps)) return false;
    step.core_sizes.assign(found.begin(), found.end());
    step.core_steps.assign(steps.begin(), steps.end());
    found.assign(1, 1);
    for (npy_intp size : step.core_sizes) found[0] *= size;
  }
  step.count = found.back();
  step.outer = static_cast<int>(found.size()) - 1;
  step.sizes.assign(found.begin(), found.end() - 1);
  step.strides.resize(static_cast<size_t>(step.outer * step.operands));
  for (int i = 0; i < step.operands; ++i) {
    PyObject* strides;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(operands, i), "inO", &step.places[i].buffer, &step.places[i].offset,
                          &strides)) {
      return false;
    }
    std::vector<npy_intp> steps;
    if (!numbers(strides, steps)) return false;
    if (core_steps != nullptr) continue;
    if (steps.size() != found.size()) {
      PyErr_SetString(PyExc_ValueError, "an operand has one stride for each axis");
      return false;
    }
    step.inner[i] = steps.back();
    for (int axis = 0; axis < step.outer; ++axis) {
      step.strides[static_cast<size_t>(axis * step.operands + i)] = steps[static_cast<size_t>(axis)];
    }
  }
  return true;
}

// (function, operands, results)
bool read_function(PyObject* given, Step& step) {
  PyObject *function, *operands, *results;
  if (!PyArg_ParseTuple(given, "OOO", &function, &operands, &results)) return false;
  step.function = Ref::borrow(function);
  return read_views(operands, step.given) && read_views(results, step.made) && !step.made.empty();
}

bool read_buffer(PyObject* given, Schedule& schedule) {
  int source;
  PyObject* detail;
  if (!PyArg_ParseTuple(given, "iO", &source, &detail)) return false;
  Buffer buffer{static_cast<Source>(source), 0};
  if (source == kConstant) {
    if (!PyArray_CheckExact(detail)) {
      PyErr_SetString(PyExc_TypeError, "a constant is an array of NumPy's");
      return false;
    }
    buffer.constant = Ref::borrow(detail);
    schedule.bytes += static_cast<size_t>(PyArray_NBYTES(reinterpret_cast<PyArrayObject*>(detail)));
  } else {
    buffer.number = PyLong_AsSsize_t(detail);
    if (PyErr_Occurred()) return false;
  }
  if (source == kScratch) {
    buffer.offset = schedule.scratch;
    schedule.scratch += (static_cast<size_t>(buffer.number) + kAlignment - 1) / kAlignment * kAlignment;
  }
  schedule.buffers.push_back(std::move(buffer));
  return true;
}

bool read_program(PyObject* args, Schedule& schedule) {
  PyObject *inputs, *buffers, *steps, *results;
  int container;
  if (!PyArg_ParseTuple(args, "O!O!O!O!i", &PyList_Type, &inputs, &PyList_Type, &buffers, &PyList_Type, &steps,
                        &PyList_Type, &results, &container)) {
    return false;
  }
  schedule.container = static_cast<Container>(container);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); ++i) {
    PyObject* descr;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(inputs, i), "O!n", &PyArrayDescr_Type, &descr, &bytes)) return false;
    schedule.inputs.push_back({reinterpret_cast<PyArray_Descr*>(descr)->type_num, static_cast<size_t>(bytes)});
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(buffers); ++i) {
    if (!read_buffer(PyList_GET_ITEM(buffers, i), schedule)) return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); ++i) {
    PyObject* given = PyList_GET_ITEM(steps, i);
    schedule.steps.emplace_back();
    Step& step = schedule.steps.back();
    bool is_loop = PyTuple_Check(given) && PyTuple_GET_SIZE(given) > 0 &&
                   Py_TYPE(PyTuple_GET_ITEM(given, 0)) == &loop_type;
    if (!(is_loop ? read_loop(given, step) : read_function(given, step))) return false;
    schedule.calls = schedule.calls || !is_loop;
    intptr_t work = step.count;
    for (intptr_t size : step.sizes) work *= size;
    schedule.work += work;
    schedule.bytes += sizeof(Step);
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(results); ++i) {
    int outcome, buffer;
    PyObject* aval;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(results, i), "iiO", &outcome, &buffer, &aval)) return false;
    schedule.results.push_back({static_cast<Outcome>(outcome), buffer, Ref::borrow(aval)});
  }
  schedule.bytes += sizeof(Schedule) + schedule.buffers.size() * sizeof(Buffer);
  auto known = [&](int buffer) { return buffer >= 0 && static_cast<size_t>(buffer) < schedule.buffers.size(); };
  bool sound = !schedule.results.empty();
  for (const Result& result : schedule.results) sound = sound && known(result.buffer);
  for (const Step& step : schedule.steps) {
    for (int i = 0; i < step.operands; ++i) sound = sound && known(step.places[i].buffer);
    for (const View& view : step.given) sound = sound && known(view.place.buffer);
    for (const View& view : step.made) sound = sound && known(view.place.buffer);
  }
  for (const Buffer& buffer : schedule.buffers) {
    if (buffer.source == kInput) sound = sound && static_cast<size_t>(buffer.number) < schedule.inputs.size();
  }
  if (!sound) PyErr_SetString(PyExc_ValueError, "a plan names a buffer that it does not have");
  return sound;
}

PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject*) {
  auto schedule = std::make_unique<Schedule>();
  if (!read_program(args, *schedule)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a step of a plan has results");
    return nullptr;
  }
  Plan* self = reinterpret_cast<Plan*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->schedule = schedule.release();
  return reinterpret_cast<PyObject*>(self);
}

void plan_dealloc(PyObject* object) {
  delete reinterpret_cast<Plan*>(object)->schedule;
  Py_TYPE(object)->tp_free(object);
}

PyObject* plan_call(PyObject* self, PyObject* args, PyObject*) {
  const Schedule& schedule = *reinterpret_cast<Plan*>(self)->schedule;
  std::vector<ArrayData*> arrays;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    if (!is_array(PyTuple_GET_ITEM(args, i))) break;
    arrays.push_back(reinterpret_cast<ArrayData*>(PyTuple_GET_ITEM(args, i)));
  }
  if (arrays.size() != schedule.inputs.size() || arrays.size() != static_cast<size_t>(PyTuple_GET_SIZE(args))) {
    PyErr_SetString(PyExc_TypeError, "a plan takes arrays of the types it was made for");
    return nullptr;
  }
  Ref found = run_plan(self, arrays.data());
  if (!found && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "an array has no values in memory");
  return found.release();
}

PyObject* count_loops(PyObject* self, void*) {
  Py_ssize_t count = 0;
  for (const Step& step : reinterpret_cast<Plan*>(self)->schedule->steps) count += static_cast<bool>(step.loop);
  return PyLong_FromSsize_t(count);
}

PyObject* count_steps(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<Plan*>(self)->schedule->steps.size());
}

PyGetSetDef plan_fields[] = {
    {"loops", count_loops, nullptr, "How many steps are compiled loops.", nullptr},
    {"steps", count_steps, nullptr, "How many steps there are.", nullptr},
    {nullptr},
};

PyMethodDef functions[] = {
    {"loop_of_ufunc", loop_of_ufunc, METH_VARARGS, "Return NumPy's loop for types, given as characters, or None."},
    {"loop_named", loop_named, METH_VARARGS, "Return the loop of a name for a type and a type of result, or None."},
    {nullptr},
};

}  // namespace

PyTypeObject plan_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Plan",
    .tp_basicsize = sizeof(Plan),
    .tp_dealloc = plan_dealloc,
    .tp_call = plan_call,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A program of eager operations on arrays of fixed types.",
    .tp_getset = plan_fields,
    .tp_new = plan_new,
};

Ref run_plan(PyObject* plan, ArrayData* const* arrays) {
  Ref kept = Ref::borrow(plan);
  return run_steps(*reinterpret_cast<Plan*>(plan)->schedule, arrays);
}

size_t plan_bytes(PyObject* plan) { return reinterpret_cast<Plan*>(plan)->schedule->bytes; }

int add_plan(PyObject* module) {
  if (PyType_Ready(&loop_type) < 0 || add_type(module, &loop_type) < 0 || add_type(module, &plan_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
