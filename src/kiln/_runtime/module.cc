// The extension module `kiln._runtime`: the parts of kiln that run on every call.
#define KILN_IMPORTS_NUMPY
#include "objects/numpy.h"
#include "objects/object.h"

namespace kiln {

// Each part adds its types and functions to the module; -1 with an exception set on failure.
int add_array(PyObject* module);
int add_assembler(PyObject* module);
int add_blas(PyObject* module);
int add_call(PyObject* module);
int add_contexts(PyObject* module);
int add_debugger(PyObject* module);
int add_dlpack(PyObject* module);
int add_eager(PyObject* module);
int add_evidence(PyObject* module);
int add_exceptions(PyObject* module);
int add_files(PyObject* module);
int add_launcher(PyObject* module);
int add_loops(PyObject* module);
int add_memory(PyObject* module);
int add_native(PyObject* module);
int add_object_file(PyObject* module);
int add_operators(PyObject* module);
int add_placed(PyObject* module);
int add_plan(PyObject* module);
int add_pool(PyObject* module);
int add_processors(PyObject* module);
int add_program(PyObject* module);
int add_schedule(PyObject* module);
int add_state(PyObject* module);
int add_symbols(PyObject* module);
int add_tree(PyObject* module);
int add_tree_def(PyObject* module);
int add_tree_keys(PyObject* module);
int add_tree_nodes(PyObject* module);
int add_launch_lock(PyObject* module);
int add_waiting(PyObject* module);
int add_weak_table(PyObject* module);

}  // namespace kiln

namespace {

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "kiln._runtime",
    "The parts of kiln that run on every call.",
    -1,
};

}  // namespace

PyMODINIT_FUNC PyInit__runtime(void) {
  import_array();
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  for (auto add :
       {kiln::add_state,      kiln::add_contexts,    kiln::add_tree_keys, kiln::add_tree_nodes,
        kiln::add_tree,       kiln::add_tree_def,    kiln::add_memory,    kiln::add_array,
        kiln::add_native,     kiln::add_launcher,    kiln::add_program,   kiln::add_placed,
        kiln::add_call,       kiln::add_operators,   kiln::add_dlpack,    kiln::add_loops,
        kiln::add_plan,       kiln::add_schedule,    kiln::add_eager,     kiln::add_waiting,
        kiln::add_exceptions, kiln::add_symbols,     kiln::add_pool,      kiln::add_processors,
        kiln::add_blas,       kiln::add_object_file, kiln::add_debugger,  kiln::add_assembler,
        kiln::add_weak_table, kiln::add_evidence,    kiln::add_files,     kiln::add_launch_lock}) {
    if (add(module) < 0) {
      Py_DECREF(module);
      return nullptr;
    }
  }
  return module;
}
