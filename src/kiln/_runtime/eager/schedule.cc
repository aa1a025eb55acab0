#include "eager/schedule.h"

#include <algorithm>
#include <cstdint>

#include "objects/enumeration.h"

namespace kiln {
namespace {

// The largest size of a buffer that a plan may claim.
constexpr intptr_t kMostBytes = intptr_t{1} << 46;

using Wide = __int128;

bool refuse(const char* why) {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, why);
  return false;
}

// Return an item of a list as a tuple, which stays alive while Python code runs; null with an
// exception set.
Ref tuple_at(PyObject* list, Py_ssize_t i) {
  PyObject* item = i < PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, i) : nullptr;
  if (item != nullptr && PyTuple_Check(item)) return Ref::borrow(item);
  PyErr_SetString(PyExc_TypeError, "a plan is made of lists of tuples");
  return Ref();
}

bool numbers(PyObject* given, std::vector<npy_intp>& found) {
  if (!PyTuple_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "sizes and strides are tuples");
    return false;
  }
  if (PyTuple_GET_SIZE(given) > kMostAxes) return refuse("too many axes");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    found.push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i)));
  }
  return !PyErr_Occurred();
}

bool sizes_of(PyObject* given, std::vector<npy_intp>& found) {
  if (!numbers(given, found)) return false;
  for (npy_intp size : found) {
    if (size < 0) return refuse("a size is at least 0");
  }
  return true;
}

intptr_t product(const std::vector<npy_intp>& sizes) {
  Wide found = 1;
  for (npy_intp size : sizes) found = std::min<Wide>(found * size, kMostBytes);
  return static_cast<intptr_t>(found);
}

bool read_view(const Ref& given, View& view) {
  PyObject *descr, *shape, *strides;
  if (!given || !PyArg_ParseTuple(given.get(), "inO!OO", &view.start.buffer, &view.start.offset,
                                  &PyArrayDescr_Type, &descr, &shape, &strides)) {
    return false;
  }
  view.descr = Ref::borrow(descr);
  PyArray_Descr* type = reinterpret_cast<PyArray_Descr*>(descr);
  if (PyDataType_REFCHK(type) || PyDataType_HASSUBARRAY(type)) {
    return refuse("a plan has no elements of such a type");
  }
  if (!sizes_of(shape, view.shape) || !numbers(strides, view.strides)) return false;
  return view.shape.size() == view.strides.size() ||
         refuse("an operand has one stride for each axis");
}

bool read_views(PyObject* given, std::vector<View>& views) {
  if (!PyList_Check(given) || PyList_GET_SIZE(given) > kMostAxes) {
    PyErr_SetString(PyExc_TypeError, "operands are a list, of at most 32");
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given); ++i) {
    views.emplace_back();
    if (!read_view(tuple_at(given, i), views.back())) return false;
  }
  return true;
}

// (loop, sizes, [(buffer, offset, strides)]), or (loop, sizes, [(buffer, offset, ())], steps) for a
// generalized loop
bool read_loop(PyObject* given, Step& step) {
  PyObject *loop, *sizes, *operands, *core_steps = nullptr;
  if (!PyArg_ParseTuple(given, "O!OO!|O", &loop_type, &loop, &sizes, &PyList_Type, &operands,
                        &core_steps)) {
    return false;
  }
  std::vector<npy_intp> found;
  if (!sizes_of(sizes, found)) return false;
  step.operands =
      static_cast<int>(std::min<Py_ssize_t>(PyList_GET_SIZE(operands), kMostOperands + 1));
  step.loop = Ref::borrow(loop);
  step.run = reinterpret_cast<Loop*>(loop)->loop;
  step.data = reinterpret_cast<Loop*>(loop)->data;
  const LoopShape& shape = *reinterpret_cast<Loop*>(loop)->shape;
  if (found.empty() || step.operands != shape.operands) {
    return refuse("a loop has an axis, and operands as many as it takes");
  }
  if ((core_steps != nullptr) != (shape.core_sizes > 0)) {
    return refuse("a generalized loop has core strides, no other loop has");
  }
  if (core_steps != nullptr) {
    std::vector<npy_intp> steps;
    if (!numbers(core_steps, steps)) return false;
    if (found.size() != 1 + static_cast<size_t>(shape.core_sizes) ||
        steps.size() != static_cast<size_t>(shape.operands) + shape.core_axes.size()) {
      return refuse("a loop has other axes");
    }
    step.core_sizes.assign(found.begin(), found.end());
    step.core_steps.assign(steps.begin(), steps.end());
    found.assign(1, product(found));
  } else {
    step.is_empty = std::find(found.begin(), found.end(), 0) != found.end();
  }
  step.count = found.back();
  step.outer = static_cast<int>(found.size()) - 1;
  step.sizes.assign(found.begin(), found.end() - 1);
  step.strides.resize(static_cast<size_t>(step.outer * step.operands));
  for (int i = 0; i < step.operands; ++i) {
    PyObject* strides;
    Ref operand = tuple_at(operands, i);
    if (!operand || !PyArg_ParseTuple(operand.get(), "inO", &step.starts[i].buffer,
                                      &step.starts[i].offset, &strides)) {
      return false;
    }
    std::vector<npy_intp> steps;
    if (!numbers(strides, steps)) return false;
    if (core_steps != nullptr) continue;
    if (steps.size() != found.size()) return refuse("an operand has one stride for each axis");
    step.inner[i] = steps.back();
    for (int axis = 0; axis < step.outer; ++axis) {
      step.strides[static_cast<size_t>(axis * step.operands + i)] =
          steps[static_cast<size_t>(axis)];
    }
  }
  return true;
}

