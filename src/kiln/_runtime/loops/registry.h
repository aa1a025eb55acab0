// Loops over strided operands, and the one place where they are found by name. Each family of loops
// is compiled once per microarchitecture level; the registry holds the best that the host CPU can
// run.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace kiln {

// The signature of NumPy's loops: pointers to operands and results, a count, strides in bytes.
using StridedLoop = void (*)(char** args, const intptr_t* count, const intptr_t* steps, void* data);

// The table to which families add their loops. Like all code that levels share, it is compiled for
// the lowest level: nothing here may be inline.
class Registry {
 public:
  // Types are NumPy's characters, of the operands and the result.
  void add(const char* name, std::initializer_list<char> types, StridedLoop loop);
  StridedLoop find(const char* name, const char* types) const;

  // The loops for the host CPU.
  static const Registry& here();

 private:
  struct Entries;
  explicit Registry(Entries* entries);
  Entries* entries_;  // never freed: they live as long as the extension
};

}  // namespace kiln
