// What a call must match for the program of an earlier call to apply to it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "arrays/array.h"
#include "objects/numpy.h"
#include "trees/nodes.h"
#include "waiting/exceptions.h"

namespace kiln {

// Whether two objects are certainly equal; if the comparison raises, `_call` reports why.
inline bool is_equal(PyObject* a, PyObject* b) {
  int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) dismiss_exception();
  return same > 0;
}

// The sizes of a call's named axes, indexed by name number; 0 until the first occurrence.
using Sizes = std::vector<int64_t>;

struct NamedAxis {
  int axis;
  size_t number;  // of the name
};

// Record a size; false if the name already has a different one, or if it is 0: then `_call` handles
// the call.
inline bool note_size(Sizes& sizes, size_t number, int64_t size) {
  if (sizes[number] == 0) sizes[number] = size;
  return size > 0 && sizes[number] == size;
}

// What a type with named axes must match: the attributes of a `ShapedArray`, and the sizes of
// unnamed axes.
struct NamedType {
  std::vector<NamedAxis> axes;  // none: the type itself is compared
  std::vector<int64_t> shape;   // -1 where an axis has a name
  Ref dtype, weak_type, varying;

  bool read(PyObject* aval) {
    dtype = Ref::own(PyObject_GetAttr(aval, names[0]));
    weak_type = Ref::own(PyObject_GetAttr(aval, names[1]));
    varying = Ref::own(PyObject_GetAttr(aval, names[2]));
    Ref sizes = Ref::own(PyObject_GetAttr(aval, names[3]));
    if (!dtype || !weak_type || !varying || !sizes || !PyTuple_Check(sizes.get())) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes.get()); ++i) {
      shape.push_back(number(PyTuple_GET_ITEM(sizes.get(), i)));
      if (shape.back() < 0) return false;
    }
    for (const NamedAxis& each : axes) {
      if (each.axis < 0 || static_cast<size_t>(each.axis) >= shape.size()) return false;
      shape[static_cast<size_t>(each.axis)] = -1;
    }
    return true;
  }

  bool fits(PyObject* aval, Sizes& sizes) const {
    Ref found = Ref::own(PyObject_GetAttr(aval, names[3]));
    if (!found || !PyTuple_Check(found.get()) ||
        PyTuple_GET_SIZE(found.get()) != static_cast<Py_ssize_t>(shape.size())) {
      dismiss_exception();
      return false;
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      PyObject* size = PyTuple_GET_ITEM(found.get(), static_cast<Py_ssize_t>(i));
      if (shape[i] >= 0 && number(size) != shape[i]) return false;
    }
    if (!has(aval, names[0], dtype.get()) || !has(aval, names[1], weak_type.get()) ||
        !has(aval, names[2], varying.get())) {
      return false;
    }
    for (const NamedAxis& each : axes) {
      PyObject* size = PyTuple_GET_ITEM(found.get(), each.axis);
      if (!note_size(sizes, each.number, number(size))) return false;
    }
    return true;
  }

  static bool intern() {
    const char* texts[] = {"dtype", "weak_type", "varying", "shape"};
    for (int i = 0; i < 4; ++i) {
      names[i] = PyUnicode_InternFromString(texts[i]);
      if (names[i] == nullptr) return false;
    }
    return true;
  }

 private:
  static inline PyObject* names[4] = {};

  // A size; -1 for a named one, which is not an int.
  static int64_t number(PyObject* size) {
    int overflow = 0;
    return PyLong_CheckExact(size) ? PyLong_AsLongLongAndOverflow(size, &overflow) : -1;
  }

  static bool has(PyObject* aval, PyObject* name, PyObject* value) {
    Ref found = Ref::own(PyObject_GetAttr(aval, name));
    if (!found) dismiss_exception();
    return found && (found.get() == value || is_equal(found.get(), value));
  }
};

