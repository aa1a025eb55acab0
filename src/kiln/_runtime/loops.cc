#include "loops.h"

#include <cstring>

#include "kernels/level.h"
#include "numpy.h"

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

// Note what an operand of a type is; false if loops over such elements are left to NumPy.
bool describe(int type_number, int operand, LoopShape& shape) {
  if (!PyTypeNum_ISNUMBER(type_number) && type_number != NPY_BOOL) return false;
  PyArray_Descr* descr = PyArray_DescrFromType(type_number);
  if (descr == nullptr) {
    PyErr_Clear();
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

intptr_t bytes_of(char type) {
  switch (type) {
    case '?':
    case 'b':
    case 'B': return 1;
    case 'h':
    case 'H':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 'l':
    case 'L':
    case 'd':
    case 'F': return 8;
    default: return 16;
  }
}

// Our loops read and write elements wherever they are.
LoopShape shape_named(const char* name, char type, char result) {
  auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  bool is_selecting = is("select"), other_result = is("convert") || is("argmax") || is("argmin");
  bool is_unary = other_result || is("copy") || is("sign") || is("round_half_away");
  LoopShape shape;
  shape.operands = is_selecting || is("clamp") ? 4 : is_unary ? 2 : 3;
  shape.given = shape.operands - 1;
  for (int i = 0; i < shape.operands; ++i) {
    shape.items[i] = bytes_of(i == shape.given && other_result ? result : type);
    shape.aligned[i] = 1;
  }
  if (is_selecting) shape.items[0] = 1;
  return shape;
}

PyObject* loop_named(PyObject*, PyObject* args) {
  const char* name;
  int type, result;
  if (!PyArg_ParseTuple(args, "sCC", &name, &type, &result)) return nullptr;
  if (type > 127 || result > 127) Py_RETURN_NONE;
  StridedLoop found = nullptr;
#ifdef KILN_X86_64
  if (processor_level() == 4)
    found = strided_v4(name, static_cast<char>(type), static_cast<char>(result));
  else if (processor_level() == 3)
    found = strided_v3(name, static_cast<char>(type), static_cast<char>(result));
  else
#endif
    found = strided_baseline(name, static_cast<char>(type), static_cast<char>(result));
  if (found == nullptr) Py_RETURN_NONE;
  return make_loop(found, nullptr, nullptr,
                   shape_named(name, static_cast<char>(type), static_cast<char>(result)));
}

PyMethodDef functions[] = {
    {"loop_of_ufunc", loop_of_ufunc, METH_VARARGS,
     "Return NumPy's loop for types, given as characters, or None."},
    {"loop_named", loop_named, METH_VARARGS,
     "Return the loop of a name for a type and a type of result, or None."},
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