// (function, operands, results)
bool read_function(PyObject* given, Step& step) {
  PyObject *function, *operands, *results;
  if (!PyArg_ParseTuple(given, "OOO", &function, &operands, &results)) return false;
  step.function = Ref::borrow(function);
  if (!read_views(operands, step.given) || !read_views(results, step.made)) return false;
  return !step.made.empty() || refuse("a step of a plan has results");
}

bool read_buffer(PyObject* given, Schedule& schedule) {
  int source;
  PyObject* detail;
  if (!PyArg_ParseTuple(given, "iO", &source, &detail)) return false;
  if (source < kInput || source > kFromFunction) return refuse("a buffer is of one of five kinds");
  Buffer buffer{static_cast<BufferSource>(source), 0};
  if (source == kConstant) {
    if (!PyArray_CheckExact(detail) ||
        !PyArray_ISCARRAY_RO(reinterpret_cast<PyArrayObject*>(detail)) ||
        PyDataType_REFCHK(PyArray_DESCR(reinterpret_cast<PyArrayObject*>(detail)))) {
      PyErr_SetString(PyExc_TypeError, "a constant is a row-major NumPy array of numbers");
      return false;
    }
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(detail);
    buffer.constant = Ref::borrow(detail);
    buffer.bytes = PyArray_NBYTES(array);
    uintptr_t address = reinterpret_cast<uintptr_t>(PyArray_BYTES(array));
    buffer.aligned = static_cast<intptr_t>(address & (~address + 1));
    schedule.bytes += static_cast<size_t>(buffer.bytes);
  } else {
    buffer.number = buffer.bytes = PyLong_AsSsize_t(detail);
    if (PyErr_Occurred()) return false;
    if (buffer.number < 0 || buffer.number > kMostBytes) {
      return refuse("a buffer has another number of bytes");
    }
  }
  buffer.is_there = source != kFromFunction;
  if (source == kInput) {
    if (static_cast<size_t>(buffer.number) >= schedule.inputs.size()) {
      return refuse("a plan has no input of that number");
    }
    buffer.bytes = static_cast<intptr_t>(schedule.inputs[static_cast<size_t>(buffer.number)].bytes);
    buffer.aligned = schedule.aligned[static_cast<size_t>(buffer.number)];
  }
  if (source == kScratch) {
    buffer.offset = schedule.scratch;
    schedule.scratch +=
        (static_cast<size_t>(buffer.number) + kAlignment - 1) / kAlignment * kAlignment;
    if (schedule.scratch > static_cast<size_t>(kMostBytes)) {
      return refuse("a plan has too much scratch memory");
    }
  }
  schedule.buffers.push_back(std::move(buffer));
  return true;
}

// The byte range of a buffer that is accessed.
class Reach {
 public:
  Reach(intptr_t offset, intptr_t item) : low_(offset), high_(static_cast<Wide>(offset) + item) {}
  void along(intptr_t size, intptr_t stride) {
    is_nothing_ = is_nothing_ || size == 0;
    Wide way = static_cast<Wide>(size - 1) * stride;
    if (size > 0) (way < 0 ? low_ : high_) += way;
  }
  bool is_within(intptr_t bytes) const { return is_nothing_ || (0 <= low_ && high_ <= bytes); }

