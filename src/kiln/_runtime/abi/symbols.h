// Symbols that compiled code refers to. A file that defines kernels registers them with one object.
#pragma once

#include <initializer_list>
#include <vector>

#include "abi/native_call.h"

namespace kiln {

struct Symbol {
  const char* name;
  void* address;

  Symbol(const char* name, Kernel kernel) : name(name), address(reinterpret_cast<void*>(kernel)) {}
  Symbol(const char* name, void* address) : name(name), address(address) {}
};

// Registers its symbols when the extension is loaded: define one per file, at namespace scope.
struct Symbols {
  explicit Symbols(std::initializer_list<Symbol> symbols);
};

// All that are registered.
const std::vector<Symbol>& all_symbols();

}  // namespace kiln
