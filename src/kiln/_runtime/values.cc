#include "values.h"

#include "memory.h"
#include "numpy.h"
#include "state.h"

namespace kiln {
namespace {

// Options that were judged, and whether plans may run under them.
PyObject* judged_options = nullptr;
bool judged_plain = false;

bool copy(PyArrayObject* from, PyObject* memory) {
  PyArray_Descr* descr = PyArray_DESCR(from);
  Py_INCREF(descr);
  Ref view = Ref::own(
      PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(from), PyArray_DIMS(from), nullptr,
                           reinterpret_cast<Memory*>(memory)->data, NPY_ARRAY_CARRAY, nullptr));
  return view && PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(view.get()), from) == 0;
}

}  // namespace

bool may_run_eagerly() {
  if (thread_state.trace != nullptr) return false;
  PyObject* options = current_options();
  if (options == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (options == judged_options) return judged_plain;
  Ref kept = Ref::borrow(options);
  Ref plain = Ref::own(PyObject_GetAttrString(options, "plain_eager"));
  judged_plain = plain && plain.get() == Py_True;
  PyErr_Clear();
  Py_XSETREF(judged_options, kept.release());
  return judged_plain;
}

bool find_values(ArrayData* array, int type_number, size_t bytes, Values& values) {
  if (is_memory(array->host)) {
    if (reinterpret_cast<Memory*>(array->host)->bytes < bytes) return false;
    values.pointer = reinterpret_cast<Memory*>(array->host)->data;
    values.owner = Ref::borrow(array->host);
    return true;
  }
  values.owner = values_of(array);
  // An exception stays: an interrupt that strikes while we wait is not to be lost.
  if (!values.owner) return false;
  if (!PyArray_CheckExact(values.owner.get())) return false;
  PyArrayObject* view = reinterpret_cast<PyArrayObject*>(values.owner.get());
  if (PyArray_TYPE(view) != type_number || static_cast<size_t>(PyArray_NBYTES(view)) != bytes) {
    return false;
  }
  if (!PyArray_ISCARRAY_RO(view)) {
    // Spread out once, for this operation and those to come.
    Ref memory = Ref::own(reinterpret_cast<PyObject*>(allocate(bytes)));
    if (!memory || !copy(view, memory.get())) {
      PyErr_Clear();
      return false;
    }
    if (array->host == values.owner.get()) Py_SETREF(array->host, Py_NewRef(memory.get()));
    values.pointer = reinterpret_cast<Memory*>(memory.get())->data;
    values.owner = std::move(memory);
    return true;
  }
  values.pointer = PyArray_DATA(view);
  return true;
}

}  // namespace kiln