 private:
  Wide low_, high_;
  bool is_nothing_ = false;
};

// Return a buffer after checking that the byte range exists and may be read or written; null with
// an exception set.
const Buffer* buffer_at(const Schedule& schedule, const BufferOffset& start, bool written) {
  if (start.buffer < 0 || static_cast<size_t>(start.buffer) >= schedule.buffers.size()) {
    refuse("a plan names a buffer that it does not have");
    return nullptr;
  }
  const Buffer& buffer = schedule.buffers[static_cast<size_t>(start.buffer)];
  if (!buffer.is_there || (written && buffer.source != kScratch && buffer.source != kResult)) {
    refuse(written ? "a loop of a plan writes where others read"
                   : "a plan reads a buffer before it is written");
    return nullptr;
  }
  if (start.offset < 0 || start.offset > buffer.bytes) {
    refuse("a step of a plan exceeds its buffer");
    return nullptr;
  }
  return &buffer;
}

bool is_sound_loop(const Schedule& schedule, const Step& step) {
  const LoopShape& shape = *reinterpret_cast<Loop*>(step.loop.get())->shape;
  for (int i = 0; i < step.operands; ++i) {
    const BufferOffset& start = step.starts[i];
    const Buffer* buffer = buffer_at(schedule, start, i >= shape.given);
    if (buffer == nullptr) return false;
    Reach reach(start.offset, shape.items[i]);
    intptr_t apart = start.offset;
    auto along = [&](intptr_t size, intptr_t stride) {
      reach.along(size, stride);
      if (size > 1) apart |= stride;
    };
    if (!step.core_sizes.empty()) {
      along(step.core_sizes[0], step.core_steps[static_cast<size_t>(i)]);
      for (size_t axis = 0; axis < shape.core_axes.size(); ++axis) {
        if (shape.core_axes[axis].operand != i) continue;
        along(step.core_sizes[1 + static_cast<size_t>(shape.core_axes[axis].size)],
              step.core_steps[static_cast<size_t>(shape.operands) + axis]);
      }
    } else {
      along(step.count, step.inner[i]);
      for (int axis = 0; axis < step.outer; ++axis) {
        along(step.sizes[static_cast<size_t>(axis)],
              step.strides[static_cast<size_t>(axis * step.operands + i)]);
      }
    }
    if (!step.is_empty && !reach.is_within(buffer->bytes)) {
      return refuse("a step of a plan exceeds its buffer");
    }
    if (buffer->aligned < shape.aligned[i] || (apart & (shape.aligned[i] - 1)) != 0) {
      return refuse("an operand of a loop is not aligned");
    }
  }
  return true;
}

bool is_sound_function(Schedule& schedule, const Step& step) {
  for (const View& view : step.given) {
    const Buffer* buffer = buffer_at(schedule, view.start, false);
    if (buffer == nullptr) return false;
    Reach reach(view.start.offset,
                PyDataType_ELSIZE(reinterpret_cast<PyArray_Descr*>(view.descr.get())));
    for (size_t axis = 0; axis < view.shape.size(); ++axis) {
      reach.along(view.shape[axis], view.strides[axis]);
    }
    if (!reach.is_within(buffer->bytes)) return refuse("a step of a plan exceeds its buffer");
  }
  for (const View& view : step.made) {
    bool is_known =
        view.start.buffer >= 0 && static_cast<size_t>(view.start.buffer) < schedule.buffers.size();
    Buffer* buffer = is_known ? &schedule.buffers[static_cast<size_t>(view.start.buffer)] : nullptr;
    if (buffer == nullptr || buffer->source != kFromFunction || buffer->is_there) {
      return refuse("a function makes each of its results once");
    }
    PyArray_Descr* descr = reinterpret_cast<PyArray_Descr*>(view.descr.get());
    Wide bytes = static_cast<Wide>(product(view.shape)) * PyDataType_ELSIZE(descr);
    if (bytes > kMostBytes) return refuse("a buffer has another number of bytes");
    buffer->bytes = static_cast<intptr_t>(bytes);
    buffer->aligned = PyDataType_ALIGNMENT(descr);
    buffer->is_there = true;
  }
  return true;
}

