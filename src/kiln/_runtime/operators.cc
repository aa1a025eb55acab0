// Operators of arrays: at once where both operands are plain numbers in memory, otherwise by the
// functions of `core/operators.py`.
#include <cstring>
#include <string>

#include "array.h"
#include "kernels/registry.h"
#include "memory.h"
#include "numpy.h"
#include "values.h"

namespace kiln {
namespace {

enum Operator : int {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kNegative,
  kAbsolute,
  kOperators
};
const char* const kLoopNames[kOperators] = {
    "add",  "subtract",   "multiply", "true_divide",   "equal",    "not_equal",
    "less", "less_equal", "greater",  "greater_equal", "negative", "absolute",
};
enum Element : int { kFloat32, kFloat64, kInt32, kInt64, kElements };
const char kTypes[kElements] = {'f', 'd', 'i', 'l'};

inline bool is_unary(int op) { return op >= kNegative; }
inline bool compares(int op) { return op >= kEqual && !is_unary(op); }

StridedLoop loops[kOperators][kElements];  // null where there is none

PyObject* table = nullptr;     // name of an operator -> function, filled by `set_operators`
PyObject* as_array = nullptr;  // NumPy array -> array with a copy of its values

// Loops longer than this let other threads run.
constexpr size_t kLetOthersRun = 1 << 15;

// What is known of a type, by its identity.
struct Kind {
  PyObject* aval;
  PyObject* truth;  // the type of a comparison's result
  int element;      // of `Element`, or -1 for types left to the functions
  size_t count;
  size_t bytes;
};
constexpr size_t kKinds = 128;
Kind kinds[kKinds];

const int kTypeNumbers[kElements] = {NPY_FLOAT32, NPY_FLOAT64, NPY_INT32, NPY_INT64};
const size_t kSizes[kElements] = {4, 8, 4, 8};

bool describe(PyObject* aval, Kind& kind) {
  kind.element = -1;
  Ref dtype = Ref::own(PyObject_GetAttrString(aval, "dtype"));
  Ref shape = dtype ? Ref::own(PyObject_GetAttrString(aval, "shape")) : Ref();
  if (!shape || !PyTuple_Check(shape.get())) return false;
  if (!PyArray_DescrCheck(dtype.get())) return true;
  for (int element = 0; element < kElements; ++element) {
    if (reinterpret_cast<PyArray_Descr*>(dtype.get())->type_num == kTypeNumbers[element]) {
      kind.element = element;
    }
  }
  if (kind.element < 0) return true;
  size_t count = 1;
  bool fits = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape.get()); ++i) {
    Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape.get(), i));
    fits = fits && size >= 0 && !__builtin_mul_overflow(count, static_cast<size_t>(size), &count);
  }
  if (PyErr_Occurred()) return false;
  kind.count = count;
  if (!fits || __builtin_mul_overflow(count, kSizes[kind.element], &kind.bytes)) {
    kind.element = -1;
    return true;
  }
  Ref descr = Ref::own(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_BOOL)));
  if (!descr) return false;
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(aval));
  kind.truth = PyObject_CallFunctionObjArgs(type, shape.get(), descr.get(), nullptr);
  return kind.truth != nullptr;
}

// Return what is known of a type, or null.
const Kind* kind_of(PyObject* aval) {
  Kind& kind = kinds[(reinterpret_cast<size_t>(aval) >> 4) % kKinds];
  if (kind.aval != aval) {
    Kind found = {};
    if (!describe(aval, found)) {
      PyErr_Clear();
      return nullptr;
    }
    Kind old = std::exchange(kind, Kind{});
    kind = found;
    kind.aval = Py_NewRef(aval);
    Py_XDECREF(old.aval);
    Py_XDECREF(old.truth);
  }
  return kind.element < 0 ? nullptr : &kind;
}

bool has_type(ArrayData* array, PyObject* aval) {
  if (array->aval == aval) return true;
  Ref other = Ref::borrow(array->aval);
  int same = PyObject_RichCompareBool(other.get(), aval, Py_EQ);
  if (same < 0) PyErr_Clear();
  return same > 0;
}

