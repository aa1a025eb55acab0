// The extension module `kiln._runtime`: the parts of kiln that run on every call.
#include "object.h"

namespace {

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "kiln._runtime",
    "The parts of kiln that run on every call.",
    -1,
};

}  // namespace

PyMODINIT_FUNC PyInit__runtime(void) {
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  if (kiln::add_state(module) < 0 || kiln::add_tree(module) < 0 || kiln::add_array(module) < 0 ||
      kiln::add_program(module) < 0 || kiln::add_call(module) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
