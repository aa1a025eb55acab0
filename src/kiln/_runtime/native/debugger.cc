// What debuggers know about compiled code: gdb's JIT interface. gdb and lldb stop at
// `__jit_debug_register_code` and read `__jit_debug_descriptor`, by these names.
#include <cstdint>
#include <string>

#include "objects/object.h"

// LLVM's library defines the same names: calls must not be bound to those.
#ifdef __ELF__
#define KILN_SEEN_BY_DEBUGGERS gnu::visibility("protected"), gnu::used
#else
#define KILN_SEEN_BY_DEBUGGERS gnu::visibility("default"), gnu::used
#endif

extern "C" {

struct jit_code_entry {
  jit_code_entry* next;
  jit_code_entry* previous;
  const char* image;
  uint64_t size;
};

struct jit_descriptor {
  uint32_t version;
  uint32_t action;
  jit_code_entry* relevant;
  jit_code_entry* first;
};

[[KILN_SEEN_BY_DEBUGGERS]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};

[[KILN_SEEN_BY_DEBUGGERS, gnu::noinline]] void __jit_debug_register_code() {
  // Otherwise the compiler would eliminate the call.
  asm volatile("" ::: "memory");
}
}

namespace kiln {
namespace {

constexpr uint32_t kRegister = 1, kUnregister = 2;

// An object file with symbols, in the list that debuggers read.
struct Registered {
  jit_code_entry entry;
  std::string image;
};

void announce(jit_code_entry* entry, uint32_t action) {
  __jit_debug_descriptor.relevant = entry;
  __jit_debug_descriptor.action = action;
  __jit_debug_register_code();
}

// The GIL guards the list.
void forget(PyObject* capsule) {
  auto* held = static_cast<Registered*>(PyCapsule_GetPointer(capsule, nullptr));
  jit_code_entry& entry = held->entry;
  (entry.previous == nullptr ? __jit_debug_descriptor.first : entry.previous->next) = entry.next;
  if (entry.next != nullptr) entry.next->previous = entry.previous;
  announce(&entry, kUnregister);
  delete held;
}

// register_symbols(image) -> what keeps it registered.
PyObject* register_symbols(PyObject*, PyObject* image) {
  char* data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(image, &data, &size) < 0) return nullptr;
  auto* held = new Registered{{}, std::string(data, static_cast<size_t>(size))};
  PyObject* capsule = PyCapsule_New(held, nullptr, forget);
  if (capsule == nullptr) {
    delete held;
    return nullptr;
  }
  jit_code_entry* first = __jit_debug_descriptor.first;
  held->entry = {first, nullptr, held->image.data(), held->image.size()};
  if (first != nullptr) first->previous = &held->entry;
  __jit_debug_descriptor.first = &held->entry;
  announce(&held->entry, kRegister);
  return capsule;
}

PyMethodDef functions[] = {
    {"register_symbols", register_symbols, METH_O,
     "Register the symbols of an object with debuggers; return what keeps them registered."},
    {nullptr},
};

}  // namespace

int add_debugger(PyObject* module) { return PyModule_AddFunctions(module, functions); }

}  // namespace kiln
