// How a call of compiled code interacts with the interpreter: the GIL, signals, and Python
// functions that the code calls.
#pragma once

#include <cstdint>
#include <vector>

#include "abi/native_call.h"
#include "abi/pool.h"
#include "objects/object.h"
#include "waiting/ending.h"

namespace kiln {

// An argument or result of a Python function.
struct ArrayType {
  Ref dtype;  // NumPy's
  std::vector<Py_ssize_t> shape;
  size_t bytes;
};

// A Python function that compiled code calls: it takes ndarrays and returns a sequence of ndarrays.
struct PythonCallback {
  Ref function;
  std::vector<ArrayType> operands, results;
};

// Read a sequence of (function, [(dtype, shape), ...], [(dtype, shape), ...]).
bool read_callbacks(PyObject* given, std::vector<PythonCallback>& callbacks);

// A call in progress. Compiled code sees its first part.
class RunningCall : public Call {
 public:
  explicit RunningCall(const std::vector<PythonCallback>& callbacks)
      : callbacks_(callbacks), thread_(__builtin_thread_pointer()) {
    fault = found = &fault_;
    fault_.site = 0;
    workspace = nullptr;
  }
  // Become the call of a worker thread that helps with another call.
  void help(RunningCall& other) {
    static_cast<Call&>(*this) = other;
    fault = &fault_;
    helped_ = &other;
  }

  // How many threads its parallel loops use.
  int32_t threads() const { return threads_ > 0 ? threads_ : threads_in_use(); }
  void set_threads(int32_t threads) { threads_ = threads; }
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  // Release the GIL for other threads, and take it again.
  void release_lock() { released_ = kiln::release_lock(); }
  void take_lock() noexcept;
  bool has_lock() const { return released_ == nullptr; }
  // Whether enough time has passed to check for interrupts.
  bool was_polled() const { return seen_ != 0; }

  // What `kiln_poll` and `kiln_call_python` do.
  int32_t poll();
  int32_t call_python(void* const* buffers, const int64_t* numbers) noexcept;

  // Called with the result of the code: takes the GIL again and sets the exception that was raised
  // on another thread.
  void end() {
    if (!has_lock()) take_lock();
    if (raised_type_ != nullptr) raise();
  }

 private:
  bool is_on_its_thread() const {
    return thread_ == __builtin_thread_pointer() && helped_ == nullptr;
  }
  int32_t look_around();
  void raise();
  int32_t call_with_lock(const PythonCallback& callback, void* const* buffers);

  const std::vector<PythonCallback>& callbacks_;
  PyThreadState* released_ = nullptr;
  const void* thread_;
  RunningCall* helped_ = nullptr;  // the call this thread works for
  int32_t threads_ = 0;            // 0: the default number
  int32_t polls_left_ = 1, polls_between_ = 1;
  long long seen_ = 0, started_, signals_seen_;                    // times
  PyObject *raised_type_ = nullptr, *raised_, *raised_traceback_;  // on another thread
  Fault fault_;
};

}  // namespace kiln
