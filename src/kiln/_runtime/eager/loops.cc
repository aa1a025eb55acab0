#include "eager/loops.h"

#include <cstring>

#include "objects/numpy.h"

#include <numpy/ufuncobject.h>

namespace kiln {
namespace {

void loop_dealloc(PyObject* object) {
  Py_XDECREF(reinterpret_cast<Loop*>(object)->owner);
  delete reinterpret_cast<Loop*>(object)->shape;
  Py_TYPE(object)->tp_free(object);
}

PyObject* make_loop(StridedLoop found, void* data, PyObject* owner, LoopShape shape) {
  Loop* made = reinterpret_cast<Loop*>(loop_type.tp_alloc(&loop_type, 0));
  if (made == nullptr) return nullptr;
  made->loop = found;
  made->data = data;
  made->owner = Py_XNewRef(owner);
  made->shape = new LoopShape(std::move(shape));
  return reinterpret_cast<PyObject*>(made);
}

PyObject* ufunc_class = nullptr;

// Record the properties of an operand type, given by NumPy's type number or character; false if
// loops over such elements are left to NumPy.
bool describe(int type, int operand, LoopShape& shape) {
  PyArray_Descr* descr = PyArray_DescrFromType(type);
  if (descr == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (!PyTypeNum_ISNUMBER(descr->type_num) && descr->type_num != NPY_BOOL) {
    Py_DECREF(descr);
    return false;
  }
  shape.items[operand] = PyDataType_ELSIZE(descr);
  shape.aligned[operand] = PyDataType_ALIGNMENT(descr);
  Py_DECREF(descr);
  return true;
}

PyObject* loop_of_ufunc(PyObject*, PyObject* args) {
  PyObject* given;
  const char* types;
  if (!PyArg_ParseTuple(args, "Os", &given, &types)) return nullptr;
  if (reinterpret_cast<PyObject*>(Py_TYPE(given)) != ufunc_class) Py_RETURN_NONE;
  PyUFuncObject* ufunc = reinterpret_cast<PyUFuncObject*>(given);
  if (static_cast<int>(std::strlen(types)) != ufunc->nargs || ufunc->nargs > kMostOperands) {
    Py_RETURN_NONE;
  }
  for (int i = 0; i < ufunc->ntypes; ++i) {
    bool fits = true;
    LoopShape shape;
    shape.operands = ufunc->nargs;
    shape.given = ufunc->nin;
    for (int j = 0; j < ufunc->nargs; ++j) {
      int type_number = ufunc->types[i * ufunc->nargs + j];
      PyArray_Descr* descr = PyArray_DescrFromType(type_number);
      if (descr == nullptr) return nullptr;
      fits = fits && descr->type == types[j] && describe(type_number, j, shape);
      Py_DECREF(descr);
    }
    if (!fits || ufunc->functions[i] == nullptr) continue;
    static_assert(sizeof(npy_intp) == sizeof(intptr_t));
    if (ufunc->core_enabled) {
      shape.core_sizes = ufunc->core_num_dim_ix;
      for (int j = 0; j < ufunc->nargs; ++j) {
        for (int axis = 0; axis < ufunc->core_num_dims[j]; ++axis) {
          shape.core_axes.push_back({j, ufunc->core_dim_ixs[ufunc->core_offsets[j] + axis]});
        }
      }
    }
    return make_loop(reinterpret_cast<StridedLoop>(ufunc->functions[i]),
                     ufunc->data == nullptr
                         ? nullptr
                         : const_cast<void*>(static_cast<const void*>(ufunc->data[i])),
                     given, std::move(shape));
  }
  Py_RETURN_NONE;
}

PyObject* loop_named(PyObject*, PyObject* args) {
  const char *name, *types;
  if (!PyArg_ParseTuple(args, "ss", &name, &types)) return nullptr;
  StridedLoop found = Registry::here().find(name, types);
  if (found == nullptr) Py_RETURN_NONE;
  LoopShape shape;
  shape.operands = static_cast<int>(std::strlen(types));
  shape.given = shape.operands - 1;
  for (int i = 0; i < shape.operands; ++i) {
    if (!describe(types[i], i, shape)) Py_RETURN_NONE;
    // Our loops read and write elements at any address, aligned or not.
    shape.aligned[i] = 1;
  }
  return make_loop(found, nullptr, nullptr, std::move(shape));
}

PyMethodDef functions[] = {
    {"loop_of_ufunc", loop_of_ufunc, METH_VARARGS,
     "Return NumPy's loop for types, given as characters, or None."},
    {"loop_named", loop_named, METH_VARARGS,
     "Return our loop with a name, for types given as characters, or None."},
    {nullptr},
};

}  // namespace

PyTypeObject loop_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Loop",
    .tp_basicsize = sizeof(Loop),
    .tp_dealloc = loop_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A compiled loop over strided operands.",
};

int add_loops(PyObject* module) {
  Ref numpy = Ref::own(PyImport_ImportModule("numpy"));
  ufunc_class = numpy ? PyObject_GetAttrString(numpy.get(), "ufunc") : nullptr;
  if (ufunc_class == nullptr || add_type(module, &loop_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
