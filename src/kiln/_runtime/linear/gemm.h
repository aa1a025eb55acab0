// Products of stacks of matrices.
#pragma once

#include "../native_call.h"
#include "levels.h"

namespace kiln {

// C = op(A) op(B), or C += op(A) op(B), for each of a stack of matrices that lie by rows. Steps from
// one row to the next, and from one matrix to the next, are in elements.
struct Product {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  int64_t a_step, b_step, c_step;
  bool accumulate;
  int64_t a_row, b_row, c_row;

  // Dense matrices, by the numbers of a kernel.
  static Product of(const int64_t* numbers);
};

// Runs on the threads of the call.
template <typename T>
int32_t multiply(Call* call, const Product& product, const T* a, const T* b, T* c);

// Runs on the calling thread. T may also be an unsigned integer, for integers of either sign, or
// bool.
template <typename T>
void multiply_here(const Product& product, const T* a, const T* b, T* c);

}  // namespace kiln
