// The operators of arrays: each is an eager function of `core/operators.py`'s table, which runs a
// plan where it can.
#include "arrays/array.h"
#include "eager/eager.h"
#include "eager/values.h"
#include "objects/numpy.h"
#include "waiting/exceptions.h"

namespace kiln {
namespace {

enum Operator : int {
  // In the order of Py_LT, ...
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
  kGreater,
  kGreaterEqual,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kReflectedAdd,
  kReflectedSubtract,
  kReflectedMultiply,
  kReflectedDivide,
  kNegative,
  kAbsolute,
  kOperators
};
static_assert(Py_LT == kLess && Py_LE == kLessEqual && Py_EQ == kEqual && Py_NE == kNotEqual &&
              Py_GT == kGreater && Py_GE == kGreaterEqual);
const char* const kNames[kOperators] = {
    "__lt__",   "__le__",       "__eq__",  "__ne__",      "__gt__",   "__ge__",
    "__add__",  "__sub__",      "__mul__", "__truediv__", "__radd__", "__rsub__",
    "__rmul__", "__rtruediv__", "__neg__", "__abs__",
};
constexpr int kToReflected = kReflectedAdd - kAdd;

PyObject* functions_of[kOperators];  // or null: not installed yet
PyObject* as_array = nullptr;        // NumPy array -> array with a copy of its values

// Return an array for a NumPy array; null, without an exception, if the Python function must handle
// it.
Ref lifted_numpy(PyObject* x) {
  if (as_array == nullptr || !may_run_eagerly()) return Ref();
  Ref made = call_held(as_array, x);
  if (!made) dismiss_exception();
  return made;
}

inline Ref lifted(PyObject* x) { return PyArray_CheckExact(x) ? lifted_numpy(x) : Ref(); }

template <typename... Args>
PyObject* call(int op, Args... args) {
  PyObject* function = functions_of[op];
  if (function == nullptr) {
    PyErr_Format(PyExc_TypeError, "arrays have no operator %s yet", kNames[op]);
    return nullptr;
  }
  PyObject* given[] = {nullptr, args...};
  constexpr size_t count = sizeof...(args) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  return is_eager(function) ? call_eager(function, given + 1, count, nullptr)
                            : PyObject_Vectorcall(function, given + 1, count, nullptr);
}

// Whether an object is an array of any class; the slow path, for objects that `is_array` rejects.
bool is_any_array(PyObject* x) {
  return is_array(x) || (!PyFloat_CheckExact(x) && PyObject_TypeCheck(x, &array_data_type));
}

template <Operator op>
PyObject* binary(PyObject* left, PyObject* right) {
  Ref array;
  if (is_array(left) && (array = lifted(right))) right = array.get();
  if (is_array(right) && !array && (array = lifted(left))) left = array.get();
  if (is_any_array(left)) {
    PyObject* found = call(op, left, right);
    if (found != Py_NotImplemented || !is_any_array(right)) return found;
    Py_DECREF(found);
  }
  return call(op + kToReflected, right, left);
}

PyObject* negative(PyObject* x) { return call(kNegative, x); }
PyObject* absolute(PyObject* x) { return call(kAbsolute, x); }

// Install the functions that the operators call. An operator without a function raises until it has
// one.
PyObject* set_operator_table(PyObject*, PyObject* table) {
  if (!PyDict_Check(table)) {
    PyErr_SetString(PyExc_TypeError, "the operators are a dict of functions by name");
    return nullptr;
  }
  Ref held = Ref::borrow(table);
  for (int op = 0; op < kOperators; ++op) {
    // A call of the previous function may be in progress: its reference is kept.
    functions_of[op] = Py_XNewRef(PyDict_GetItemString(held.get(), kNames[op]));
  }
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
    .nb_add = binary<kAdd>,
    .nb_subtract = binary<kSubtract>,
    .nb_multiply = binary<kMultiply>,
    .nb_negative = negative,
    .nb_absolute = absolute,
    .nb_true_divide = binary<kDivide>,
};

PyObject* compare_arrays(PyObject* left, PyObject* right, int op) {
  Ref array;
  if (is_array(left) && (array = lifted(right))) right = array.get();
  return call(op, left, right);
}

int add_operators(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