// What a leaf must match for a cached program to apply.
struct Leaf {
  PyTypeObject* type = nullptr;       // its exact class
  Ref aval;                           // of arrays
  Ref sharding;                       // of placed arrays
  char committed = 0;                 // of these as well
  Ref dtype;                          // of NumPy arrays
  std::vector<npy_intp> shape;        // of NumPy arrays
  long long least = 0, greatest = 0;  // of ints
  NamedType named;

  bool fits(PyObject* object, Sizes& sizes) {
    if (Py_TYPE(object) != type) return false;
    if (aval) {
      ArrayData* array = reinterpret_cast<ArrayData*>(object);
      bool has_type = named.axes.empty() ? has_aval(array) : named.fits(array->aval, sizes);
      return has_type && is_there(array);
    }
    if (dtype) return is_like(reinterpret_cast<PyArrayObject*>(object), sizes);
    if (type == &PyLong_Type) {
      int overflow = 0;
      long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
      return overflow == 0 && least <= value && value <= greatest;
    }
    return true;
  }

 private:
  // Types and shardings are values: equal ones are replaced by one object, so that the next
  // comparison is by identity.
  static bool unify(PyObject*& slot, PyObject* value) {
    if (slot == value) return true;
    Ref found = Ref::borrow(slot);
    if (!is_equal(found.get(), value)) return false;
    if (slot == found.get()) Py_SETREF(slot, Py_NewRef(value));
    return true;
  }

  bool has_aval(ArrayData* array) { return unify(array->aval, aval.get()); }

  bool is_there(ArrayData* array) {
    return !sharding || (array->committed == committed && unify(array->sharding, sharding.get()));
  }

  bool is_like(PyArrayObject* array, Sizes& sizes) const {
    if (reinterpret_cast<PyObject*>(PyArray_DESCR(array)) != dtype.get()) return false;
    if (PyArray_NDIM(array) != static_cast<int>(shape.size())) return false;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] >= 0 && PyArray_DIM(array, static_cast<int>(i)) != shape[i]) return false;
    }
    for (const NamedAxis& each : named.axes) {
      if (!note_size(sizes, each.number, PyArray_DIM(array, each.axis))) return false;
    }
    return true;
  }
};

// The source of a part of a call: the number of an argument, positional ones first.
struct Dynamic {
  Py_ssize_t position;
  Ref key;
};
// How a value that is not an array is compared with that of another call.
struct Static {
  Ref value;
  // The result of `static_key`; null if values are distinguished by type, hash and equality.
  Ref key;
  Py_hash_t hash = 0;        // of these
  bool is_plain = false;     // neither: compared here
  bool is_constant = false;  // immutable: the same object is the same value
  bool has_parts = false;    // compared instead of it: the items of a tuple,
  Ref names;                 // or the fields of a dataclass with such names
  std::vector<Static> parts;
};
struct StaticArgument {
  Py_ssize_t position;
  Static known;
};

// A program, and the calls it applies to.
struct Known {
  Ref options;
  Py_ssize_t positional = 0;
  Ref kwnames;  // null if there are none
  std::vector<StaticArgument> statics;
  std::vector<Dynamic> dynamics;
  // Of nodes of other than the built-in containers, in traversal order.
  std::vector<Static> metadata;
  std::vector<Leaf> leaves;
  Ref consts;  // a tuple
  Ref program;
  Ref out_key;
  // Named axes: how many names there are, and which program runs for which sizes.
  size_t names = 0;
  Ref for_sizes;  // (sizes) -> program, or None if `_call` decides
  std::map<Sizes, Ref> programs;
};

// The calls that a function remembers, most recently used first.
using KnownCalls = std::vector<std::shared_ptr<Known>>;

// Whether a node of a form consists of nothing but its children, and for dicts their keys.
inline bool is_plain_container(Form form) {
  switch (form) {
    case Form::kTuple:
    case Form::kList:
    case Form::kDict:
    case Form::kNone:
    case Form::kNamedTuple: return true;
    case Form::kFields:
    case Form::kCustom: break;
  }
  return false;
}

}  // namespace kiln
