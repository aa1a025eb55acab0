#include "waiting/waiting.h"

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#ifdef __linux__
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <vector>

#include "objects/numpy.h"
#include "waiting/ending.h"
#include "waiting/exceptions.h"

namespace kiln {

bool is_closed = false;
int threads_inside = 0;
int threads_in_callbacks = 0;

namespace {

// A wait polls again after 1/64 of its duration so far: on average it ends less than 1% late, and
// uses less than 1% of a processor.
constexpr long kShortest = 10'000, kLongest = 1'000'000;  // nanoseconds
constexpr long kParts = 64;
// A shorter wait only yields to other threads: the shortest sleep takes about 30 microseconds.
constexpr long kYielding = 60'000;  // nanoseconds

// If all callbacks wait and nothing is computed for this many consecutive polls, they are
// deadlocked.
constexpr int kLooksPerSample = 64;
constexpr int kQuietSamples = 24;
constexpr long kBusy = 10'000'000;  // nanoseconds of processor time between two samples

// XLA accepts 32 programs on a device before it blocks the next one: for ever, if that one is
// launched from inside the others. So the nesting depth of a thread's callbacks, and the number of
// callbacks' programs in progress, are limited to less than that.
constexpr int kDeepest = 16;
constexpr size_t kMostRuns = 12;

PyObject* is_ready_name = nullptr;
PyObject* is_deleted_name = nullptr;
PyObject* block_name = nullptr;  // "block_until_ready"
unsigned long main_thread = 0;
PyObject* refusal = nullptr;  // raises the error for the child of a fork

thread_local int callback_depth = 0;
// Whether the innermost callback of the thread, and each enclosing one, has entered an engine: one
// bit each.
thread_local bool is_in_engine = false;
thread_local unsigned long long was_in_engine = 0;
int callbacks_in_engine = 0;
// Weak references to results of programs that callbacks run. Never destroyed: that would happen
// after the interpreter is finalized, which the references need.
std::vector<Ref>& runs_in_callbacks = *new std::vector<Ref>;
class CallbackWait;
// Never destroyed either: threads that outlive the interpreter may still wait.
std::vector<CallbackWait*>& waits_in_callbacks = *new std::vector<CallbackWait*>;

long long now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// Whether another thread of this process is runnable: on a loaded machine it may use no processor
// time either.
bool has_runnable_thread() {
#ifdef __linux__
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  long own = syscall(SYS_gettid);
  bool found = false;
  for (dirent* task = readdir(tasks); task != nullptr && !found; task = readdir(tasks)) {
    if (task->d_name[0] == '.' || std::atol(task->d_name) == own) continue;
    char path[64], text[256];
    std::snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", task->d_name);
    FILE* file = std::fopen(path, "r");
    if (file == nullptr) continue;
    size_t read = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    text[read] = 0;
    // The state follows the name, which may contain parentheses.
    const char* name_end = std::strrchr(text, ')');
    found = name_end != nullptr && name_end + 2 < text + read && std::strchr("RD", name_end[2]);
  }
  closedir(tasks);
  return found;
#else
  return false;
#endif
}

// Sleeps without the GIL, with microsecond resolution if the system supports it.
class Pauses {
 public:
  Pauses() = default;
  Pauses(const Pauses&) = delete;
  Pauses& operator=(const Pauses&) = delete;
  ~Pauses() {
#ifdef __linux__
    if (slack_ > 0) prctl(PR_SET_TIMERSLACK, slack_, 0, 0, 0);
#endif
  }
  // Sleep as long as suits a wait that has lasted this many nanoseconds.
  void pause(long long waited) {
    if (waited < kYielding) {
      WithoutLock without;
      sched_yield();
      return;
    }
#ifdef __linux__
    if (slack_ == 0) {
      slack_ = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
      if (slack_ > 0) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
#endif
    timespec time = {0, std::clamp(static_cast<long>(waited / kParts), kShortest, kLongest)};
    WithoutLock without;
    nanosleep(&time, nullptr);
  }

 private:
  [[maybe_unused]] int slack_ = 0;
};

// One wait of a thread in a callback.
class CallbackWait {
 public:
  CallbackWait() : counts_(callback_depth > 0) {
    if (counts_) waits_in_callbacks.push_back(this);
  }
  CallbackWait(const CallbackWait&) = delete;
  CallbackWait& operator=(const CallbackWait&) = delete;
  ~CallbackWait() {
    if (!counts_) return;
    auto& all = waits_in_callbacks;
    all.erase(std::remove(all.begin(), all.end(), this), all.end());
  }

