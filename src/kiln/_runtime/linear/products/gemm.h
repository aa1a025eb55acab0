// Batched matrix products.
#pragma once

#include "abi/native_call.h"
#include "linear/blas.h"
#include "linear/levels.h"

namespace kiln {

// The loops for a type; unsigned types serve signed integers too.
template <typename T>
constexpr Element kElementOf = std::is_same_v<T, float>        ? kF32
                               : std::is_same_v<T, double>     ? kF64
                               : std::is_same_v<T, Complex64>  ? kC64
                               : std::is_same_v<T, Complex128> ? kC128
                               : std::is_same_v<T, bool>       ? kBool
                               : sizeof(T) == 1                ? kI8
                               : sizeof(T) == 2                ? kI16
                               : sizeof(T) == 4                ? kI32
                                                               : kI64;

// C = op(A) op(B), or C += op(A) op(B), for each of a batch of row-major matrices. Row strides and
// batch strides are in elements. If `in_order`, terms are added in an order that depends on k
// alone. If `packed_b`, B is one matrix in panels, as `pack_matrix` writes it; if `is_repeated`, it is
// one of many such products by it.
struct Product {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  int64_t a_step, b_step, c_step;
  bool accumulate, in_order, packed_b = false, is_repeated = false;
  int64_t a_row, b_row, c_row;

  // Dense matrices, from the numbers of a kernel.
  static Product of(const int64_t* numbers);
};

// One matrix B for a batch of A: all their rows form a single A.
Product folded(Product product);

// Whether the numbers of a product are as small as the library's.
bool fits_library(const Product& product);

// Runs on the call's threads.
template <typename T>
[[nodiscard]] int32_t multiply(Call* call, const Product& product, const T* a, const T* b, T* c);

// Runs on the calling thread. T may also be an unsigned integer, for signed ones too, or bool.
template <typename T>
void multiply_here(const Product& product, const T* a, const T* b, T* c);

}  // namespace kiln
