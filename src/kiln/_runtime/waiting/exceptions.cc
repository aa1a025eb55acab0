#include "waiting/exceptions.h"

#include "waiting/waiting.h"

namespace kiln {
namespace {

Ref fetch_exception() {
#if PY_VERSION_HEX >= 0x030C0000
  return Ref::own(PyErr_GetRaisedException());
#else
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref::own(value);
#endif
}

int raise_exception(void* given) {
  Ref exception = Ref::own(static_cast<PyObject*>(given));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  return -1;
}

// Signals arrive on the main thread. On other threads, exceptions that do not derive from
// `Exception` lose their arguments.
void raise_later(Ref exception) {
  if (!exception) return;
  PyObject* given = exception.get();
  if (is_main_thread() && Py_AddPendingCall(raise_exception, given) == 0) {
    exception.release();
    return;
  }
  PyThreadState_SetAsyncExc(PyThread_get_thread_ident(),
                            reinterpret_cast<PyObject*>(Py_TYPE(given)));
}

// The interrupted operation is repeated until it completes, and then the interrupt is raised. A
// second interrupt in the meantime makes no difference to the user.
PyObject* call_to_its_end(PyObject* function, PyObject* args) {
  PyObject* found = PyObject_CallObject(function, args);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_Exception)) return found;
  Ref struck = fetch_exception();
  found = PyObject_CallObject(function, args);
  if (found == nullptr) PyErr_Clear();
  raise_later(std::move(struck));
  return found == nullptr ? Py_NewRef(Py_None) : found;
}

PyMethodDef to_its_end_method = {"to_its_end", call_to_its_end, METH_VARARGS, nullptr};

PyObject* to_its_end(PyObject*, PyObject* function) {
  return PyCFunction_New(&to_its_end_method, function);
}

PyMethodDef functions[] = {
    {"to_its_end", to_its_end, METH_O,
     "Return a callable that calls a function where exceptions are lost, such as in a finalizer: "
     "an interrupt is raised after it, and what was interrupted is called a second time."},
    {nullptr},
};

}  // namespace

void dismiss_exception() {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_Exception)) {
    PyErr_Clear();
  } else {
    raise_later(fetch_exception());
  }
}

int add_exceptions(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
