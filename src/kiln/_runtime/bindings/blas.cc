// Loading BLAS and LAPACK from Python.
#include "linear/blas.h"

#include "objects/object.h"

namespace kiln {
namespace {

PyObject* load_blas(PyObject*, PyObject* args) {
  PyObject* given = nullptr;
  const char *prefix, *suffix;
  if (!PyArg_ParseTuple(args, "O&ss", PyUnicode_FSConverter, &given, &prefix, &suffix)) {
    return nullptr;
  }
  Ref path = Ref::own(given);
  std::string failure;
  if (load_routines(PyBytes_AS_STRING(given), prefix, suffix, failure)) Py_RETURN_NONE;
  PyErr_Format(PyExc_OSError, "%s", failure.c_str());  // a path may not be UTF-8
  return nullptr;
}

PyMethodDef functions[] = {
    {"load_blas", load_blas, METH_VARARGS,
     "Load a library at a path, and take the routines that kernels call from it, with a prefix and "
     "a suffix to the names that BLAS and LAPACK give them."},
    {nullptr},
};

}  // namespace

int add_blas(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
