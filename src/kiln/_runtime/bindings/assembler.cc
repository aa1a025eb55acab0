// The assembler for Python.
#include "assembler/assembler.h"

#include <new>

#include "objects/object.h"

namespace kiln {
namespace {

// assemble_text(text) -> object file as bytes, or as str the part of the text that is not
// supported.
PyObject* assemble_text(PyObject*, PyObject* argument) {
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(argument, &size);
  if (text == nullptr) return nullptr;
  std::string refusal;
  try {
    const std::string object = assembler::assemble({text, static_cast<size_t>(size)}, refusal);
    if (!object.empty()) {
      return PyBytes_FromStringAndSize(object.data(), static_cast<Py_ssize_t>(object.size()));
    }
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  return PyUnicode_FromStringAndSize(refusal.data(), static_cast<Py_ssize_t>(refusal.size()));
}

PyMethodDef functions[] = {
    {"assemble_text", assemble_text, METH_O,
     "Assemble a module of LLVM IR for x86-64-v4; return the object file, or why it is not "
     "supported."},
    {nullptr},
};

}  // namespace

int add_assembler(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
