#include "linear/blas.h"

#include <dlfcn.h>

#include <string>

#include "objects/object.h"

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

// The library stays loaded. Its symbols are bound lazily: most of its thousands are never used.
PyObject* load_blas(PyObject*, PyObject* args) {
  PyObject* given = nullptr;
  const char *prefix, *suffix;
  if (!PyArg_ParseTuple(args, "O&ss", PyUnicode_FSConverter, &given, &prefix, &suffix)) {
    return nullptr;
  }
  Ref owned = Ref::own(given);
  const char* path = PyBytes_AS_STRING(given);
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    PyErr_SetString(PyExc_OSError, dlerror());
    return nullptr;
  }
  Routines found[4];
  for (int type = 0; type < 4; ++type) {
    for (const Named& named : kRoutines) {
      std::string name = prefix + name_of(named, type) + suffix;
      void* routine = dlsym(library, name.c_str());
      if (routine == nullptr) {
        PyErr_Format(PyExc_OSError, "%s has no routine %s", path, name.c_str());
        return nullptr;
      }
      found[type].*named.routine = routine;
    }
  }
  // Another package may have loaded it before, with its own threads.
  void* threads = dlsym(library, (std::string(prefix) + "openblas_set_num_threads").c_str());
  if (threads != nullptr) reinterpret_cast<void (*)(int)>(threads)(1);
  for (int type = 0; type < 4; ++type) all_routines[type] = found[type];
  has_routines = true;
  Py_RETURN_NONE;
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
