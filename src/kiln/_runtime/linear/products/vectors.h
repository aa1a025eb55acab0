// Products of a matrix and a vector.
#pragma once

#include "linear/products/gemm.h"

namespace kiln {

// Whether an operand is a dense vector; complex ones need the library.
template <typename T>
bool is_by_vector(const Product& product);

// Computes each product of the batch, on the call's threads. A row of floats has the bits that it has among
// others in `multiply_in_blocks`, unless B is transposed.
template <typename T>
[[nodiscard]] int32_t multiply_by_vector(Call* call, const Product& product, const T* a, const T* b,
                                         T* c);

}  // namespace kiln
