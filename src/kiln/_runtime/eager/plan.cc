#include "eager/plan.h"

#include <cstring>
#include <memory>
#include <vector>

#include "arrays/memory.h"
#include "eager/schedule.h"
#include "eager/values.h"
#include "objects/numpy.h"
#include "waiting/ending.h"

namespace kiln {
namespace {

// Programs over more elements than this release the GIL.
constexpr intptr_t kLetOthersRun = 1 << 15;
// Scratch memory of up to this many bytes is on the stack.
constexpr size_t kOnStack = 2048;

struct Plan {
  PyObject_HEAD
  Schedule* schedule;
};

// Every reference that a run holds. Most plans have few buffers: theirs are in place, and only as
// many as there are begin and end their lives.
struct Run {
  static constexpr size_t kInline = 16;
  char* inline_bases[kInline];
  union {
    Ref inline_owners[kInline];
  };
  size_t buffers;
  std::unique_ptr<char*[]> spilled_bases;
  std::unique_ptr<Ref[]> spilled_owners;
  char** bases = inline_bases;
  Ref* owners = inline_owners;

  explicit Run(size_t buffers) : buffers(buffers) {
    if (buffers > kInline) {
      bases = (spilled_bases = std::make_unique<char*[]>(buffers)).get();
      owners = (spilled_owners = std::make_unique<Ref[]>(buffers)).get();
    } else {
      std::uninitialized_value_construct_n(inline_owners, buffers);
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    if (buffers <= kInline) std::destroy_n(inline_owners, buffers);
  }
};

void run_loop(const Step& step, char* const* bases) {
  char* args[kMostOperands];
  for (int i = 0; i < step.operands; ++i) {
    args[i] = bases[step.starts[i].buffer] + step.starts[i].offset;
  }
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
  Ref made = Ref::own(
      PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(view.descr.get()),
                           static_cast<int>(view.shape.size()), view.shape.data(),
                           view.strides.data(), base + view.start.offset, 0, nullptr));
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
  Ref made = Ref::own(
      PyArray_FromAny(value, reinterpret_cast<PyArray_Descr*>(view.descr.get()), 0, 0,
                      NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_ENSUREARRAY, nullptr));
  if (!made) return false;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(made.get());
  if (static_cast<size_t>(PyArray_NDIM(array)) != view.shape.size() ||
      !PyArray_CompareLists(PyArray_DIMS(array), view.shape.data(), PyArray_NDIM(array))) {
    PyErr_SetString(PyExc_RuntimeError, "a NumPy meaning gave another shape than was inferred");
    return false;
  }
  PyArray_CLEARFLAGS(array, NPY_ARRAY_WRITEABLE);
  size_t buffer = static_cast<size_t>(view.start.buffer);
  run.bases[buffer] = PyArray_BYTES(array);
  run.owners[buffer] = std::move(made);
  return true;
}

bool run_function(const Step& step, Run& run) {
  PyObject* args[1 + kMostAxes] = {};
  std::vector<Ref> held;
  for (size_t i = 0; i < step.given.size(); ++i) {
    size_t buffer = static_cast<size_t>(step.given[i].start.buffer);
    held.push_back(view_of(step.given[i], run.bases[buffer], run.owners[buffer].get()));
    if (!held.back()) return false;
    args[1 + i] = held.back().get();
  }
  Ref value = Ref::own(PyObject_Vectorcall(
      step.function.get(), args + 1, step.given.size() | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!value) return false;
  if (step.made.size() == 1) return take(step.made[0], value.get(), run);
  Ref values = Ref::own(PySequence_Tuple(value.get()));
  if (!values || PyTuple_GET_SIZE(values.get()) != static_cast<Py_ssize_t>(step.made.size())) {
    return false;
  }
  for (size_t i = 0; i < step.made.size(); ++i) {
    if (!take(step.made[i], PyTuple_GET_ITEM(values.get(), static_cast<Py_ssize_t>(i)), run)) {
      return false;
    }
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
    Ref view = shape
                   ? Ref::own(PyArray_Reshape(reinterpret_cast<PyArrayObject*>(owner), shape.get()))
                   : Ref();
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
    scratch = static_cast<char*>(reinterpret_cast<MemoryBlock*>(scratch_memory.get())->data);
  }
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const Buffer& buffer = schedule.buffers[i];
    switch (buffer.source) {
      case kInput: {
        Values values;
        const ValueType& input = schedule.inputs[static_cast<size_t>(buffer.number)];
        if (!find_values(arrays[buffer.number], input.type_number, input.bytes, values)) {
          return Ref();
        }
        run.bases[i] = const_cast<char*>(static_cast<const char*>(values.pointer));
        run.owners[i] = std::move(values.owner);
        break;
      }
      case kConstant:
        run.bases[i] = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(buffer.constant.get()));
        if (schedule.calls) run.owners[i] = Ref::borrow(buffer.constant.get());
        break;
      case kScratch:
        run.bases[i] = scratch + buffer.offset;
        if (scratch_memory) run.owners[i] = Ref::borrow(scratch_memory.get());
        break;
      case kResult: {
        MemoryBlock* memory = allocate(static_cast<size_t>(buffer.number));
        if (memory == nullptr) return Ref();
        run.bases[i] = static_cast<char*>(memory->data);
        run.owners[i] = Ref::own(reinterpret_cast<PyObject*>(memory));
        break;
      }
      case kFromFunction: break;
    }
  }
  {
    WithoutLock without(schedule.work > kLetOthersRun && !schedule.calls);
    for (const Step& step : schedule.steps) {
      if (step.loop) {
        if (!step.is_empty) run_loop(step, run.bases);
      } else if (!run_function(step, run)) {
        return Ref();
      }
    }
  }
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

PyObject* plan_new(PyTypeObject* type, PyObject* args, PyObject*) {
  auto schedule = std::make_unique<Schedule>();
  if (!read_schedule(args, *schedule)) return nullptr;
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
  if (arrays.size() != schedule.inputs.size() ||
      arrays.size() != static_cast<size_t>(PyTuple_GET_SIZE(args))) {
    PyErr_SetString(PyExc_TypeError, "a plan takes arrays of the types it was made for");
    return nullptr;
  }
  Ref found = run_plan(self, arrays.data());
  if (!found && !PyErr_Occurred()) {
    PyErr_SetString(PyExc_ValueError, "an array has no values in memory");
  }
  return found.release();
}

PyObject* count_loops(PyObject* self, void*) {
  Py_ssize_t count = 0;
  for (const Step& step : reinterpret_cast<Plan*>(self)->schedule->steps) {
    count += static_cast<bool>(step.loop);
  }
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

int add_plan(PyObject* module) { return add_type(module, &plan_type); }

}  // namespace kiln
