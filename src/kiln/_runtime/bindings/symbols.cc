// The symbols of compiled code for Python: the engine links programs to them.
#include "abi/symbols.h"

#include "objects/object.h"

namespace kiln {
namespace {

PyObject* native_symbols(PyObject*, PyObject*) {
  Ref names = Ref::own(PyDict_New());
  if (!names) return nullptr;
  for (const Symbol& symbol : all_symbols()) {
    Ref address = Ref::own(PyLong_FromVoidPtr(symbol.address));
    if (!address || PyDict_SetItemString(names.get(), symbol.name, address.get()) < 0) {
      return nullptr;
    }
  }
  return names.release();
}

PyMethodDef functions[] = {
    {"native_symbols", native_symbols, METH_NOARGS,
     "Return the addresses of the functions that compiled code calls, by name."},
    {nullptr},
};

}  // namespace

int add_symbols(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
