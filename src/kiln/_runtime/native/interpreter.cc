#include "native/interpreter.h"

#include <cstring>
#include <ctime>

#include "abi/symbols.h"
#include "objects/numpy.h"
#include "waiting/waiting.h"

namespace kiln {
namespace {

// A loop reads the clock in every iteration while iterations are slow, and in only some of them
// otherwise, but often enough to notice when fast iterations become slow.
constexpr int32_t kPollsBetween = 32;
constexpr long long kSlow = 1'000'000;  // nanoseconds between two readings of the clock

// A call keeps the GIL as long as releasing it would cost more than it gains.
constexpr long long kKeepsLock = 1'000'000;  // nanoseconds

// How often signals are checked: that requires the GIL, which another thread may hold.
constexpr long long kSignalsEvery = 30'000'000;  // nanoseconds

// With a resolution of a few milliseconds where that is cheaper.
long long coarse_time() {
  timespec time;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
  clock_gettime(CLOCK_MONOTONIC, &time);
#endif
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

bool read_array_types(PyObject* given, std::vector<ArrayType>& types) {
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject *dtype, *shape, *item = PyTuple_GET_ITEM(items.get(), i);
    if (!PyTuple_Check(item)) {
      PyErr_SetString(PyExc_TypeError, "the type of an array is a pair of a dtype and a shape");
      return false;
    }
    if (!PyArg_ParseTuple(item, "OO!", &dtype, &PyTuple_Type, &shape)) return false;
    PyArray_Descr* descr = nullptr;
    if (!PyArray_DescrConverter(dtype, &descr)) return false;
    ArrayType type{Ref::own(reinterpret_cast<PyObject*>(descr)), {}, 0};
    if (PyDataType_REFCHK(descr) || PyDataType_HASSUBARRAY(descr) ||
        PyTuple_GET_SIZE(shape) > NPY_MAXDIMS) {
      PyErr_Format(PyExc_ValueError, "compiled code has no arrays of %R with %zd axes",
                   type.dtype.get(), PyTuple_GET_SIZE(shape));
      return false;
    }
    Py_ssize_t bytes = PyDataType_ELSIZE(descr);
    for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(shape); ++axis) {
      Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis));
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "no array has the shape %R", shape);
        return false;
      }
      type.shape.push_back(size);
    }
    type.bytes = static_cast<size_t>(bytes);
    types.push_back(std::move(type));
  }
  return true;
}

PyArray_Descr* descr_of(const ArrayType& type) {
  return reinterpret_cast<PyArray_Descr*>(type.dtype.get());
}

// A copy: the code overwrites its memory, and the function may keep its arguments.
Ref array_of(const ArrayType& type, const void* memory) {
  Ref dtype = Ref::borrow(type.dtype.get());
  Ref array = Ref::own(PyArray_Empty(static_cast<int>(type.shape.size()), type.shape.data(),
                                     reinterpret_cast<PyArray_Descr*>(dtype.release()), 0));
  if (array && type.bytes > 0) {
    std::memcpy(PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.get())), memory, type.bytes);
  }
  return array;
}

bool copy_result(PyObject* returned, const ArrayType& type, void* memory) {
  // NumPy operations on rank-0 arrays return scalars.
  Ref scalar;
  if (PyArray_IsScalar(returned, Generic)) {
    scalar = Ref::own(PyArray_FromScalar(returned, nullptr));
    if (!scalar) return false;
  }
  PyObject* given = scalar ? scalar.get() : returned;
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(given);
  if (!PyArray_Check(given) || !PyArray_EquivTypes(PyArray_DESCR(array), descr_of(type)) ||
      !PyArray_ISCARRAY_RO(array) || static_cast<size_t>(PyArray_NBYTES(array)) != type.bytes) {
    PyErr_Format(PyExc_TypeError,
                 "a function that compiled code calls returned a %.100s that is not a row-major "
                 "array of %zu bytes of %R",
                 Py_TYPE(given)->tp_name, type.bytes, type.dtype.get());
    return false;
  }
  if (type.bytes > 0) std::memcpy(memory, PyArray_DATA(array), type.bytes);
  return true;
}

int32_t kiln_poll(Call* call) { return static_cast<RunningCall*>(call)->poll(); }

int32_t kiln_call_python(Call* call, void* const* buffers, const int64_t* numbers) {
  return static_cast<RunningCall*>(call)->call_python(buffers, numbers);
}

