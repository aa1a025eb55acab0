// The assembler for Python.
#include "assembler/assembler.h"

#include <new>

#include "objects/object.h"

namespace kiln {
namespace {

// assemble_text(text, level) -> object file as bytes, or as str the part of the text that is not
// supported.
PyObject* assemble_text(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "assemble_text takes a text and a level");
    return nullptr;
  }
  std::string_view given[2];
  for (int i = 0; i < 2; ++i) {
    Py_ssize_t size;
    const char* text = PyUnicode_AsUTF8AndSize(arguments[i], &size);
    if (text == nullptr) return nullptr;
    given[i] = {text, static_cast<size_t>(size)};
  }
  std::string refusal;
  try {
    const std::string object = assembler::assemble(given[0], given[1], refusal);
    if (!object.empty()) {
      return PyBytes_FromStringAndSize(object.data(), static_cast<Py_ssize_t>(object.size()));
    }
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  return PyUnicode_FromStringAndSize(refusal.data(), static_cast<Py_ssize_t>(refusal.size()));
}

PyMethodDef functions[] = {
    {"assemble_text", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(assemble_text)),
     METH_FASTCALL,
     "Assemble a module of LLVM IR for \"x86-64-v3\" or \"x86-64-v4\"; return the object file, or "
     "why it is not supported."},
    {nullptr},
};

}  // namespace

int add_assembler(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
