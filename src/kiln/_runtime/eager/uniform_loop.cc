#include "eager/uniform_loop.h"

#include <cstring>
#include <string>

#include "arrays/array.h"
#include "arrays/memory.h"
#include "eager/values.h"
#include "objects/numpy.h"
#include "waiting/ending.h"
#include "waiting/exceptions.h"

namespace kiln {
namespace {

const char kTypes[kElements] = {'f', 'd', 'i', 'l'};

// Loops longer than this release the GIL.
constexpr size_t kLetOthersRun = 1 << 15;

// What is known about a type, by identity.
struct Kind {
  PyObject* aval;
  PyObject* truth;  // the type of a comparison's result
  PyObject* equal;  // another object that was found equal to this type, or null
  int element;      // of `Element`, or -1 for types without loops here
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

Kind& slot_of(PyObject* aval) { return kinds[(reinterpret_cast<size_t>(aval) >> 4) % kKinds]; }

// Return what is known about a type, or null.
const Kind* kind_of(PyObject* aval) {
  Kind& kind = slot_of(aval);
  if (kind.aval != aval) {
    Kind found = {};
    if (!describe(aval, found)) {
      dismiss_exception();
      return nullptr;
    }
    Kind old = std::exchange(kind, Kind{});
    kind = found;
    kind.aval = Py_NewRef(aval);
    Py_XDECREF(old.aval);
    Py_XDECREF(old.truth);
    Py_XDECREF(old.equal);
  }
  return kind.element < 0 ? nullptr : &kind;
}

bool is_equal(PyObject* other, PyObject* aval) {
  Ref kept = Ref::borrow(other);
  int same = PyObject_RichCompareBool(other, aval, Py_EQ);
  if (same < 0) dismiss_exception();
  // A comparison may run Python code, and so replace the table.
  if (same > 0 && slot_of(aval).aval == aval) Py_XSETREF(slot_of(aval).equal, kept.release());
  return same > 0;
}

inline bool has_type(ArrayData* array, const Kind& kind) {
  return array->aval == kind.aval || array->aval == kind.equal || is_equal(array->aval, kind.aval);
}

// A Python number as an element, if it adapts to the array's type and fits.
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
  data = reinterpret_cast<MemoryBlock*>(memory.get())->data;
  return make_array(aval, memory.get(), Py_None, Py_None);
}

// Locate an operand: in an array, or in `scalar` if it is a Python number. False, without
// an exception, if it is neither.
inline bool read(PyObject* x, bool is_array, const Kind& kind, Values& values, char* scalar) {
  if (is_array) {
    return find_values(reinterpret_cast<ArrayData*>(x), kTypeNumbers[kind.element], kind.bytes,
                       values);
  }
  values.pointer = scalar;
  return convert(x, kind.element, scalar);
}

template <int kOperands, bool kCompares>
Ref run(const UniformLoop& loop, PyObject* const* args) {
  PyObject* first = args[loop.is_swapped];
  PyObject* second = kOperands == 2 ? args[!loop.is_swapped] : nullptr;
  const bool a_is_array = is_array(first), b_is_array = kOperands == 2 && is_array(second);
  if (!a_is_array && !b_is_array) return Ref();
  Ref aval = Ref::borrow(reinterpret_cast<ArrayData*>(a_is_array ? first : second)->aval);
  const Kind* known = kind_of(aval.get());
  if (known == nullptr) return Ref();
  StridedLoop function = loop.loops[known->element];
  if (function == nullptr) return Ref();
  const Kind kind = *known;
  Ref truth = kCompares ? Ref::borrow(kind.truth) : Ref();
  // Before any Python code can run: until then, the entry of the type is valid.
  if (a_is_array && b_is_array && !has_type(reinterpret_cast<ArrayData*>(second), kind)) {
    return Ref();
  }
  alignas(8) char scalar[8];
  Values a, b;
  if (!read(first, a_is_array, kind, a, scalar)) return Ref();
  if (kOperands == 2 && !read(second, b_is_array, kind, b, scalar)) return Ref();
  void* out;
  Ref made = kCompares ? result(truth.get(), kind.count, out) : result(aval.get(), kind.bytes, out);
  if (!made) return made;
  const intptr_t size = static_cast<intptr_t>(kSizes[kind.element]);
  const intptr_t result_size = kCompares ? 1 : size;
  char* to = static_cast<char*>(out);
  char* from = const_cast<char*>(static_cast<const char*>(a.pointer));
  char* beside = const_cast<char*>(static_cast<const char*>(b.pointer));
  char* operands[] = {from, kOperands == 2 ? beside : to, to};
  const intptr_t steps[] = {a_is_array ? size : 0,
                            kOperands == 1 ? result_size
                            : b_is_array   ? size
                                           : 0,
                            result_size};
  const intptr_t count = static_cast<intptr_t>(kind.count);
  if (kind.count < kLetOthersRun) {
    function(operands, &count, steps, nullptr);
  } else {
    WithoutLock without;
    function(operands, &count, steps, nullptr);
  }
  return made;
}

// Whether loops of a name map each element to one of the same type, or to a truth value.
bool is_arithmetic(const char* name) {
  for (const char* one : {"add", "subtract", "multiply", "true_divide", "negative", "absolute",
                          "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}) {
    if (std::strcmp(name, one) == 0) return true;
  }
  return false;
}

}  // namespace

bool find_uniform_loop(const char* name, bool swapped, UniformLoop& found) {
  if (!is_arithmetic(name)) return false;
  found.is_swapped = swapped;
  for (int element = 0; element < kElements; ++element) {
    const char type = kTypes[element];
    auto find = [&](const std::string& types) {
      found.loops[element] = Registry::here().find(name, types.c_str());
      return found.loops[element] != nullptr;
    };
    if (find({type, type})) {
      found.operands = 1;
      found.run = run<1, false>;
    } else if (find({type, type, type})) {
      found.operands = 2;
      found.run = run<2, false>;
    } else if (find({type, type, '?'})) {
      found.operands = 2;
      found.run = run<2, true>;
    }
  }
  return found.operands > (swapped ? 1 : 0);
}

}  // namespace kiln
