#include "native.h"

#include "array.h"
#include "memory.h"
#include "operands.h"

namespace kiln {
namespace {

// Programs on less data than this are over before another thread could take the lock.
constexpr size_t kLetOthersRun = 1 << 16;

size_t total(const std::vector<ValueType>& types) {
  size_t sum = 0;
  for (const ValueType& type : types) sum += type.bytes;
  return sum;
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
  self->operands = new std::vector<ValueType>();
  self->results = new std::vector<ValueType>();
  if (!read_value_types(operands, *self->operands) || !read_value_types(results, *self->results)) {
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

void native_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, native_dealloc)
  Py_CLEAR(reinterpret_cast<Native*>(self)->owner);
  delete reinterpret_cast<Native*>(self)->operands;
  delete reinterpret_cast<Native*>(self)->results;
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
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
    .tp_new = native_new,
};

Ref run_native(Native* native, PyObject* const* args, Py_ssize_t count, PyObject* out_avals) {
  size_t taken = native->operands->size(), made = native->results->size();
  if (static_cast<size_t>(count) != taken ||
      static_cast<size_t>(PyTuple_GET_SIZE(out_avals)) != made) {
    PyErr_Format(
        PyExc_TypeError,
        "a compiled function of %zu operands and %zu results was given %zd and asked for %zd",
        taken, made, count, PyTuple_GET_SIZE(out_avals));
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
    results[i] = reinterpret_cast<MemoryBlock*>(memory.get())->data;
    Ref array = make_array(PyTuple_GET_ITEM(out_avals, static_cast<Py_ssize_t>(i)), memory.get(),
                           Py_None, Py_None);
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

int add_native(PyObject* module) { return add_type(module, &native_type); }

}  // namespace kiln