const Symbols symbols{
    {"kiln_poll", reinterpret_cast<void*>(kiln_poll)},
    {"kiln_call_python", kiln_call_python},
};

}  // namespace

bool read_callbacks(PyObject* given, std::vector<PythonCallback>& callbacks) {
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject *function, *operands, *results, *item = PyTuple_GET_ITEM(items.get(), i);
    if (!PyTuple_Check(item)) {
      PyErr_SetString(PyExc_TypeError,
                      "a callback is a function, the types of its operands, those of its results");
      return false;
    }
    if (!PyArg_ParseTuple(item, "OOO", &function, &operands, &results)) return false;
    PythonCallback callback{Ref::borrow(function), {}, {}};
    if (!read_array_types(operands, callback.operands) ||
        !read_array_types(results, callback.results)) {
      return false;
    }
    callbacks.push_back(std::move(callback));
  }
  return true;
}

void RunningCall::take_lock() noexcept {
  kiln::take_lock(released_);
  released_ = nullptr;
}

int32_t RunningCall::poll() {
  if (!is_on_its_thread() || --polls_left_ > 0) return kDone;
  return look_around();
}

int32_t RunningCall::look_around() {
  long long now = coarse_time(), since = now - seen_;
  if (seen_ == 0) {
    started_ = signals_seen_ = now;
    since = 0;
  }
  seen_ = now;
  polls_between_ = since >= kSlow                   ? 1
                   : polls_between_ < kPollsBetween ? 2 * polls_between_
                                                    : kPollsBetween;
  polls_left_ = polls_between_;
  if (has_lock() && now - started_ >= kKeepsLock) release_lock();
  if (now - signals_seen_ < kSignalsEvery) return kDone;
  signals_seen_ = now;
  if (!is_main_thread()) return kDone;
  bool had_lock = has_lock();
  if (!had_lock) take_lock();
  bool is_interrupted = PyErr_CheckSignals() < 0;
  if (!had_lock) release_lock();
  return is_interrupted ? kRaised : kDone;
}

int32_t RunningCall::call_with_lock(const PythonCallback& callback, void* const* buffers) {
  size_t taken = callback.operands.size(), made = callback.results.size();
  Ref args = Ref::own(PyTuple_New(static_cast<Py_ssize_t>(taken)));
  if (!args) return kRaised;
  for (size_t i = 0; i < taken; ++i) {
    Ref array = array_of(callback.operands[i], buffers[i]);
    if (!array) return kRaised;
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), array.release());
  }
  Ref returned = Ref::own(PyObject_CallObject(callback.function.get(), args.get()));
  if (!returned) return kRaised;
  Ref results = Ref::own(PySequence_Tuple(returned.get()));
  if (!results) return kRaised;
  if (PyTuple_GET_SIZE(results.get()) != static_cast<Py_ssize_t>(made)) {
    PyErr_Format(PyExc_TypeError,
                 "a function that compiled code calls returned %zd arrays instead of %zu",
                 PyTuple_GET_SIZE(results.get()), made);
    return kRaised;
  }
  for (size_t i = 0; i < made; ++i) {
    PyObject* result = PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
    if (!copy_result(result, callback.results[i], buffers[taken + i])) return kRaised;
  }
  return kDone;
}

int32_t RunningCall::call_python(void* const* buffers, const int64_t* numbers) noexcept {
  if (helped_ != nullptr) return helped_->call_python(buffers, numbers);
  const PythonCallback& callback = callbacks_[static_cast<size_t>(numbers[0])];
  if (is_on_its_thread()) {
    bool had_lock = has_lock();
    if (!had_lock) take_lock();
    int32_t status = call_with_lock(callback, buffers);
    if (!had_lock) release_lock();
    return status;
  }
  // A program with callbacks does not hold the GIL, so its other threads can take it.
  WithLock lock;
  int32_t status = call_with_lock(callback, buffers);
  if (status == kRaised && raised_type_ == nullptr) {
    PyErr_Fetch(&raised_type_, &raised_, &raised_traceback_);
  }
  PyErr_Clear();
  return status;
}

void RunningCall::raise() {
  if (!PyErr_Occurred()) {
    PyErr_Restore(raised_type_, raised_, raised_traceback_);
  } else {
    Py_XDECREF(raised_type_);
    Py_XDECREF(raised_);
    Py_XDECREF(raised_traceback_);
  }
  raised_type_ = nullptr;
}

}  // namespace kiln
