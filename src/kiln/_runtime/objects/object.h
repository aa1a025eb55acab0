// What every part of the extension shares: an owning reference, and the creation of types.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <cstddef>
#include <new>
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

// Return what a weak reference refers to, or nothing if that is gone.
inline Ref referent(PyObject* reference) {
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyWeakref_GetRef(reference, &found) < 0) PyErr_Clear();
#else
  found = PyWeakref_GET_OBJECT(reference);
  found = found == Py_None ? nullptr : Py_NewRef(found);
#endif
  return Ref::own(found);
}

// Tell whether a weak reference refers to an object.
inline bool refers_to(PyObject* reference, PyObject* object) {
  return referent(reference).get() == object;
}

// The explicit stack of a traversal of nested objects. Traversals are loops, so that no depth
// overflows the thread's stack; the first few levels are stored inline.
template <typename T, size_t kInline = 16>
class Levels {
 public:
  Levels() = default;
  Levels(const Levels&) = delete;
  Levels& operator=(const Levels&) = delete;
  ~Levels() {
    while (size_ > 0) pop();
    if (levels_ != inline_levels()) ::operator delete(levels_);
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  // Valid until the next level is pushed.
  T& top() { return levels_[size_ - 1]; }
  void push(T level) {
    if (size_ == room_) grow();
    new (levels_ + size_) T(std::move(level));
    ++size_;
  }
  void pop() { levels_[--size_].~T(); }

 private:
  T* inline_levels() { return reinterpret_cast<T*>(inline_); }
  void grow() {
    T* larger = static_cast<T*>(::operator new(2 * room_ * sizeof(T)));
    for (size_t i = 0; i < size_; ++i) {
      new (larger + i) T(std::move(levels_[i]));
      levels_[i].~T();
    }
    if (levels_ != inline_levels()) ::operator delete(levels_);
    levels_ = larger;
    room_ *= 2;
  }

  alignas(T) unsigned char inline_[kInline * sizeof(T)];
  T* levels_ = inline_levels();
  size_t size_ = 0, room_ = kInline;
};

// Call a function that may be replaced during the call, such as those that kiln's Python modules
// install in the extension. Raises RuntimeError if there is none. Not inlined, because it is off
// its callers' fast path.
template <typename... Args>
[[gnu::noinline]] Ref call_held(PyObject* function, Args... args) {
  if (function == nullptr) {
    PyErr_SetString(PyExc_RuntimeError,
                    "kiln._runtime has not been told what to call: import kiln first");
    return Ref();
  }
  Ref held = Ref::borrow(function);
  PyObject* given[] = {nullptr, args...};
  return Ref::own(PyObject_Vectorcall(function, given + 1,
                                      sizeof...(args) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

[[gnu::cold, gnu::noinline]] inline bool refuse_unmade(PyObject* object) {
  PyErr_Format(PyExc_TypeError, "this %.100s was made without its __init__",
               Py_TYPE(object)->tp_name);
  return false;
}

// Tell whether an object's `__init__` has run; false with an exception set.
inline bool was_made(bool is_made, PyObject* object) { return is_made || refuse_unmade(object); }

// Refuse a second `__init__` of an object that may be in use; false with an exception set.
inline bool may_be_made(bool is_made, PyObject* object) {
  if (is_made) PyErr_Format(PyExc_TypeError, "a %.100s is made once", Py_TYPE(object)->tp_name);
  return !is_made;
}

inline int add_type(PyObject* module, PyTypeObject* type) { return PyModule_AddType(module, type); }

}  // namespace kiln
