#include "abi/symbols.h"

#include <vector>

#include "objects/object.h"

namespace kiln {
namespace {

std::vector<Symbol>& registered() {
  static std::vector<Symbol> all;
  return all;
}

PyObject* native_symbols(PyObject*, PyObject*) {
  Ref names = Ref::own(PyDict_New());
  if (!names) return nullptr;
  for (const Symbol& symbol : registered()) {
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

Symbols::Symbols(std::initializer_list<Symbol> symbols) {
  registered().insert(registered().end(), symbols);
}

int add_symbols(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
