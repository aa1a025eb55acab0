#include "arrays/array.h"

#include "arrays/memory.h"
#include "objects/numpy.h"

namespace kiln {

PyTypeObject* array_class = nullptr;
PyTypeObject* placed_class = nullptr;
PyObject* host_value_function = nullptr;
PyObject* lent_value_function = nullptr;

namespace {

// The memory of destroyed array objects, reused for new ones.
constexpr int kSpare = 256;
ArrayData* spare[kSpare];
int spares = 0;

// The ring of all arrays begins and ends here.
ArrayData ring;

void enter(ArrayData* array) {
  array->before = &ring;
  array->after = ring.after;
  ring.after->before = array;
  ring.after = array;
}

void leave(ArrayData* array) {
  array->before->after = array->after;
  array->after->before = array->before;
}

PyObject* array_new(PyTypeObject* type, PyObject*, PyObject*) {
  ArrayData* self = reinterpret_cast<ArrayData*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->aval = Py_NewRef(Py_None);
  self->host = Py_NewRef(Py_None);
  self->buffer = Py_NewRef(Py_None);
  self->memory = Py_NewRef(Py_None);
  self->sharding = Py_NewRef(Py_None);
  enter(self);
  return reinterpret_cast<PyObject*>(self);
}

int array_init(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"aval",     "host",      "buffer", "memory",
                                "sharding", "committed", nullptr};
  ArrayData* self = reinterpret_cast<ArrayData*>(object);
  if (!may_be_made(self->aval != Py_None, object)) return -1;
  PyObject *aval, *host, *buffer = Py_None, *memory = Py_None, *sharding = Py_None;
  int committed = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OOOp", const_cast<char**>(names), &aval, &host,
                                   &buffer, &memory, &sharding, &committed)) {
    return -1;
  }
  for (PyObject* part : {aval, host, buffer, memory, sharding}) {
    if (!PyObject_TypeCheck(part, &array_data_type)) continue;
    PyErr_SetString(PyExc_TypeError, "an array does not hold another array");
    return -1;
  }
  self->committed = static_cast<char>(committed);
  Py_XSETREF(self->aval, Py_NewRef(aval));
  Py_XSETREF(self->host, Py_NewRef(host));
  Py_XSETREF(self->buffer, Py_NewRef(buffer));
  Py_XSETREF(self->memory, Py_NewRef(memory));
  Py_XSETREF(self->sharding, Py_NewRef(sharding));
  return 0;
}

// Subclasses too: Python creates them, but its generic deallocation would cost as much as all the
// rest.
void array_dealloc(PyObject* object) {
  ArrayData* self = reinterpret_cast<ArrayData*>(object);
  PyTypeObject* type = Py_TYPE(object);
  bool is_ours = type == array_class || type == placed_class;
  if ((is_ours || PyType_IS_GC(type)) && PyObject_GC_IsTracked(object)) PyObject_GC_UnTrack(object);
  leave(self);
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->aval);
  Py_CLEAR(self->host);
  Py_CLEAR(self->buffer);
  Py_CLEAR(self->memory);
  Py_CLEAR(self->sharding);
  if (is_ours && spares < kSpare) {
    spare[spares++] = self;
    Py_DECREF(type);
    return;
  }
  type->tp_free(object);
  // For a subclass, the caller drops the reference to the subclass itself if this function belongs
  // to a static type.
  PyTypeObject* owner = type;
  while (owner->tp_dealloc != array_dealloc) owner = owner->tp_base;
  if (PyType_HasFeature(owner, Py_TPFLAGS_HEAPTYPE)) Py_DECREF(type);
}

PyMemberDef members[] = {
    {"aval", T_OBJECT_EX, offsetof(ArrayData, aval), READONLY, "The type: shape, dtype, weakness."},
    {"_buffer", T_OBJECT_EX, offsetof(ArrayData, buffer), READONLY, "A buffer, or None."},
    {"_memory", T_OBJECT_EX, offsetof(ArrayData, memory), READONLY,
     "The memory that holds the buffer, or None."},
    {"_sharding", T_OBJECT_EX, offsetof(ArrayData, sharding), READONLY,
     "The sharding it was placed with, or None."},
    {"_committed", T_BOOL, offsetof(ArrayData, committed), READONLY,
     "Whether it was placed on purpose."},
    {"_is_part", T_BOOL, offsetof(ArrayData, is_part), READONLY,
     "Whether its buffer is a shard of one on several devices."},
    {nullptr},
};

