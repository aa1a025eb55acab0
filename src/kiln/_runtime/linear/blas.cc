#include "blas.h"

#include <string>
#include <vector>

#include "../object.h"

namespace kiln {

Routines all_routines[4];
bool has_routines = false;

namespace {

struct Named {
  const char* real;
  const char* complex;
  void* Routines::* routine;
};

constexpr Named kRoutines[] = {
    {"gemm", "gemm", &Routines::gemm},    {"gemv", "gemv", &Routines::gemv},
    {"trsm", "trsm", &Routines::trsm},    {"potrf", "potrf", &Routines::potrf},
    {"getrf", "getrf", &Routines::getrf}, {"geqrf", "geqrf", &Routines::geqrf},
    {"geqp3", "geqp3", &Routines::geqp3}, {"orgqr", "ungqr", &Routines::orgqr},
    {"syevd", "heevd", &Routines::syevd}, {"gesdd", "gesdd", &Routines::gesdd},
    {"gesvd", "gesvd", &Routines::gesvd}, {"geev", "geev", &Routines::geev},
};

std::string name_of(const Named& named, int type) {
  return std::string(1, "sdcz"[type]) + (type < 2 ? named.real : named.complex);
}

PyObject* blas_names(PyObject*, PyObject*) {
  Ref names = Ref::own(PyList_New(0));
  if (!names) return nullptr;
  for (int type = 0; type < 4; ++type) {
    for (const Named& named : kRoutines) {
      Ref name = Ref::own(PyUnicode_FromString(name_of(named, type).c_str()));
      if (!name || PyList_Append(names.get(), name.get()) < 0) return nullptr;
    }
  }
  return names.release();
}

PyObject* set_blas(PyObject*, PyObject* addresses) {
  if (!PyDict_Check(addresses)) {
    PyErr_SetString(PyExc_TypeError, "set_blas takes a dict of addresses by name");
    return nullptr;
  }
  Routines found[4];
  for (int type = 0; type < 4; ++type) {
    for (const Named& named : kRoutines) {
      std::string name = name_of(named, type);
      PyObject* address = PyDict_GetItemString(addresses, name.c_str());
      void* routine = address == nullptr ? nullptr : PyLong_AsVoidPtr(address);
      if (PyErr_Occurred()) return nullptr;
      if (routine == nullptr) {
        PyErr_Format(PyExc_ValueError, "set_blas was given no address of %s", name.c_str());
        return nullptr;
      }
      found[type].*named.routine = routine;
    }
  }
  for (int type = 0; type < 4; ++type) all_routines[type] = found[type];
  has_routines = true;
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"blas_names", blas_names, METH_NOARGS,
     "Return the names of the routines that kernels call, as BLAS and LAPACK spell them."},
    {"set_blas", set_blas, METH_O, "Set the addresses of all routines of `blas_names`, by name."},
    {nullptr},
};

}  // namespace

int add_blas(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
