// What eager execution in memory asks first: whether it may run now, and on which values.
#pragma once

#include "array.h"

namespace kiln {

// Tell whether no transformation listens and no option asks for more than results.
bool may_run_eagerly();

// The values of an array, and what keeps them in memory.
struct Values {
  const void* pointer = nullptr;
  Ref owner;
};

// Find the values of an array in row-major order, waiting for an engine if it must. False, without
// an exception, if there are none of NumPy's type of that number.
bool find_values(ArrayData* array, int type_number, size_t bytes, Values& values);

}  // namespace kiln
