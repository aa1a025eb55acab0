// Host memory for arrays: blocks of a few sizes that are used again and again.
#pragma once

#include <cstddef>

#include "object.h"

namespace kiln {

// Alignment of every block; XLA takes such memory as it is.
constexpr size_t kAlignment = 64;

// A block of memory as a Python object. Blocks that nobody holds are kept for those who ask next,
// up to a bound: fresh memory costs a page fault per page.
struct MemoryBlock {
  PyObject_HEAD
  void* data;
  size_t bytes;  // asked for; the block may be larger
  int size_class;
  MemoryBlock* next;  // among those kept
};

extern PyTypeObject memory_type;

inline bool is_memory(PyObject* object) { return Py_TYPE(object) == &memory_type; }

// Return memory of at least so many bytes; its contents are undefined.
MemoryBlock* allocate(size_t bytes);

// Raise the error of a lack of memory: what was being done, and how many bytes it took, if known.
void raise_out_of_memory(const char* doing, size_t bytes);

// Whether that is the exception that is set.
bool is_out_of_memory();

}  // namespace kiln