  // Called after each poll. True if no callback can continue: all give up.
  bool is_hopeless() {
    if (!counts_ || is_given_up_ || ++looks_ % kLooksPerSample != 0) return is_given_up_;
    long long used = now(CLOCK_PROCESS_CPUTIME_ID);
    int stuck = static_cast<int>(waits_in_callbacks.size()) + callbacks_in_engine;
    bool is_quiet = used - used_ < kBusy && stuck == threads_in_callbacks;
    used_ = used;
    if (!is_quiet) quiet_ = 0;
    // Other waits are briefly runnable whenever they poll.
    if (is_quiet && !has_runnable_thread()) ++quiet_;
    if (quiet_ >= kQuietSamples) {
      for (CallbackWait* wait : waits_in_callbacks) wait->is_given_up_ = true;
    }
    return is_given_up_;
  }

 private:
  bool counts_;
  bool is_given_up_ = false;
  int looks_ = 0, quiet_ = 0;
  long long used_ = 0;
};

// Ending a thread inside a C++ library, or destroying the library's data while the thread is
// inside, crashes the process.
void stay_if_it_ends() {
  if (another_thread_ends() && callback_depth == 0) stay_for_good();
}

PyObject* python_wait(PyObject*, PyObject* buffer) {
  if (!wait_until_ready(buffer)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* block_until_ready(PyObject*, PyObject* buffer) {
  if (!wait_until_ready(buffer)) return nullptr;
  Inside inside;
  return PyObject_CallMethodNoArgs(buffer, block_name);
}

// NumPy would parse the dtype from the buffer's format again, which takes as long as all the rest.
PyObject* array_when_ready(PyObject*, PyObject* args) {
  PyObject* buffer;
  PyArray_Descr* dtype;
  if (!PyArg_ParseTuple(args, "OO!", &buffer, &PyArrayDescr_Type, &dtype)) return nullptr;
  if (!wait_until_ready(buffer)) return nullptr;
  Inside inside;
  // Creating a view of a result that could not be allocated crashes the process: this raises first.
  Ref ready = Ref::own(PyObject_CallMethodNoArgs(buffer, block_name));
  if (!ready) return nullptr;
  Ref view = Ref::own(PyMemoryView_FromObject(buffer));
  if (!view) return nullptr;
  const Py_buffer* bytes = PyMemoryView_GET_BUFFER(view.get());
  if (bytes->itemsize != PyDataType_ELSIZE(dtype) || bytes->ndim > NPY_MAXDIMS ||
      PyDataType_REFCHK(dtype)) {
    return PyErr_Format(PyExc_BufferError,
                        "a buffer with elements of %zd bytes is not an array of %R",
                        bytes->itemsize, dtype);
  }
  npy_intp shape[NPY_MAXDIMS];
  std::copy_n(bytes->shape, bytes->ndim, shape);
  Py_INCREF(dtype);
  int flags = bytes->readonly ? 0 : NPY_ARRAY_WRITEABLE;
  Ref array = Ref::own(PyArray_NewFromDescr(&PyArray_Type, dtype, bytes->ndim, shape,
                                            const_cast<npy_intp*>(bytes->strides), bytes->buf,
                                            flags, nullptr));
  if (!array ||
      PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), view.release()) < 0) {
    return nullptr;
  }
  PyArray_UpdateFlags(reinterpret_cast<PyArrayObject*>(array.get()), NPY_ARRAY_UPDATE_ALL);
  return array.release();
}

PyObject* check_entry(PyObject*, PyObject*) {
  if (is_closed && !may_enter()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* enter(PyObject*, PyObject*) {
  if (is_closed && !may_enter()) return nullptr;
  ++threads_inside;
  Py_RETURN_NONE;
}

// For libraries that are not an engine, which the child of a fork may therefore use.
PyObject* enter_library(PyObject*, PyObject*) {
  stay_if_it_ends();
  ++threads_inside;
  Py_RETURN_NONE;
}

PyObject* leave(PyObject*, PyObject*) {
  if (threads_inside > 0) --threads_inside;
  Py_RETURN_NONE;
}

PyObject* enter_callback(PyObject*, PyObject*) {
  was_in_engine = was_in_engine << 1 | static_cast<unsigned long long>(is_in_engine);
  if (is_in_engine) note_return_to_callback();
  if (callback_depth++ == 0) ++threads_in_callbacks;
  if (callback_depth <= kDeepest) Py_RETURN_NONE;
  PyErr_Format(PyExc_RecursionError,
               "running a program from a callback that another program called\n"
               "callbacks are nested %d deep: XLA supports no more\n"
               "compute with NumPy in callbacks, or end the recursion earlier",
               kDeepest);
  return nullptr;
}

PyObject* leave_callback(PyObject*, PyObject*) {
  if (callback_depth == 0) Py_RETURN_NONE;
  if (--callback_depth == 0) --threads_in_callbacks;
  if (was_in_engine & 1) {
    is_in_engine = true;
    ++callbacks_in_engine;
  }
  was_in_engine >>= 1;
  Py_RETURN_NONE;
}

PyObject* set_main_thread(PyObject*, PyObject* ident) {
  unsigned long found = PyLong_AsUnsignedLong(ident);
  if (PyErr_Occurred()) return nullptr;
  main_thread = found;
  Py_RETURN_NONE;
}

PyObject* close_for_exit(PyObject*, PyObject*) {
  is_closed = true;
  begin_end();
  Py_RETURN_NONE;
}

PyObject* close_for_child(PyObject*, PyObject* raise) {
  threads_inside = threads_in_callbacks = callbacks_in_engine = callback_depth = 0;
  runs_in_callbacks.clear();
  is_in_engine = false;
  was_in_engine = 0;
  waits_in_callbacks.clear();
  is_closed = raise != Py_None;
  Py_XSETREF(refusal, Py_NewRef(raise));
  Py_RETURN_NONE;
}

PyObject* python_is_closed(PyObject*, PyObject*) { return PyBool_FromLong(is_closed); }

PyObject* inside(PyObject*, PyObject*) { return PyLong_FromLong(threads_inside); }

PyObject* call_without_arguments(PyObject* function, PyObject*) {
  return PyObject_CallNoArgs(function);
}

PyMethodDef without_arguments_method = {"without_arguments", call_without_arguments, METH_VARARGS,
                                        nullptr};

PyObject* without_arguments(PyObject*, PyObject* function) {
  return PyCFunction_New(&without_arguments_method, function);
}

PyMethodDef functions[] = {
    {"without_arguments", without_arguments, METH_O,
     "Return a callable that calls a function and drops its own arguments, without Python code "
     "that a signal "
     "could strike."},
    {"wait_until_ready", python_wait, METH_O,
     "Wait until a buffer is ready, deleted or failed, while handling signals."},
    {"block_until_ready", block_until_ready, METH_O, "Wait likewise, and raise what went wrong."},
    {"array_when_ready", array_when_ready, METH_VARARGS,
     "Wait likewise and return a NumPy array of the buffer: (buffer, dtype)."},
    {"check_entry", check_entry, METH_NOARGS,
     "Raise in the child of a fork; block if the interpreter shuts down."},
    {"is_closed", python_is_closed, METH_NOARGS, "Tell whether entry to engines is restricted."},
    {"enter", enter, METH_NOARGS, "Note that this thread enters an engine, if it may."},
    {"enter_library", enter_library, METH_NOARGS,
     "Record that this thread enters a library in which it must not be ended."},
    {"leave", leave, METH_NOARGS, "Note that this thread has left an engine or a library."},
    {"threads_inside", inside, METH_NOARGS,
     "Return how many threads are inside an engine or a library."},
    {"enter_callback", enter_callback, METH_NOARGS,
     "Record that an engine calls Python on this thread."},
    {"leave_callback", leave_callback, METH_NOARGS, "Note that such a call has ended."},
    {"set_main_thread", set_main_thread, METH_O, "Say on which thread signals are handled."},
    {"close_for_exit", close_for_exit, METH_NOARGS,
     "Let nobody but this thread and callbacks enter an engine."},
    {"close_for_child", close_for_child, METH_O,
     "In the child of a fork: set the function that raises at each entry, or None."},
    {nullptr},
};

}  // namespace

bool note_entry_from_callback() {
  if (callback_depth == 0 || is_in_engine) return false;
  is_in_engine = true;
  ++callbacks_in_engine;
  return true;
}

void note_return_to_callback() {
  is_in_engine = false;
  --callbacks_in_engine;
}

bool is_in_callback() { return threads_in_callbacks > 0 && callback_depth > 0; }

bool wait_for_turn_in_callback() {
  for (;;) {
    auto is_over = [](const Ref& run) {
      Ref buffer = referent(run.get());
      if (!buffer) return true;
      int come = has_come(buffer.get());
      if (come < 0) dismiss_exception();
      return come != 0;
    };
    // Python code may run in between, and change the list.
    std::vector<Ref> found = std::exchange(runs_in_callbacks, {}), over;
    for (Ref& run : found) (is_over(run) ? over : runs_in_callbacks).push_back(std::move(run));
    if (runs_in_callbacks.size() < kMostRuns) return true;
    Ref oldest = referent(runs_in_callbacks.front().get());
    if (oldest && !wait_until_ready(oldest.get())) return false;
  }
}

void remember_run_in_callback(PyObject* results) {
  if (!PyList_Check(results) || PyList_GET_SIZE(results) == 0) return;
  Ref run = Ref::own(PyWeakref_NewRef(PyList_GET_ITEM(results, 0), nullptr));
  if (!run) PyErr_Clear();
  if (run) runs_in_callbacks.push_back(std::move(run));
}

bool may_enter() {
  if (refusal != nullptr && refusal != Py_None) {
    Ref answer = Ref::own(PyObject_CallNoArgs(refusal));
    return static_cast<bool>(answer);
  }
  stay_if_it_ends();
  return true;
}

bool is_main_thread() { return main_thread == PyThread_get_thread_ident(); }

bool wait_until(const std::function<bool()>& has_happened) {
  if (has_happened()) return true;
  Pauses pauses;
  CallbackWait wait;
  long long start = now(CLOCK_MONOTONIC);
  do {
    if (is_closed && !may_enter()) return false;
    pauses.pause(now(CLOCK_MONOTONIC) - start);
    if (PyErr_CheckSignals() < 0) return false;
    if (wait.is_hopeless()) {
      PyErr_SetString(PyExc_RecursionError,
                      "a callback runs a program and waits for its result\n"
                      "nested callbacks occupy all threads of the engine, and wait for each other\n"
                      "compute with NumPy in callbacks, or return what the next program needs");
      return false;
    }
  } while (!has_happened());
  return true;
}

// Querying whether a deleted buffer is ready would crash.
int has_come(PyObject* buffer) {
  for (PyObject* name : {is_deleted_name, is_ready_name}) {
    Ref answer = Ref::own(PyObject_CallMethodNoArgs(buffer, name));
    if (!answer) return -1;
    if (answer.get() == Py_True) return 1;
  }
  return 0;
}

bool wait_until_ready(PyObject* buffer) {
  int come = has_come(buffer);
  if (come != 0) return come > 0;
  Ref kept = Ref::borrow(buffer);
  bool is_over = wait_until([buffer, &come] { return (come = has_come(buffer)) != 0; });
  return is_over && come > 0;
}

int add_waiting(PyObject* module) {
  is_ready_name = PyUnicode_InternFromString("is_ready");
  is_deleted_name = PyUnicode_InternFromString("is_deleted");
  block_name = PyUnicode_InternFromString("block_until_ready");
  if (is_ready_name == nullptr || is_deleted_name == nullptr || block_name == nullptr) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
