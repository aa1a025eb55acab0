// Memory exchanged with other libraries by DLPack: its structures, versions 0 and 1.
// https://dmlc.github.io/dlpack/latest/c_api.html
#include <cstdint>
#include <memory>
#include <vector>

#include "objects/numpy.h"
#include "objects/object.h"
#include "waiting/ending.h"

namespace kiln {
namespace {

struct Device {
  int32_t type;
  int32_t id;
};
struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null if row-major
  uint64_t byte_offset;
};
struct Managed {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};
constexpr int32_t kHost = 1;
constexpr uint64_t kReadOnly = 1, kCopied = 2;

// Exported memory, with the array it belongs to.
template <typename M>
struct Lent {
  M managed;
  PyObject* owner;
  std::vector<int64_t> shape, strides;

  static void end(M* managed) {
    Lent* lent = static_cast<Lent*>(managed->context);
    if (Py_IsInitialized()) {
      WithLock lock;
      Py_DECREF(lent->owner);
    }
    delete lent;
  }
};

template <typename M>
void let_go(M* managed) {
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

// Deletes a capsule that was not consumed.
template <typename M>
void capsule_end(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, M::kName)) {
    let_go(static_cast<M*>(PyCapsule_GetPointer(capsule, M::kName)));
  }
}

template <typename M>
PyObject* lend(PyArrayObject* array, DataType dtype, uint64_t flags) {
  auto lent = std::make_unique<Lent<M>>();
  int ndim = PyArray_NDIM(array);
  npy_intp item = PyArray_ITEMSIZE(array);
  for (int i = 0; i < ndim; ++i) {
    lent->shape.push_back(PyArray_DIM(array, i));
    lent->strides.push_back(item == 0 ? 0 : PyArray_STRIDE(array, i) / item);
  }
  lent->managed.tensor = {PyArray_DATA(array), {kHost, 0},           ndim, dtype,
                          lent->shape.data(),  lent->strides.data(), 0};
  lent->managed.context = lent.get();
  lent->managed.deleter = Lent<M>::end;
  if constexpr (std::is_same_v<M, ManagedVersioned>) {
    lent->managed.major = 1;
    lent->managed.minor = 0;
    lent->managed.flags = flags;
  }
  PyObject* capsule = PyCapsule_New(&lent->managed, M::kName, capsule_end<M>);
  if (capsule != nullptr) lent.release()->owner = Py_NewRef(reinterpret_cast<PyObject*>(array));
  return capsule;
}

// to_dlpack(array, code, bits, versioned, copied): the array has a whole number of items per
// stride.
PyObject* to_dlpack(PyObject*, PyObject* args) {
  PyObject* array;
  unsigned char code, bits;
  int versioned, copied;
  if (!PyArg_ParseTuple(args, "O!bbpp", &PyArray_Type, &array, &code, &bits, &versioned, &copied)) {
    return nullptr;
  }
  PyArrayObject* values = reinterpret_cast<PyArrayObject*>(array);
  npy_intp item = PyArray_ITEMSIZE(values);
  bool fits = !PyDataType_REFCHK(PyArray_DESCR(values)) && item * 8 == bits;
  for (int i = 0; fits && i < PyArray_NDIM(values); ++i) {
    fits = item == 0 || PyArray_STRIDE(values, i) % item == 0;
  }
  if (!fits) {
    PyErr_Format(PyExc_BufferError,
                 "an array of %R with items of %zd bytes cannot be lent as items of %d bits",
                 PyArray_DESCR(values), static_cast<Py_ssize_t>(item), static_cast<int>(bits));
    return nullptr;
  }
  DataType dtype{code, bits, 1};
  if (!versioned) return lend<Managed>(values, dtype, 0);
  return lend<ManagedVersioned>(values, dtype, copied ? kCopied : kReadOnly);
}

template <typename M>
void taken_end(PyObject* capsule) {
  let_go(static_cast<M*>(PyCapsule_GetPointer(capsule, M::kUsed)));
}

bool has_no_elements(const Tensor& tensor) {
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return true;
  }
  return false;
}

