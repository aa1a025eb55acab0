// What every part of the extension shares: an owning reference, and how a type is made.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <utility>

namespace kiln {

// An owned reference to a Python object, or nothing.
class Ref {
 public:
  Ref() = default;
  Ref(const Ref&) = delete;
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(const Ref&) = delete;
  Ref& operator=(Ref&& other) noexcept {
    PyObject* previous = object_;
    object_ = other.release();
    Py_XDECREF(previous);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  static Ref own(PyObject* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  static Ref borrow(PyObject* object) { return own(Py_XNewRef(object)); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Guards C++ recursion over nested Python objects; converts to false after raising RecursionError.
class Recursion {
 public:
  explicit Recursion(const char* where) : entered_(Py_EnterRecursiveCall(where) == 0) {}
  ~Recursion() {
    if (entered_) Py_LeaveRecursiveCall();
  }
  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

// Each part adds its types and functions to the module; -1 with an exception set on failure.
int add_state(PyObject* module);
int add_tree_keys(PyObject* module);
int add_tree_nodes(PyObject* module);
int add_tree(PyObject* module);
int add_tree_def(PyObject* module);
int add_array(PyObject* module);
int add_memory(PyObject* module);
int add_dlpack(PyObject* module);
int add_launcher(PyObject* module);
int add_placed(PyObject* module);
int add_program(PyObject* module);
int add_native(PyObject* module);
int add_operators(PyObject* module);
int add_call(PyObject* module);
int add_plan(PyObject* module);
int add_eager(PyObject* module);
int add_waiting(PyObject* module);

inline int add_type(PyObject* module, PyTypeObject* type) { return PyModule_AddType(module, type); }

}  // namespace kiln
