// Products of floats by own loops, in blocks that caches hold.
#pragma once

#include "epilogue.h"
#include "gemm.h"

namespace kiln {

// Whether such a product is worth its packing.
template <typename T>
bool fits_blocks(const Product& product);

// Each of the stack, on the threads of the call. Its bits depend on nothing but what it multiplies.
// An epilogue runs on each block when all its sums are there; then C may be null, if only the
// epilogue needs it.
template <typename T>
[[nodiscard]] int32_t multiply_in_blocks(Call* call, const Product& product, const T* a, const T* b,
                                         T* c, const Epilogue* after = nullptr);

}  // namespace kiln