// A Python number as an element, if it gives way to the array's type and fits it.
bool convert(PyObject* number, int element, char* bytes) {
  double value;
  long long integer = 0;
  bool is_float = PyFloat_CheckExact(number);
  if (is_float) {
    value = PyFloat_AS_DOUBLE(number);
  } else if (PyLong_CheckExact(number)) {
    int overflow = 0;
    integer = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0 || integer != static_cast<int32_t>(integer)) return false;
    value = static_cast<double>(integer);
  } else {
    return false;
  }
  switch (element) {
    case kFloat32: {
      float narrow = static_cast<float>(value);
      std::memcpy(bytes, &narrow, sizeof narrow);
      return true;
    }
    case kFloat64: std::memcpy(bytes, &value, sizeof value); return true;
    case kInt32: {
      int32_t narrow = static_cast<int32_t>(integer);
      std::memcpy(bytes, &narrow, sizeof narrow);
      return !is_float;
    }
    default: std::memcpy(bytes, &integer, sizeof integer); return !is_float;
  }
}

Ref result(PyObject* aval, size_t bytes, void*& data) {
  Ref memory = Ref::own(reinterpret_cast<PyObject*>(allocate(bytes)));
  if (!memory) return Ref();
  data = reinterpret_cast<Memory*>(memory.get())->data;
  return make_array(aval, memory.get(), Py_None, Py_None);
}

// Apply here; null without an exception where the functions must.
Ref apply(Operator op, PyObject* left, PyObject* right) {
  bool left_is_array = is_array(left), right_is_array = is_array(right);
  if (!may_run_eagerly()) return Ref();
  ArrayData* array = reinterpret_cast<ArrayData*>(left_is_array ? left : right);
  Ref aval = Ref::borrow(array->aval);
  const Kind* known = kind_of(aval.get());
  if (known == nullptr) return Ref();
  const Kind kind = *known;
  Ref truth = Ref::borrow(kind.truth);
  StridedLoop loop = loops[op][kind.element];
  if (loop == nullptr) return Ref();
  alignas(8) char scalar[8];
  Values a, b;
  bool a_is_scalar = false, b_is_scalar = false;
  if (left_is_array && right_is_array) {
    if (!has_type(reinterpret_cast<ArrayData*>(right), aval.get())) return Ref();
  } else if (!convert(left_is_array ? right : left, kind.element, scalar)) {
    return Ref();
  }
  if (left_is_array) {
    if (!find_values(reinterpret_cast<ArrayData*>(left), kTypeNumbers[kind.element], kind.bytes,
                     a)) {
      return Ref();
    }
  } else {
    a.pointer = scalar;
    a_is_scalar = true;
  }
  if (right_is_array) {
    if (!find_values(reinterpret_cast<ArrayData*>(right), kTypeNumbers[kind.element], kind.bytes,
                     b)) {
      return Ref();
    }
  } else {
    b.pointer = scalar;
    b_is_scalar = true;
  }
  void* out;
  Ref made =
      compares(op) ? result(truth.get(), kind.count, out) : result(aval.get(), kind.bytes, out);
  if (!made) return made;
  intptr_t size = static_cast<intptr_t>(kSizes[kind.element]);
  char* operands[] = {const_cast<char*>(static_cast<const char*>(a.pointer)),
                      const_cast<char*>(static_cast<const char*>(b.pointer)),
                      static_cast<char*>(out)};
  const intptr_t steps[] = {a_is_scalar ? 0 : size, b_is_scalar ? 0 : size,
                            compares(op) ? 1 : size};
  const intptr_t count = static_cast<intptr_t>(kind.count);
  if (kind.count < kLetOthersRun) {
    loop(operands, &count, steps, nullptr);
  } else {
    Py_BEGIN_ALLOW_THREADS
    loop(operands, &count, steps, nullptr);
    Py_END_ALLOW_THREADS
  }
  return made;
}

Ref apply(Operator op, PyObject* operand) {
  if (!is_array(operand) || !may_run_eagerly()) return Ref();
  ArrayData* array = reinterpret_cast<ArrayData*>(operand);
  Ref aval = Ref::borrow(array->aval);
  const Kind* known = kind_of(aval.get());
  if (known == nullptr) return Ref();
  const Kind kind = *known;
  Values a;
  if (!find_values(array, kTypeNumbers[kind.element], kind.bytes, a)) return Ref();
  void* out;
  Ref made = result(aval.get(), kind.bytes, out);
  if (!made) return made;
  intptr_t size = static_cast<intptr_t>(kSizes[kind.element]);
  char* operands[] = {const_cast<char*>(static_cast<const char*>(a.pointer)),
                      static_cast<char*>(out)};
  const intptr_t steps[] = {size, size};
  const intptr_t count = static_cast<intptr_t>(kind.count);
  loops[op][kind.element](operands, &count, steps, nullptr);
  return made;
}

