// Our own loops for real linear systems: large ones by products of blocks, small ones as many at a
// time as a vector has lanes.
#pragma once

#include <cstdint>

#include "abi/native_call.h"

namespace kiln {

// op(A) of a triangular A: its element (i, k) is a[i * row + k * column]. One of the strides is 1.
// If `in_order`, a column of the solution depends on no other (see `Product`).
template <typename T>
struct Triangle {
  const T* a;
  int64_t size, row, column;
  bool is_upper, is_unit, in_order;
};

// X with op(A) X = B in place of B, on the call's threads.
template <typename T>
[[nodiscard]] int32_t solve_triangle(Call* call, const Triangle<T>& triangle, T* b, int64_t b_row,
                                     int64_t columns);

// L U = P A of a dense matrix in place, on the call's threads; pivots are numbered from 0.
template <typename T>
[[nodiscard]] int32_t factor_matrix(Call* call, T* a, int64_t rows, int64_t columns,
                                    int32_t* pivots);

// Whether matrices of this order are computed one per lane.
inline bool is_for_lanes(int64_t batch, int64_t order, int64_t other) {
  return batch >= 4 && order <= 16 && other <= 16;
}

// The same for consecutive matrices.
template <typename T>
int32_t factor_stack(const T* a, T* out, int64_t batch, int64_t rows, int64_t columns,
                     int32_t* pivots);
template <typename T>
int32_t solve_stack(const Triangle<T>& first, int64_t batch, const T* b, T* out, int64_t columns);

}  // namespace kiln
