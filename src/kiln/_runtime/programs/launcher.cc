#include "programs/launcher.h"

#include <cstring>
#include <ctime>

#include "objects/numpy.h"
#include "programs/launch_lock.h"
#include "waiting/exceptions.h"
#include "waiting/waiting.h"

namespace kiln {
namespace {

// After a call whose run had not ended when it returned, this many calls do without operands
// written by the host.
constexpr int kCallsWithout = 16;

// A call that blocks its thread for longer is launched on another thread next time: programs that
// XLA considers small run inside the call, and may contain loops.
constexpr long long kSlow = 20'000'000;  // nanoseconds

PyObject* explain_failure = nullptr;  // (error, name): raises it as kiln's error
PyObject* launch_apart = nullptr;     // (launcher, buffers): launches on another thread
PyObject* consume_name = nullptr;     // "consume_with_handlers"
PyObject* is_ready_name = nullptr;    // "is_ready"

int launcher_init(PyObject* self, PyObject* args, PyObject*) {
  Launcher* launcher = reinterpret_cast<Launcher*>(self);
  if (!may_be_made(launcher->operands != nullptr, self)) return -1;
  PyObject *execute, *handlers, *name, *operands = nullptr, *share = Py_None;
  if (!PyArg_ParseTuple(args, "OO!O|OO", &execute, &PyList_Type, &handlers, &name, &operands,
                        &share)) {
    return -1;
  }
  auto types = std::make_unique<std::vector<ValueType>>();
  if (operands != nullptr && !read_value_types(operands, *types)) return -1;
  Py_XSETREF(launcher->execute, Py_NewRef(execute));
  Py_XSETREF(launcher->handlers, Py_NewRef(handlers));
  Py_XSETREF(launcher->name, Py_NewRef(name));
  Py_XSETREF(launcher->share, Py_NewRef(share));
  launcher->operands = types.release();
  launcher->is_slow = 1;
  return 0;
}

int launcher_traverse(PyObject* self, visitproc visit, void* arg) {
  Launcher* launcher = reinterpret_cast<Launcher*>(self);
  Py_VISIT(launcher->execute);
  Py_VISIT(launcher->lock);
  Py_VISIT(launcher->handlers);
  Py_VISIT(launcher->name);
  Py_VISIT(launcher->share);
  return 0;
}

int launcher_clear(PyObject* self) {
  Launcher* launcher = reinterpret_cast<Launcher*>(self);
  Py_CLEAR(launcher->execute);
  Py_CLEAR(launcher->lock);
  Py_CLEAR(launcher->handlers);
  Py_CLEAR(launcher->name);
  Py_CLEAR(launcher->share);
  delete std::exchange(launcher->host_operands, nullptr);
  return 0;
}

void launcher_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, launcher_dealloc)
  launcher_clear(self);
  delete reinterpret_cast<Launcher*>(self)->operands;
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

PyObject* launcher_call(PyObject* self, PyObject* args, PyObject*) {
  PyObject* buffers;
  if (!PyArg_ParseTuple(args, "O", &buffers)) return nullptr;
  return launch(reinterpret_cast<Launcher*>(self), buffers).release();
}

PyMemberDef launcher_members[] = {
    {"name", T_OBJECT_EX, offsetof(Launcher, name), READONLY, "The name of the program."},
    {"_execute", T_OBJECT_EX, offsetof(Launcher, execute), 0, "buffers -> results"},
    {"_launch_lock", T_OBJECT, offsetof(Launcher, lock), 0,
     "The `LaunchLock` of launches, or None."},
    {"_launches_alone", T_BOOL, offsetof(Launcher, launches_alone), 0,
     "Whether nothing else may be launched meanwhile."},
    {"_runs_alone", T_BOOL, offsetof(Launcher, runs_alone), 0,
     "Whether that holds until the run has ended; calls wait for it."},
    {"_is_slow", T_BOOL, offsetof(Launcher, is_slow), 0,
     "Whether the next call runs on another thread than the main one."},
    {"_calls_host", T_BOOL, offsetof(Launcher, calls_host), 0, "Whether programs call Python."},
    {nullptr},
};

PyObject* set_explain_failure(PyObject*, PyObject* function) {
  Py_XSETREF(explain_failure, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* set_launch_apart(PyObject*, PyObject* function) {
  Py_XSETREF(launch_apart, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_launch_apart", set_launch_apart, METH_O,
     "Set the function that launches on another thread: (launcher, buffers)."},
    {"set_explain_failure", set_explain_failure, METH_O,
     "Set the function that translates an engine's errors."},
    {nullptr},
};

// A few milliseconds coarse where that is cheaper.
long long coarse_time() {
  timespec time;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
  clock_gettime(CLOCK_MONOTONIC, &time);
#endif
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

bool has_ended(PyObject* results) {
  if (!PyList_Check(results) || PyList_GET_SIZE(results) == 0) return false;
  Ref first = Ref::borrow(PyList_GET_ITEM(results, 0));
  Ref ready = Ref::own(PyObject_CallMethodNoArgs(first.get(), is_ready_name));
  if (!ready) dismiss_exception();
  return ready.get() == Py_True;
}

}  // namespace

PyTypeObject launcher_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Launcher",
    .tp_basicsize = sizeof(Launcher),
    .tp_dealloc = launcher_dealloc,
    .tp_call = launcher_call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "An executable that enqueues a program and returns futures of its results.",
    .tp_traverse = launcher_traverse,
    .tp_clear = launcher_clear,
    .tp_members = launcher_members,
    .tp_init = launcher_init,
    .tp_new = PyType_GenericNew,
};

Ref launch(Launcher* launcher, PyObject* buffers) {
  Ref execute = Ref::borrow(launcher->execute), handlers = Ref::borrow(launcher->handlers);
  if (!was_made(execute && handlers, reinterpret_cast<PyObject*>(launcher))) return Ref();
  if (is_closed && !may_enter()) return Ref();
  if (launcher->is_slow && !is_closed && !launcher->calls_host && launch_apart != nullptr &&
      is_main_thread() && !is_launching()) {
    return call_held(launch_apart, reinterpret_cast<PyObject*>(launcher), buffers);
  }
  bool in_callback = threads_in_callbacks > 0 && is_in_callback();
  if (in_callback && !wait_for_turn_in_callback()) return Ref();
  Inside inside;
  LaunchGuard guard(launcher->lock, launcher->launches_alone);
  if (guard.failed()) return Ref();
  long long start = coarse_time();
  Ref results = Ref::own(PyObject_CallOneArg(execute.get(), buffers));
  if (results) {
    PyObject* args[] = {results.get(), handlers.get()};
    Ref outs = Ref::own(
        PyObject_VectorcallMethod(consume_name, args, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    launcher->is_slow = coarse_time() - start > kSlow;
    if (outs && launcher->runs_alone && !guard.finish(outs.get())) return Ref();
    if (outs && in_callback) remember_run_in_callback(outs.get());
    if (outs) return outs;
  }
  if (explain_failure == nullptr) return Ref();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Ref answer = call_held(explain_failure, value, launcher->name);
  if (answer) {
    // It does not translate this kind of error.
    PyErr_Restore(type, value, traceback);
    return Ref();
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return Ref();
}

HostOperands::HostOperands(PyObject* run, size_t count) {
  if (!is_launcher(run)) return;
  launcher_ = reinterpret_cast<Launcher*>(run);
  if (launcher_->operands == nullptr || launcher_->operands->size() != count) return;
  is_open_ = launcher_->calls_without == 0;
  if (!is_open_) --launcher_->calls_without;
}

bool HostOperands::takes(size_t number, PyObject* value) const {
  if (!is_open_ || (*launcher_->operands)[number].bytes == 0) return false;
  PyTypeObject* type = Py_TYPE(value);
  return type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
         type == &PyComplex_Type || PyArray_CheckExact(value) || PyArray_CheckScalar(value);
}

Ref HostOperands::buffer(size_t number, PyObject* value) {
  const ValueType& type = (*launcher_->operands)[number];
  Operands one(1);
  if (!one.add(value, type)) return Ref();
  if (list_ == nullptr) {
    // A call of another thread, or a nested one, may have taken them: it keeps them.
    list_ = std::exchange(launcher_->host_operands, nullptr);
    if (list_ == nullptr) list_ = new HostOperandList(launcher_->operands->size());
  }
  HostOperand& operand = (*list_)[number];
  bool is_new = !operand.memory;
  if (is_new) {
    operand.memory = Ref::own(reinterpret_cast<PyObject*>(allocate(type.bytes)));
    if (!operand.memory) return Ref();
  }
  std::memcpy(reinterpret_cast<MemoryBlock*>(operand.memory.get())->data, one.pointers()[0],
              type.bytes);
  if (is_new) {
    Ref index = Ref::own(PyLong_FromSize_t(number));
    if (!index) return Ref();
    operand.buffer = call_held(launcher_->share, index.get(), operand.memory.get());
    if (operand.buffer.get() == Py_None) {
      is_open_ = false;
      for (ValueType& each : *launcher_->operands) each.bytes = 0;
      delete std::exchange(list_, nullptr);
      return Ref();
    }
  }
  return Ref::borrow(operand.buffer.get());
}

void HostOperands::end(PyObject* results) {
  if (list_ == nullptr) return;
  if (!has_ended(results)) {
    launcher_->calls_without = kCallsWithout;
    return;
  }
  delete std::exchange(launcher_->host_operands, std::exchange(list_, nullptr));
}

int add_launcher(PyObject* module) {
  consume_name = PyUnicode_InternFromString("consume_with_handlers");
  is_ready_name = PyUnicode_InternFromString("is_ready");
  if (consume_name == nullptr || is_ready_name == nullptr || add_type(module, &launcher_type) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