bool is_sound_result(const Schedule& schedule, const Result& result) {
  const Buffer* buffer = buffer_at(schedule, BufferOffset{result.buffer, 0}, false);
  if (buffer == nullptr) return false;
  switch (result.outcome) {
    case kSame: return buffer->source == kInput || refuse("a result that is an input names one");
    case kSharing:
    case kFresh:
      return (buffer->source != kScratch && buffer->source != kConstant) ||
             refuse("a result has no memory of its own");
  }
  return refuse("a result is produced in one of three ways");
}

}  // namespace

bool read_schedule(PyObject* args, Schedule& schedule) {
  PyObject *inputs, *buffers, *steps, *results;
  int container;
  if (!PyArg_ParseTuple(args, "O!O!O!O!i", &PyList_Type, &inputs, &PyList_Type, &buffers,
                        &PyList_Type, &steps, &PyList_Type, &results, &container)) {
    return false;
  }
  if (container < kSingle || container > kList) {
    return refuse("the results are one, a tuple or a list");
  }
  schedule.container = static_cast<Container>(container);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); ++i) {
    PyObject* descr;
    Py_ssize_t bytes;
    Ref input = tuple_at(inputs, i);
    if (!input || !PyArg_ParseTuple(input.get(), "O!n", &PyArrayDescr_Type, &descr, &bytes)) {
      return false;
    }
    PyArray_Descr* type = reinterpret_cast<PyArray_Descr*>(descr);
    if (bytes < 0 || bytes > kMostBytes || PyDataType_REFCHK(type)) {
      return refuse("an input has no such type and bytes");
    }
    schedule.inputs.push_back({type->type_num, static_cast<size_t>(bytes)});
    schedule.aligned.push_back(PyDataType_ALIGNMENT(type));
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(buffers); ++i) {
    Ref buffer = tuple_at(buffers, i);
    if (!buffer || !read_buffer(buffer.get(), schedule)) return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps); ++i) {
    Ref given = tuple_at(steps, i);
    if (!given) return false;
    schedule.steps.emplace_back();
    Step& step = schedule.steps.back();
    bool is_loop = PyTuple_GET_SIZE(given.get()) > 0 &&
                   Py_TYPE(PyTuple_GET_ITEM(given.get(), 0)) == &loop_type;
    if (!(is_loop ? read_loop(given.get(), step) : read_function(given.get(), step))) return false;
    if (!(is_loop ? is_sound_loop(schedule, step) : is_sound_function(schedule, step))) {
      return false;
    }
    schedule.calls = schedule.calls || !is_loop;
    Wide work = static_cast<Wide>(product(step.sizes)) * step.count + schedule.work;
    schedule.work = static_cast<intptr_t>(std::min<Wide>(work, kMostBytes));
    schedule.bytes += sizeof(Step);
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(results); ++i) {
    int outcome, buffer;
    PyObject* aval;
    Ref given = tuple_at(results, i);
    if (!given || !PyArg_ParseTuple(given.get(), "iiO", &outcome, &buffer, &aval)) return false;
    schedule.results.push_back({static_cast<Outcome>(outcome), buffer, Ref::borrow(aval)});
    if (!is_sound_result(schedule, schedule.results.back())) return false;
  }
  schedule.bytes += sizeof(Schedule) + schedule.buffers.size() * sizeof(Buffer);
  return !schedule.results.empty() || refuse("a plan has results");
}

int add_schedule(PyObject* module) {
  if (add_enumeration(module, "BufferSource", "What a buffer of a plan holds.",
                      {{"INPUT", kInput},
                       {"CONSTANT", kConstant},
                       {"SCRATCH", kScratch},
                       {"RESULT", kResult},
                       {"FROM_FUNCTION", kFromFunction}}) < 0 ||
      add_enumeration(
          module, "Outcome",
          "How a result of a plan is made: of a buffer, it is an input, of the memory of "
          "an input.",
          {{"FRESH", kFresh}, {"SAME", kSame}, {"SHARING", kSharing}}) < 0) {
    return -1;
  }
  return add_enumeration(module, "Container", "The container in which a plan returns its results.",
                         {{"SINGLE", kSingle}, {"TUPLE", kTuple}, {"LIST", kList}});
}

}  // namespace kiln