PyObject* set_array_classes(PyObject*, PyObject* args) {
  PyTypeObject *plain, *placed;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &plain, &PyType_Type, &placed)) return nullptr;
  for (PyTypeObject* type : {plain, placed}) {
    // An attribute dict would lie before the object, and no size accounts for it.
    if (!PyType_IsSubtype(type, &array_data_type) ||
        type->tp_basicsize != array_data_type.tp_basicsize || type->tp_dictoffset != 0 ||
        !PyType_IS_GC(type)) {
      PyErr_SetString(PyExc_TypeError, "arrays need subclasses of ArrayData without fields");
      return nullptr;
    }
  }
  while (spares > 0) PyObject_GC_Del(spare[--spares]);
  plain->tp_dealloc = placed->tp_dealloc = array_dealloc;
  Py_INCREF(plain);
  Py_XSETREF(array_class, plain);
  Py_INCREF(placed);
  Py_XSETREF(placed_class, placed);
  Py_RETURN_NONE;
}

PyObject* get_host(PyObject* self, void*) {
  return host_of(reinterpret_cast<ArrayData*>(self)).release();
}

PyGetSetDef fields[] = {
    {"_host", get_host, nullptr, "A read-only NumPy view of the values, or None.", nullptr},
    {nullptr},
};

// Other threads see fields that belong together change together.

// _data(): the view, the buffer and its memory.
PyObject* array_data(PyObject* self, PyObject*) {
  ArrayData* array = reinterpret_cast<ArrayData*>(self);
  Ref host = host_of(array);
  return host ? PyTuple_Pack(3, host.get(), array->buffer, array->memory) : nullptr;
}

// _settle(seen, buffer, memory, keeps_host)
PyObject* array_settle(PyObject* self, PyObject* args) {
  ArrayData* array = reinterpret_cast<ArrayData*>(self);
  PyObject *seen, *buffer, *memory;
  int keeps_host;
  if (!PyArg_ParseTuple(args, "OOOp", &seen, &buffer, &memory, &keeps_host)) return nullptr;
  bool is_gone = array->host == Py_None && array->buffer == Py_None;
  if (is_gone || array->buffer != seen) Py_RETURN_FALSE;
  if (PyObject_TypeCheck(buffer, &array_data_type) ||
      PyObject_TypeCheck(memory, &array_data_type)) {
    PyErr_SetString(PyExc_TypeError, "an array does not hold another array");
    return nullptr;
  }
  Ref old_buffer = Ref::own(std::exchange(array->buffer, Py_NewRef(buffer)));
  Ref old_memory = Ref::own(std::exchange(array->memory, Py_NewRef(memory)));
  Ref old_host;
  if (!keeps_host) old_host = Ref::own(std::exchange(array->host, Py_NewRef(Py_None)));
  Py_RETURN_TRUE;
}

// _note(buffer, host)
PyObject* array_note(PyObject* self, PyObject* args) {
  ArrayData* array = reinterpret_cast<ArrayData*>(self);
  PyObject *buffer, *host;
  if (!PyArg_ParseTuple(args, "OO", &buffer, &host)) return nullptr;
  if (PyObject_TypeCheck(host, &array_data_type)) {
    PyErr_SetString(PyExc_TypeError, "an array does not hold another array");
    return nullptr;
  }
  if (array->buffer == buffer && buffer != Py_None && array->host == Py_None) {
    Py_SETREF(array->host, Py_NewRef(host));
  }
  Py_RETURN_NONE;
}

PyObject* array_note_part(PyObject* self, PyObject*) {
  reinterpret_cast<ArrayData*>(self)->is_part = 1;
  Py_RETURN_NONE;
}

