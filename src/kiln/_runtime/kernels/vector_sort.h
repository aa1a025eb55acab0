// Vectorized sorting of keys, on CPUs that can compress the lanes selected by a mask.
#pragma once

#include <cstdint>

namespace kiln {

template <typename Key>
struct VectorSort {
  // Sorts a[0..n), with b as scratch, into `out`, which is a or b.
  void (*sort)(Key* a, Key* b, int64_t n, Key* out);
  // Writes the smaller elements of a to the beginning of b, the others after them; returns how many
  // are smaller. Returns 0 if the partition makes no progress.
  int64_t (*split)(const Key* a, Key* b, int64_t n);
};

// All null if the CPU has no such instructions.
struct VectorSorts {
  VectorSort<uint32_t> of_32;
  VectorSort<uint64_t> of_64;
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
