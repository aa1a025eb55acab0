#include "eager/values.h"

#include "objects/numpy.h"
#include "waiting/exceptions.h"

namespace kiln {
namespace {

// The options last found not to be plain.
PyObject* other_options = nullptr;

bool copy(PyArrayObject* from, PyObject* memory) {
  PyArray_Descr* descr = PyArray_DESCR(from);
  Py_INCREF(descr);
  Ref view = Ref::own(PyArray_NewFromDescr(
      &PyArray_Type, descr, PyArray_NDIM(from), PyArray_DIMS(from), nullptr,
      reinterpret_cast<MemoryBlock*>(memory)->data, NPY_ARRAY_CARRAY, nullptr));
  return view && PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(view.get()), from) == 0;
}

}  // namespace

PyObject* plain_options = nullptr;

bool is_plain(PyObject* options) {
  if (options == nullptr) {
    dismiss_exception();
    return false;
  }
  if (options == other_options) return false;
  Ref kept = Ref::borrow(options);
  Ref plain = Ref::own(PyObject_GetAttrString(options, "plain_eager"));
  dismiss_exception();
  const bool found = plain.get() == Py_True;
  Py_XSETREF(found ? plain_options : other_options, kept.release());
  return found;
}

bool find_values_elsewhere(ArrayData* array, int type_number, size_t bytes, Values& values) {
  values.owner = values_of(array);
  // Keep the exception: an interrupt that arrives during the wait must not be lost.
  if (!values.owner) return false;
  if (!PyArray_CheckExact(values.owner.get())) return false;
  PyArrayObject* view = reinterpret_cast<PyArrayObject*>(values.owner.get());
  if (PyArray_TYPE(view) != type_number || static_cast<size_t>(PyArray_NBYTES(view)) != bytes) {
    return false;
  }
  if (!PyArray_ISCARRAY_RO(view)) {
    // Made contiguous once, for this operation and later ones.
    Ref memory = Ref::own(reinterpret_cast<PyObject*>(allocate(bytes)));
    if (!memory || !copy(view, memory.get())) {
      PyErr_Clear();
      return false;
    }
    if (array->host == values.owner.get()) Py_SETREF(array->host, Py_NewRef(memory.get()));
    values.pointer = reinterpret_cast<MemoryBlock*>(memory.get())->data;
    values.owner = std::move(memory);
    return true;
  }
  values.pointer = PyArray_DATA(view);
  return true;
}

}  // namespace kiln
