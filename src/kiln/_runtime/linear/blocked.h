// Products of floats by own loops, in blocks that caches hold.
#pragma once

#include "gemm.h"

namespace kiln {

// Whether such a product is worth its packing.
template <typename T>
bool fits_blocks(const Product& product);

// Each of the stack, on the threads of the call. Its bits depend on nothing but what it multiplies.
template <typename T>
[[nodiscard]] int32_t multiply_in_blocks(Call* call, const Product& product, const T* a, const T* b,
                                         T* c);

}  // namespace kiln
