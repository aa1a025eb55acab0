// Our own cache-blocked products of floats.
#pragma once

#include "linear/products/epilogue.h"
#include "linear/products/gemm.h"

namespace kiln {

// Whether packing pays off for a product.
template <typename T>
bool fits_blocks(const Product& product);

// Writes op(B), of k x n, into panels: what a product with `packed_b` reads. Runs on the call's
// threads.
template <typename T>
[[nodiscard]] int32_t pack_matrix(Call* call, const Product& product, const T* b, T* packed);

// Computes each product of the batch, on the call's threads. The bits of a product depend on its
// operands only. An epilogue runs on each block once its sums are complete; then C may be null, if
// only the epilogue needs it.
template <typename T>
[[nodiscard]] int32_t multiply_in_blocks(Call* call, const Product& product, const T* a, const T* b,
                                         T* c, const Epilogue* after = nullptr);

}  // namespace kiln