// Consume a capsule: return a read-only array over its memory, and whether it is a copy.
template <typename M>
PyObject* take(PyObject* capsule, PyObject* dtype_of) {
  M* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, M::kName));
  if (managed == nullptr) return nullptr;
  const Tensor& tensor = managed->tensor;
  bool copied = false;
  if constexpr (std::is_same_v<M, ManagedVersioned>) {
    if (managed->major > 1) {
      PyErr_Format(PyExc_BufferError,
                   "the memory is described in version %u of DLPack, newer than 1", managed->major);
      return nullptr;
    }
    copied = (managed->flags & kCopied) != 0;
  }
  if (tensor.ndim < 0 || tensor.ndim > NPY_MAXDIMS || tensor.dtype.lanes != 1) {
    PyErr_Format(PyExc_BufferError, "the memory has %d dimensions of %d lanes", tensor.ndim,
                 tensor.dtype.lanes);
    return nullptr;
  }
  Ref code = Ref::own(PyLong_FromLong(tensor.dtype.code)),
      bits = Ref::own(PyLong_FromLong(tensor.dtype.bits));
  Ref descr = code && bits ? call_held(dtype_of, code.get(), bits.get()) : Ref();
  if (!descr) return nullptr;
  // Python code ran, and may have consumed the capsule itself.
  if (!PyCapsule_IsValid(capsule, M::kName)) {
    PyErr_SetString(PyExc_BufferError, "the memory was taken by another meanwhile");
    return nullptr;
  }
  if (!PyArray_DescrCheck(descr.get())) {
    PyErr_SetString(PyExc_TypeError, "a dtype was asked for");
    return nullptr;
  }
  PyArray_Descr* type = reinterpret_cast<PyArray_Descr*>(descr.get());
  npy_intp item = PyDataType_ELSIZE(type);
  if (item * 8 != tensor.dtype.bits || PyDataType_REFCHK(type) || PyDataType_HASSUBARRAY(type)) {
    PyErr_Format(PyExc_TypeError, "items of %d bits are not of type %R",
                 static_cast<int>(tensor.dtype.bits), descr.get());
    return nullptr;
  }
  std::vector<npy_intp> shape, strides;
  for (int i = 0; i < tensor.ndim; ++i) {
    shape.push_back(static_cast<npy_intp>(tensor.shape[i]));
    if (tensor.strides != nullptr) {
      strides.push_back(static_cast<npy_intp>(tensor.strides[i]) * item);
    }
  }
  // From here on we own the memory and must release it.
  Ref owner = Ref::own(PyCapsule_New(managed, M::kUsed, taken_end<M>));
  if (!owner || PyCapsule_SetName(capsule, M::kUsed) < 0) return nullptr;
  char* data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (tensor.data == nullptr && !has_no_elements(tensor)) {
    PyErr_SetString(PyExc_BufferError, "the memory has no address");
    return nullptr;
  }
  // An empty array may have no memory at all.
  bool is_empty = tensor.data == nullptr;
  PyObject* array = PyArray_NewFromDescr(
      &PyArray_Type, reinterpret_cast<PyArray_Descr*>(descr.release()), tensor.ndim, shape.data(),
      strides.empty() || is_empty ? nullptr : strides.data(), is_empty ? nullptr : data, 0,
      nullptr);
  if (array == nullptr) return nullptr;
  PyArrayObject* values = reinterpret_cast<PyArrayObject*>(array);
  PyArray_UpdateFlags(values, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  PyArray_CLEARFLAGS(values, NPY_ARRAY_WRITEABLE);
  if (!is_empty && PyArray_SetBaseObject(values, owner.release()) < 0) {
    Py_DECREF(array);
    return nullptr;
  }
  return Py_BuildValue("NO", array, copied ? Py_True : Py_False);
}

// from_dlpack(capsule, dtype_of)
PyObject* from_dlpack(PyObject*, PyObject* args) {
  PyObject *capsule, *dtype_of;
  if (!PyArg_ParseTuple(args, "OO", &capsule, &dtype_of)) return nullptr;
  if (PyCapsule_IsValid(capsule, ManagedVersioned::kName)) {
    return take<ManagedVersioned>(capsule, dtype_of);
  }
  if (PyCapsule_IsValid(capsule, Managed::kName)) return take<Managed>(capsule, dtype_of);
  PyErr_SetString(PyExc_TypeError, "this is not a DLPack capsule, or it was consumed before");
  return nullptr;
}

PyMethodDef functions[] = {
    {"to_dlpack", to_dlpack, METH_VARARGS, "Lend the memory of a NumPy array."},
    {"from_dlpack", from_dlpack, METH_VARARGS,
     "Return the memory in a capsule as a NumPy array, and whether it is a copy."},
    {nullptr},
};

}  // namespace

int add_dlpack(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
