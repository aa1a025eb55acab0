// Python functions about processors: `machine/`.
#include "machine/processors.h"

#include "machine/features.h"
#include "objects/object.h"

namespace kiln {
namespace {

PyObject* python_quota(PyObject*, PyObject* given) {
  const char* root = PyUnicode_AsUTF8(given);
  return root == nullptr ? nullptr : PyLong_FromLong(processor_quota(root));
}

PyObject* python_features(PyObject*, PyObject*) {
  Ref found = Ref::own(PyDict_New());
  if (!found) return nullptr;
  for (const auto& [name, is_there] : processor_features()) {
    if (PyDict_SetItemString(found.get(), name, is_there ? Py_True : Py_False) < 0) return nullptr;
  }
  return found.release();
}

PyObject* python_processors(PyObject*, PyObject*) { return PyLong_FromLong(processors()); }

PyMethodDef functions[] = {
    {"processors", python_processors, METH_NOARGS,
     "Return how many processors the process may use."},
    {"processor_quota", python_quota, METH_O,
     "Return the processor quota of the control groups described under a root; 0: any "
     "number."},
    {"processor_features", python_features, METH_NOARGS,
     "Return whether the processor has each feature that code may need, by LLVM's names."},
    {nullptr},
};

}  // namespace

int add_processors(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