PyObject* array_let_go(PyObject* self, PyObject*) {
  ArrayData* array = reinterpret_cast<ArrayData*>(self);
  Ref host = Ref::own(std::exchange(array->host, Py_NewRef(Py_None)));
  Ref buffer = Ref::own(std::exchange(array->buffer, Py_NewRef(Py_None)));
  Py_RETURN_NONE;
}

PyMethodDef array_methods[] = {
    {"_data", array_data, METH_NOARGS,
     "Return a consistent snapshot: the view of the values, the buffer and its memory."},
    {"_settle", array_settle, METH_VARARGS,
     "Exchange the buffer that was seen for one in another memory with the same values, and keep "
     "the view or not; "
     "False if the array has another buffer by now, or was deleted."},
    {"_note", array_note, METH_VARARGS, "Keep the view of a buffer, if that is the array's still."},
    {"_note_part", array_note_part, METH_NOARGS,
     "Record that the buffer is a shard of one on several devices."},
    {"_let_go", array_let_go, METH_NOARGS, "Drop the values. Other owners keep them alive."},
    {nullptr},
};

// Exports the bytes of the NumPy view, because no buffer format describes bfloat16. Key arrays have
// no view.
int array_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  Ref aval = Ref::borrow(reinterpret_cast<ArrayData*>(self)->aval);
  Ref dtype = Ref::own(PyObject_GetAttrString(aval.get(), "dtype"));
  if (dtype && !PyArray_DescrCheck(dtype.get())) {
    PyErr_SetString(PyExc_BufferError, "random keys are not numbers");
  }
  if (PyErr_Occurred()) {
    view->obj = nullptr;
    return -1;
  }
  Ref host = call_held(lent_value_function, self);
  if (!host) {
    view->obj = nullptr;
    return -1;
  }
  return PyObject_GetBuffer(host.get(), view, flags);
}

PyBufferProcs array_buffer = {array_getbuffer, nullptr};

PyObject* set_host_value(PyObject*, PyObject* args) {
  PyObject *host_value, *lent_value;
  if (!PyArg_ParseTuple(args, "OO", &host_value, &lent_value)) return nullptr;
  Py_XSETREF(host_value_function, Py_NewRef(host_value));
  Py_XSETREF(lent_value_function, Py_NewRef(lent_value));
  Py_RETURN_NONE;
}

PyObject* live_arrays(PyObject*, PyObject*) {
  PyObject* found = PyList_New(0);
  for (ArrayData* array = ring.after; found != nullptr && array != &ring; array = array->after) {
    // An array being deallocated is still in the ring while its weak-reference callbacks run.
    if (Py_REFCNT(array) == 0) continue;
    // Growing the list may allocate but never runs user code, so the ring does not change
    // meanwhile.
    if (PyList_Append(found, reinterpret_cast<PyObject*>(array)) < 0) Py_CLEAR(found);
  }
  return found;
}

PyMethodDef functions[] = {
    {"live_arrays", live_arrays, METH_NOARGS, "Return all arrays there are, the newest first."},
    {"set_host_value", set_host_value, METH_VARARGS,
     "Set what returns the values of an array on the host, waiting for them; for buffers another "
     "function."},
    {"set_array_classes", set_array_classes, METH_VARARGS,
     "Set the classes of unplaced and placed arrays."},
    {nullptr},
};

}  // namespace

PyTypeObject array_data_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.ArrayData",
    .tp_basicsize = sizeof(ArrayData),
    .tp_dealloc = array_dealloc,
    .tp_as_number = &array_numbers,
    .tp_hash = PyObject_HashNotImplemented,
    .tp_as_buffer = &array_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The data of a concrete array.",
    .tp_richcompare = compare_arrays,
    .tp_weaklistoffset = offsetof(ArrayData, weakrefs),
    .tp_methods = array_methods,
    .tp_members = members,
    .tp_getset = fields,
    .tp_init = array_init,
    .tp_new = array_new,
};

