#include "native.h"

#include <complex>
#include <cstring>

#include "array.h"
#include "memory.h"
#include "numpy.h"

namespace kiln {
namespace {

// Programs on less data than this are over before another thread could take the lock.
constexpr size_t kLetOthersRun = 1 << 16;

// Where the operands of one call lie, and what must live until it is over.
class Operands {
 public:
  explicit Operands(size_t count) : pointers_(inline_), scalars_(inline_scalars_), held_(inline_held_) {
    if (count > kInline) {
      heap_.resize(count);
      heap_scalars_.resize(count);
      heap_held_.resize(count);
      pointers_ = heap_.data();
      scalars_ = heap_scalars_.data();
      held_ = heap_held_.data();
    }
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  bool add(PyObject* object, const Layout& layout) {
    if (is_array(object)) {
      ArrayData* array = reinterpret_cast<ArrayData*>(object);
      if (is_memory(array->host)) {
        pointers_[size_++] = reinterpret_cast<Memory*>(array->host)->data;
        hold(array->host);
        return true;
      }
      if (array->host != Py_None) return add_numpy(array->host, layout);
      Ref host = Ref::own(PyObject_CallOneArg(host_value_function, object));
      return host && add_numpy(host.get(), layout);
    }
    if (PyFloat_CheckExact(object)) return add_float(PyFloat_AS_DOUBLE(object), layout);
    if (PyArray_CheckExact(object)) return add_numpy(object, layout);
    if (PyLong_Check(object)) return add_int(object, layout);
    return convert(object, layout);
  }

  ~Operands() {
    for (size_t i = 0; i < held_count_; ++i) Py_DECREF(held_[i]);
  }

  const void* const* pointers() const { return pointers_; }

 private:
  static constexpr size_t kInline = 16;
  struct alignas(16) Scalar {
    char bytes[16];
  };

  template <typename T>
  bool store(T value) {
    std::memcpy(scalars_[size_].bytes, &value, sizeof value);
    pointers_[size_] = scalars_[size_].bytes;
    ++size_;
    return true;
  }

  bool add_float(double value, const Layout& layout) {
    switch (layout.type_number) {
      case NPY_FLOAT32:
        return store(static_cast<float>(value));
      case NPY_FLOAT64:
        return store(value);
    }
    Ref number = Ref::own(PyFloat_FromDouble(value));
    return number && convert(number.get(), layout);
  }

  bool add_int(PyObject* object, const Layout& layout) {
    long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) return false;
    switch (layout.type_number) {
      case NPY_BOOL:
        return store(static_cast<char>(value != 0));
      case NPY_INT32:
        if (value != static_cast<int32_t>(value)) {
          PyErr_Format(PyExc_OverflowError, "the integer %lld does not fit int32", value);
          return false;
        }
        return store(static_cast<int32_t>(value));
      case NPY_INT64:
        return store(static_cast<int64_t>(value));
    }
    return convert(object, layout);
  }

  void hold(PyObject* object) { held_[held_count_++] = Py_NewRef(object); }

  bool add_numpy(PyObject* object, const Layout& layout) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
    bool as_it_is = PyArray_TYPE(array) == layout.type_number && PyArray_ISCARRAY_RO(array);
    if (!as_it_is) return convert(object, layout);
    if (static_cast<size_t>(PyArray_NBYTES(array)) != layout.bytes) return wrong_size(object, layout);
    pointers_[size_++] = PyArray_DATA(array);
    hold(object);
    return true;
  }

  bool convert(PyObject* object, const Layout& layout) {
    if (!PyArray_Check(object) && !PyArray_CheckScalar(object) && !PyComplex_Check(object) && !PyFloat_Check(object) &&
        !PyLong_Check(object)) {
      PyErr_Format(PyExc_TypeError, "a compiled function takes arrays and numbers, not a %.100s", Py_TYPE(object)->tp_name);
      return false;
    }
    PyArray_Descr* descr = PyArray_DescrFromType(layout.type_number);
    if (descr == nullptr) return false;
    Ref array = Ref::own(PyArray_FromAny(object, descr, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST, nullptr));
    if (!array) return false;
    PyArrayObject* made = reinterpret_cast<PyArrayObject*>(array.get());
    if (static_cast<size_t>(PyArray_NBYTES(made)) != layout.bytes) return wrong_size(object, layout);
    pointers_[size_++] = PyArray_DATA(made);
    hold(array.get());
    return true;
  }

  bool wrong_size(PyObject* object, const Layout& layout) {
    PyErr_Format(PyExc_TypeError, "a compiled function takes %zu bytes, not a %.100s of another size", layout.bytes,
                 Py_TYPE(object)->tp_name);
    return false;
  }

