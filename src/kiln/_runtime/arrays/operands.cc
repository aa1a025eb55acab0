#include "arrays/operands.h"

#include <cstring>

#include "arrays/array.h"
#include "arrays/memory.h"
#include "objects/numpy.h"

namespace kiln {
namespace {

bool wrong_size(PyObject* object, const ValueType& type) {
  PyErr_Format(PyExc_TypeError, "a compiled function takes %zu bytes, not a %.100s of another size",
               type.bytes, Py_TYPE(object)->tp_name);
  return false;
}

}  // namespace

bool read_value_types(PyObject* given, std::vector<ValueType>& types) {
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (item == Py_None) {
      types.push_back(ValueType{NPY_VOID, 0});
      continue;
    }
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) {
      PyErr_SetString(PyExc_TypeError, "the type of a value is a pair of a dtype and bytes");
      return false;
    }
    PyArray_Descr* descr = nullptr;
    Py_ssize_t bytes = PyLong_AsSsize_t(PyTuple_GET_ITEM(item, 1));
    if (bytes == -1 && PyErr_Occurred()) return false;
    if (!PyArray_DescrConverter(PyTuple_GET_ITEM(item, 0), &descr)) return false;
    Ref held = Ref::own(reinterpret_cast<PyObject*>(descr));
    npy_intp each = PyDataType_ELSIZE(descr);
    if (PyDataType_REFCHK(descr) || bytes < 0 || (each > 0 && bytes % each != 0)) {
      PyErr_Format(PyExc_ValueError, "%zd bytes do not hold elements of type %R", bytes,
                   held.get());
      return false;
    }
    types.push_back(ValueType{descr->type_num, static_cast<size_t>(bytes)});
  }
  return true;
}

Operands::Operands(size_t count, bool takes_placed)
    : pointers_(inline_),
      scalars_(inline_scalars_),
      held_(inline_held_),
      takes_placed_(takes_placed) {
  if (count > kInline) {
    heap_.resize(count);
    heap_scalars_.resize(count);
    heap_held_.resize(count);
    pointers_ = heap_.data();
    scalars_ = heap_scalars_.data();
    held_ = heap_held_.data();
  }
}

Operands::~Operands() {
  for (size_t i = 0; i < size_; ++i) Py_XDECREF(held_[i]);
}

bool Operands::is_read(PyObject* object) const {
  return is_array(object) || (takes_placed_ && is_placed(object));
}

bool Operands::add(PyObject* object, const ValueType& type) {
  if (is_read(object)) {
    ArrayData* array = reinterpret_cast<ArrayData*>(object);
    if (!is_memory(array->host)) {
      Ref host = values_of(array);
      if (!host) return false;
      return PyArray_CheckExact(host.get()) ? add_numpy(host.get(), type)
                                            : convert(host.get(), type);
    }
    if (reinterpret_cast<MemoryBlock*>(array->host)->bytes != type.bytes) {
      return wrong_size(object, type);
    }
    put(reinterpret_cast<MemoryBlock*>(array->host)->data, array->host);
    return true;
  }
  if (PyFloat_CheckExact(object)) return add_float(object, type);
  if (PyArray_CheckExact(object)) return add_numpy(object, type);
  if (PyLong_Check(object)) return add_int(object, type);
  return convert(object, type);
}

template <typename T>
bool Operands::store(T value, PyObject* object, const ValueType& type) {
  if (type.bytes != sizeof value) return wrong_size(object, type);
  std::memcpy(scalars_[size_].bytes, &value, sizeof value);
  put(scalars_[size_].bytes, nullptr);
  return true;
}

bool Operands::add_float(PyObject* object, const ValueType& type) {
  double value = PyFloat_AS_DOUBLE(object);
  switch (type.type_number) {
    case NPY_FLOAT32: return store(static_cast<float>(value), object, type);
    case NPY_FLOAT64: return store(value, object, type);
  }
  return convert(object, type);
}

bool Operands::add_int(PyObject* object, const ValueType& type) {
  long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) return false;
  switch (type.type_number) {
    case NPY_BOOL: return store(static_cast<char>(value != 0), object, type);
    case NPY_INT32:
      if (value != static_cast<int32_t>(value)) {
        PyErr_Format(PyExc_OverflowError, "the integer %lld does not fit int32", value);
        return false;
      }
      return store(static_cast<int32_t>(value), object, type);
    case NPY_INT64: return store(static_cast<int64_t>(value), object, type);
  }
  return convert(object, type);
}

bool Operands::add_numpy(PyObject* object, const ValueType& type) {
  PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
  bool as_it_is = PyArray_TYPE(array) == type.type_number && PyArray_ISCARRAY_RO(array);
  if (!as_it_is) return convert(object, type);
  if (static_cast<size_t>(PyArray_NBYTES(array)) != type.bytes) return wrong_size(object, type);
  put(PyArray_DATA(array), object);
  return true;
}

bool Operands::convert(PyObject* object, const ValueType& type) {
  if (!PyArray_Check(object) && !PyArray_CheckScalar(object) && !PyComplex_Check(object) &&
      !PyFloat_Check(object) && !PyLong_Check(object)) {
    PyErr_Format(PyExc_TypeError, "a compiled function takes arrays and numbers, not a %.100s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  PyArray_Descr* descr = PyArray_DescrFromType(type.type_number);
  if (descr == nullptr) return false;
  Ref array = Ref::own(
      PyArray_FromAny(object, descr, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, nullptr));
  if (!array) return false;
  PyArrayObject* made = reinterpret_cast<PyArrayObject*>(array.get());
  if (static_cast<size_t>(PyArray_NBYTES(made)) != type.bytes) return wrong_size(object, type);
  put(PyArray_DATA(made), array.get());
  return true;
}

MemoryBlock* Operands::memory(size_t number, size_t bytes) const {
  PyObject* owner = held_[number];
  if (owner == nullptr) return nullptr;
  PyObject* block =
      PyArray_CheckExact(owner) ? PyArray_BASE(reinterpret_cast<PyArrayObject*>(owner)) : owner;
  if (block == nullptr || !is_memory(block)) return nullptr;
  MemoryBlock* memory = reinterpret_cast<MemoryBlock*>(block);
  bool is_all = memory->data == pointers_[number] && memory->bytes == bytes;
  return is_all ? memory : nullptr;
}

Ref Operands::take_memory(size_t number, size_t bytes, PyObject* object) {
  MemoryBlock* memory = this->memory(number, bytes);
  if (memory == nullptr || !is_read(object)) return Ref();
  ArrayData* array = reinterpret_cast<ArrayData*>(object);
  PyObject *owner = held_[number], *block = reinterpret_cast<PyObject*>(memory);
  // Every user of the memory holds a reference to it, or to a view that does: NumPy, DLPack,
  // engines, results that share it. The array and this call are the two known references.
  if (array->host != owner || Py_REFCNT(owner) != 2) return Ref();
  if (owner != block && Py_REFCNT(block) != 1) return Ref();
  Ref taken = Ref::borrow(block);
  held_[number] = nullptr;
  Ref host = Ref::own(std::exchange(array->host, Py_NewRef(Py_None)));
  Ref buffer = Ref::own(std::exchange(array->buffer, Py_NewRef(Py_None)));
  Py_DECREF(owner);
  return taken;
}

}  // namespace kiln