Ref host_of(ArrayData* array) {
  if (!is_memory(array->host)) return Ref::borrow(array->host);
  Ref host = Ref::borrow(array->host), aval = Ref::borrow(array->aval);
  // An extended dtype, such as that of keys, is stored as a plain dtype.
  Ref physical = Ref::own(PyObject_CallMethod(aval.get(), "physical", nullptr));
  Ref dtype = physical ? Ref::own(PyObject_GetAttrString(physical.get(), "dtype")) : Ref();
  Ref shape = dtype ? Ref::own(PyObject_GetAttrString(aval.get(), "shape")) : Ref();
  if (!shape) return Ref();
  PyArray_Descr* descr;
  PyArray_Dims dims = {nullptr, 0};
  if (!PyArray_DescrConverter(dtype.get(), &descr)) return Ref();
  bool has_objects = PyDataType_REFCHK(descr);
  if (has_objects || !PyArray_IntpConverter(shape.get(), &dims)) {
    if (has_objects) {
      PyErr_SetString(PyExc_TypeError, "memory of an array does not hold Python objects");
    }
    Py_DECREF(descr);
    return Ref();
  }
  MemoryBlock* memory = reinterpret_cast<MemoryBlock*>(host.get());
  Ref view =
      Ref::own(PyArray_NewFromDescr(&PyArray_Type, descr, dims.len, dims.ptr, nullptr, memory->data,
                                    NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED, nullptr));
  PyDimMem_FREE(dims.ptr);
  if (!view) return Ref();
  PyArrayObject* values = reinterpret_cast<PyArrayObject*>(view.get());
  if (static_cast<size_t>(PyArray_NBYTES(values)) > memory->bytes) {
    PyErr_Format(PyExc_ValueError, "an array of type %R has %zu bytes of memory", aval.get(),
                 memory->bytes);
    return Ref();
  }
  if (PyArray_SetBaseObject(values, Py_NewRef(host.get())) < 0) return Ref();
  // Python code ran: the array may have a different view by now, or none.
  if (array->host == host.get()) Py_SETREF(array->host, Py_NewRef(view.get()));
  return view;
}

Ref values_waited_for(ArrayData* array) {
  return call_held(host_value_function, reinterpret_cast<PyObject*>(array));
}

namespace {

// Make an array of a class without its data.
ArrayData* make(PyTypeObject* type) {
  ArrayData* self;
  if (type == nullptr) {
    PyErr_SetString(PyExc_RuntimeError,
                    "kiln._runtime has no class of arrays yet: import kiln first");
    return nullptr;
  }
  if (spares > 0) {
    self = spare[--spares];
    PyObject_Init(reinterpret_cast<PyObject*>(self), type);
    self->weakrefs = nullptr;
  } else {
    self = reinterpret_cast<ArrayData*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    // An array is never part of a reference cycle, so the garbage collector need not track it.
    PyObject_GC_UnTrack(self);
  }
  self->is_part = 0;
  enter(self);
  return self;
}

}  // namespace

Ref make_array(PyObject* aval, PyObject* host, PyObject* buffer, PyObject* memory) {
  ArrayData* self = make(array_class);
  if (self == nullptr) return Ref();
  self->aval = Py_NewRef(aval);
  self->host = Py_NewRef(host);
  self->buffer = Py_NewRef(buffer);
  self->memory = Py_NewRef(memory);
  self->sharding = Py_NewRef(Py_None);
  self->committed = 0;
  return Ref::own(reinterpret_cast<PyObject*>(self));
}

Ref make_placed(PyObject* aval, PyObject* host, PyObject* buffer, PyObject* memory,
                PyObject* sharding, bool committed) {
  ArrayData* self = make(placed_class);
  if (self == nullptr) return Ref();
  self->aval = Py_NewRef(aval);
  self->host = Py_NewRef(host);
  self->buffer = Py_NewRef(buffer);
  self->memory = Py_NewRef(memory);
  self->sharding = Py_NewRef(sharding);
  self->committed = committed;
  return Ref::own(reinterpret_cast<PyObject*>(self));
}

int add_array(PyObject* module) {
  ring.before = ring.after = &ring;
  if (add_type(module, &array_data_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
