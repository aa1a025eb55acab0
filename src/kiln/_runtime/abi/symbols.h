// Symbols that compiled code refers to. In the extension a table holds them, which the engine links
// programs to; in the static runtime of exported libraries they are global functions, so that a
// linker takes those that are called and drops the others.
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

#define KILN_JOINED_NAME(a, b) a##b
#define KILN_JOINED(a, b) KILN_JOINED_NAME(a, b)

// Written in namespace kiln, outside unnamed namespaces, for symbols of the static runtime are
// global: KILN_KERNEL_SYMBOL("name", kernel) gives a kernel a name, KILN_FUNCTION_SYMBOL(function)
// registers a function `extern "C"` under its own.
#ifdef KILN_STATIC_RUNTIME
// Systems put characters before names of C, macOS an underscore: assembly names include them.
#define KILN_QUOTED_TEXT(text) #text
#define KILN_QUOTED(text) KILN_QUOTED_TEXT(text)
#define KILN_FORWARDED(id, symbol, ...)                                                  \
  int32_t id(Call* call, void* const* buffers,                                           \
             const int64_t* numbers) __asm__(KILN_QUOTED(__USER_LABEL_PREFIX__) symbol); \
  int32_t id(Call* call, void* const* buffers, const int64_t* numbers) {                 \
    return __VA_ARGS__(call, buffers, numbers);                                          \
  }
#define KILN_KERNEL_SYMBOL(symbol, ...) \
  KILN_FORWARDED(KILN_JOINED(kernel_symbol_, __COUNTER__), symbol, __VA_ARGS__)
#define KILN_FUNCTION_SYMBOL(function)
#else
#define KILN_KERNEL_SYMBOL(symbol, ...) \
  static const Symbols KILN_JOINED(kernel_symbols_, __COUNTER__){{symbol, __VA_ARGS__}};
#define KILN_FUNCTION_SYMBOL(function)                \
  static const Symbols KILN_JOINED(function_symbols_, \
                                   __COUNTER__){{#function, reinterpret_cast<void*>(function)}};
#endif
