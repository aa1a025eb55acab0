// Host memory for arrays: recycled blocks of a few size classes.
#pragma once

#include <cstddef>

#include "objects/object.h"

namespace kiln {

// Alignment of every block; XLA accepts such memory without a copy.
constexpr size_t kAlignment = 64;

// A block of memory as a Python object. Unreferenced blocks are kept for reuse, up to a bound,
// because fresh memory costs a page fault per page.
struct MemoryBlock {
  PyObject_HEAD
  void* data;
  size_t bytes;  // requested size; the block may be larger
  int size_class;
  MemoryBlock* next;  // among those kept
};

extern PyTypeObject memory_type;

inline bool is_memory(PyObject* object) { return Py_TYPE(object) == &memory_type; }

// Return memory of at least this many bytes; its contents are undefined.
MemoryBlock* allocate(size_t bytes);

// Raise the out-of-memory error: what was being done, and how many bytes it needed, if known.
void raise_out_of_memory(const char* doing, size_t bytes);

// Whether that exception is set.
bool is_out_of_memory();

}  // namespace kiln