// Return an array for a NumPy array; nothing, without an exception, where the functions must see
// it.
Ref lifted_numpy(PyObject* x) {
  if (as_array == nullptr || !may_run_eagerly()) return Ref();
  Ref made = call_held(as_array, x);
  if (!made) PyErr_Clear();
  return made;
}

inline Ref lifted(PyObject* x) { return PyArray_CheckExact(x) ? lifted_numpy(x) : Ref(); }

PyObject* call(const char* name, PyObject* self, PyObject* other) {
  PyObject* function = table == nullptr ? nullptr : PyDict_GetItemString(table, name);
  if (function == nullptr) {
    PyErr_Format(PyExc_TypeError, "arrays have no operator %s yet", name);
    return nullptr;
  }
  return (other == nullptr ? call_held(function, self) : call_held(function, self, other))
      .release();
}

PyObject* by_function(const char* name, const char* reflected, PyObject* left, PyObject* right) {
  if (PyObject_TypeCheck(left, &array_data_type)) {
    PyObject* found = call(name, left, right);
    if (found != Py_NotImplemented || !PyObject_TypeCheck(right, &array_data_type)) return found;
    Py_DECREF(found);
  }
  return call(reflected, right, left);
}

template <Operator op>
PyObject* binary(const char* name, const char* reflected, PyObject* left, PyObject* right) {
  Ref array;
  if (is_array(left) && (array = lifted(right))) right = array.get();
  if (is_array(right) && !array && (array = lifted(left))) left = array.get();
  if (is_array(left) || is_array(right)) {
    Ref made = apply(op, left, right);
    if (made || PyErr_Occurred()) return made.release();
  }
  return by_function(name, reflected, left, right);
}

PyObject* add(PyObject* a, PyObject* b) { return binary<kAdd>("__add__", "__radd__", a, b); }
PyObject* subtract(PyObject* a, PyObject* b) {
  return binary<kSubtract>("__sub__", "__rsub__", a, b);
}
PyObject* multiply(PyObject* a, PyObject* b) {
  return binary<kMultiply>("__mul__", "__rmul__", a, b);
}
PyObject* divide(PyObject* a, PyObject* b) {
  return binary<kDivide>("__truediv__", "__rtruediv__", a, b);
}

PyObject* negative(PyObject* a) {
  Ref made = apply(kNegative, a);
  if (made || PyErr_Occurred()) return made.release();
  return call("__neg__", a, nullptr);
}

PyObject* absolute(PyObject* a) {
  Ref made = apply(kAbsolute, a);
  if (made || PyErr_Occurred()) return made.release();
  return call("__abs__", a, nullptr);
}

PyObject* compare_here(PyObject* left, PyObject* right, int op) {
  static const Operator kOps[] = {kLess, kLessEqual, kEqual, kNotEqual, kGreater, kGreaterEqual};
  static const char* kNames[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  static_assert(Py_LT == 0 && Py_LE == 1 && Py_EQ == 2 && Py_NE == 3 && Py_GT == 4 && Py_GE == 5);
  Ref array;
  if (is_array(left)) {
    if ((array = lifted(right))) right = array.get();
    Ref made = apply(kOps[op], left, right);
    if (made || PyErr_Occurred()) return made.release();
  }
  return call(kNames[op], left, right);
}

PyObject* set_operator_table(PyObject*, PyObject* functions) {
  if (!PyDict_Check(functions)) {
    PyErr_SetString(PyExc_TypeError, "the operators are a dict of functions by name");
    return nullptr;
  }
  Py_XSETREF(table, Py_NewRef(functions));
  Py_RETURN_NONE;
}

PyObject* set_as_array(PyObject*, PyObject* function) {
  Py_XSETREF(as_array, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_as_array", set_as_array, METH_O, "Set what makes an array of a NumPy array."},
    {"set_operator_table", set_operator_table, METH_O, "Set the functions behind the operators."},
    {nullptr},
};

}  // namespace

PyNumberMethods array_numbers = {
    .nb_add = add,
    .nb_subtract = subtract,
    .nb_multiply = multiply,
    .nb_negative = negative,
    .nb_absolute = absolute,
    .nb_true_divide = divide,
};

PyObject* compare_arrays(PyObject* left, PyObject* right, int op) {
  return compare_here(left, right, op);
}

int add_operators(PyObject* module) {
  for (int op = 0; op < kOperators; ++op) {
    for (int element = 0; element < kElements; ++element) {
      char type = kTypes[element];
      std::string types(is_unary(op) ? 1 : 2, type);
      types += compares(op) ? '?' : type;
      loops[op][element] = Registry::here().find(kLoopNames[op], types.c_str());
    }
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
