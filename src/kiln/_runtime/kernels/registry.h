// Loops over strided operands, and the one place where they are found by name. Each family of loops
// is compiled once for each level of the processor; the registry holds the best that it can run.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace kiln {

// The form of NumPy's loops: pointers of operands and results, a count, bytes from one element to
// the next.
using StridedLoop = void (*)(char** args, const intptr_t* count, const intptr_t* steps, void* data);

// The level of x86-64 whose loops run here: 2, 3 or 4; 0 on another processor.
int processor_level();

// What families add their loops to. Its code is that of the lowest level, as of all that levels
// share: nothing here may be inline.
class Registry {
 public:
  // Types are NumPy's characters, of the operands and the result.
  void add(const char* name, std::initializer_list<char> types, StridedLoop loop);
  StridedLoop find(const char* name, const char* types) const;

  // The loops for this processor.
  static const Registry& here();

 private:
  struct Entries;
  explicit Registry(Entries* entries);
  Entries* entries_;  // never freed: they live as long as the extension
};

}  // namespace kiln