  const void** pointers_;
  Scalar* scalars_;
  size_t size_ = 0;
  const void* inline_[kInline];
  Scalar inline_scalars_[kInline];
  std::vector<const void*> heap_;
  std::vector<Scalar> heap_scalars_;
  PyObject** held_;  // at most one for each operand
  size_t held_count_ = 0;
  PyObject* inline_held_[kInline];
  std::vector<PyObject*> heap_held_;
};

size_t total(const std::vector<Layout>& layouts) {
  size_t sum = 0;
  for (const Layout& layout : layouts) sum += layout.bytes;
  return sum;
}

bool read_layouts(PyObject* given, std::vector<Layout>& layouts) {
  Ref items = Ref::own(PySequence_Fast(given, "layouts are a sequence of pairs of a dtype and bytes"));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    PyArray_Descr* descr = nullptr;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), i), "O&n", PyArray_DescrConverter, &descr, &bytes)) {
      return false;
    }
    layouts.push_back(Layout{descr->type_num, static_cast<size_t>(bytes)});
    Py_DECREF(descr);
  }
  return true;
}

PyObject* native_new(PyTypeObject* type, PyObject* args, PyObject*) {
  unsigned long long address;
  PyObject *operands, *results, *owner = Py_None;
  if (!PyArg_ParseTuple(args, "KOO|O", &address, &operands, &results, &owner)) return nullptr;
  if (address == 0) {
    PyErr_SetString(PyExc_ValueError, "a compiled function has an address");
    return nullptr;
  }
  Native* self = reinterpret_cast<Native*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->function = reinterpret_cast<Function>(address);
  self->owner = Py_NewRef(owner);
  self->operands = new std::vector<Layout>();
  self->results = new std::vector<Layout>();
  if (!read_layouts(operands, *self->operands) || !read_layouts(results, *self->results)) {
    Py_DECREF(self);
    return nullptr;
  }
  self->is_long = total(*self->operands) + total(*self->results) >= kLetOthersRun;
  return reinterpret_cast<PyObject*>(self);
}

int native_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(reinterpret_cast<Native*>(self)->owner);
  return 0;
}

int native_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Native*>(self)->owner);
  return 0;
}

void native_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  native_clear(self);
  delete reinterpret_cast<Native*>(self)->operands;
  delete reinterpret_cast<Native*>(self)->results;
  Py_TYPE(self)->tp_free(self);
}

}  // namespace

PyTypeObject native_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Native",
    .tp_basicsize = sizeof(Native),
    .tp_dealloc = native_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A compiled function called by its address.",
    .tp_traverse = native_traverse,
    .tp_clear = native_clear,
    .tp_new = native_new,
};

Ref run_native(Native* native, PyObject* const* args, Py_ssize_t count, PyObject* out_avals) {
  size_t taken = native->operands->size(), made = native->results->size();
  if (static_cast<size_t>(count) != taken || static_cast<size_t>(PyList_GET_SIZE(out_avals)) != made) {
    PyErr_Format(PyExc_TypeError, "a compiled function of %zu operands and %zu results was given %zd and asked for %zd",
                 taken, made, count, PyList_GET_SIZE(out_avals));
    return Ref();
  }
  Operands operands(taken);
  for (size_t i = 0; i < taken; ++i) {
    if (!operands.add(args[i], (*native->operands)[i])) return Ref();
  }
  Ref arrays = Ref::own(PyList_New(static_cast<Py_ssize_t>(made)));
  if (!arrays) return arrays;
  constexpr size_t kInline = 16;
  void* inline_results[kInline];
  std::vector<void*> heap(made > kInline ? made : 0);
  void** results = made > kInline ? heap.data() : inline_results;
  for (size_t i = 0; i < made; ++i) {
    Ref memory = Ref::own(reinterpret_cast<PyObject*>(allocate((*native->results)[i].bytes)));
    if (!memory) return Ref();
    results[i] = reinterpret_cast<Memory*>(memory.get())->data;
    Ref array = make_array(PyList_GET_ITEM(out_avals, static_cast<Py_ssize_t>(i)), memory.get(), Py_None, Py_None);
    if (!array) return array;
    PyList_SET_ITEM(arrays.get(), static_cast<Py_ssize_t>(i), array.release());
  }
  if (!native->is_long) {
    native->function(operands.pointers(), results);
  } else {
    Function function = native->function;
    const void* const* pointers = operands.pointers();
    Py_BEGIN_ALLOW_THREADS
    function(pointers, results);
    Py_END_ALLOW_THREADS
  }
  return arrays;
}

int add_native(PyObject* module) {
  return add_type(module, &native_type);
}

}  // namespace kiln
