// The first questions of eager execution in memory: whether it may run now, and on which values.
#pragma once

#include "arrays/array.h"
#include "arrays/memory.h"
#include "state/state.h"

namespace kiln {

// The options last found plain: they ask for nothing but results.
extern PyObject* plain_options;

// Tell whether no transformation is active and no option asks for more than results.
bool is_plain(PyObject* options);
inline bool may_run_eagerly() {
  if (thread_state.trace != nullptr) return false;
  PyObject* options = current_options();
  return (options != nullptr && options == plain_options) || is_plain(options);
}

// The values of an array, and what keeps them in memory.
struct Values {
  const void* pointer = nullptr;
  Ref owner;
};

// Find the values of an array in row-major order, waiting for an engine if it must. False, without
// an exception, if they are not of NumPy's type with that number.
bool find_values_elsewhere(ArrayData* array, int type_number, size_t bytes, Values& values);
inline bool find_values(ArrayData* array, int type_number, size_t bytes, Values& values) {
  if (!is_memory(array->host)) return find_values_elsewhere(array, type_number, bytes, values);
  if (reinterpret_cast<MemoryBlock*>(array->host)->bytes < bytes) return false;
  values.pointer = reinterpret_cast<MemoryBlock*>(array->host)->data;
  values.owner = Ref::borrow(array->host);
  return true;
}

}  // namespace kiln
