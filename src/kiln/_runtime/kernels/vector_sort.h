// Vectorized sorting of keys, on CPUs that can compress the lanes selected by a mask.
#pragma once

#include <cstdint>

namespace kiln {

// Keys are unsigned integers, or floats without nan and negative zero.
template <typename Key>
struct VectorSort {
  // Sorts a[0..n), with b as scratch, into `out`, which is a or b.
  void (*sort)(Key* a, Key* b, int64_t n, Key* out);
  // A key near the middle.
  Key (*median)(const Key* a, int64_t n);
  int64_t (*count_less)(const Key* a, int64_t n, Key pivot);
  // Writes the keys less than the pivot upwards from `low`, and the others downwards from `high`;
  // returns how many are less.
  int64_t (*divide)(const Key* a, int64_t n, Key pivot, Key* low, Key* high);
  // Copies keys, exchanging the bits of `flip` if they are integers; false if one cannot be a key.
  bool (*copy)(const Key* from, int64_t n, Key flip, Key* to);
};

// All null if the CPU has no such instructions.
struct VectorSorts {
  VectorSort<uint32_t> of_32;
  VectorSort<uint64_t> of_64;
  VectorSort<float> of_floats;
  VectorSort<double> of_doubles;
};

namespace baseline {
extern const VectorSorts vector_sorts;
}
namespace v3 {
extern const VectorSorts vector_sorts;
}
namespace v4 {
extern const VectorSorts vector_sorts;
}

// Those of the host CPU's microarchitecture level.
const VectorSorts& vector_sorts();

}  // namespace kiln
