// Triangular factors of matrices, and solving with them. What they mean: `ops/linear/linalg.py`.
#include "linear/factorizations/lapack.h"
#include "linear/factorizations/systems.h"

namespace kiln {
namespace {

// kiln_cholesky_T: the lower triangular L with L L^H = A, reading only the lower triangle of A; nan
// if there is no such L.
//
// Buffers: A and L of n x n. Numbers: batch, n.
template <typename T>
int32_t cholesky(Call* call, void* const* buffers, const int64_t* numbers) {
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], n = numbers[1];
  const T* a = static_cast<const T*>(buffers[0]);
  T* out = static_cast<T*>(buffers[1]);
  if (n == 0) return 0;
  return over_stack(call, batch, cube(n, n, n) / 3, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* l = out + i * n * n;
      for (int64_t row = 0; row < n; ++row) {
        std::copy_n(a + (i * n + row) * n, row + 1, l + row * n);
        std::fill_n(l + row * n + row + 1, n - row - 1, T(0));
      }
      // Column-major, this is the conjugate of A with its upper triangle: U^H U, where U^T is L.
      const int32_t size = static_cast<int32_t>(n);
      int32_t info = 0;
      fortran(routines<T>().potrf, "U", &size, l, &size, &info, size_t{1});
      for (int64_t row = 0; info != 0 && row < n; ++row) {
        std::fill_n(l + row * n, row + 1, not_a_number<T>());
      }
    }
    return 0;
  });
}

// With fewer right-hand sides than this the library's matrix-vector products are faster.
constexpr int64_t kFewSides = 8;

// Solves a batch of systems, given the first.
template <typename T>
int32_t solve_each(Call* call, const Triangle<T>& first, int64_t batch, const T* b, T* out,
                   int64_t columns, bool in_lanes) {
  const int64_t n = first.size, sides = n * columns;
  const auto some = [&](Call* inner, int64_t begin, int64_t end) {
    Triangle<T> here = first;
    here.a += begin * n * n;
    if (in_lanes) {
      return solve_stack(here, end - begin, b + begin * sides, out + begin * sides, columns);
    }
    for (int64_t i = begin; i < end; ++i, here.a += n * n) {
      if (out != b) std::copy_n(b + i * sides, sides, out + i * sides);
      const int32_t status = solve_triangle(inner, here, out + i * sides, columns, columns);
      if (status != 0) return status;
    }
    return 0;
  };
  if (batch == 1) return some(call, 0, 1);
  return over_stack(call, batch, cube(n, n, columns) / 2,
                    [&](int64_t begin, int64_t end) { return some(nullptr, begin, end); });
}

// kiln_triangular_solve_T: X with op(A) X = B, or X op(A) = B, for triangular A.
//
// Buffers: A (m x m, or n x n), B and X of m x n. Numbers: batch, m, n, left_side, lower,
// transpose_a, conjugate_a, unit_diagonal, 1 if a column of the result may depend neither on the
// batch nor on the other columns.
template <typename T>
int32_t triangular_solve(Call* call, void* const* buffers, const int64_t* numbers) {
  const int64_t batch = numbers[0], m = numbers[1], n = numbers[2];
  const bool left = numbers[3] != 0, lower = numbers[4] != 0, transpose = numbers[5] != 0;
  const bool conjugate = kIsComplex<T> && numbers[6] != 0;
  const char* diagonal = numbers[7] != 0 ? "U" : "N";
  const T *a = static_cast<const T*>(buffers[0]), *b = static_cast<const T*>(buffers[1]);
  T* out = static_cast<T*>(buffers[2]);
  if (m * n == 0) return 0;
  const int64_t order = left ? m : n;
  if constexpr (std::is_floating_point_v<T>) {
    const bool alike = numbers[8] != 0, in_lanes = !alike && is_for_lanes(batch, m, n);
    if (left && (alike || in_lanes || n >= kFewSides || !has_routines)) {
      const Triangle<T> first{
          a, m, transpose ? 1 : m, transpose ? m : 1, lower == transpose, numbers[7] != 0, alike};
      return solve_each(call, first, batch, b, out, n, in_lanes);
    }
  }
  if (!has_routines) return kNoLibrary;
  // Column-major, A and B are their transposes, and X is on the other side.
  const char* operation = !transpose ? "N" : conjugate ? "C" : "T";
  const bool copied = conjugate && !transpose;
  return over_stack(call, batch, cube(order, m, n) / 2, [&](int64_t begin, int64_t end) {
    const size_t copy_size = copied ? static_cast<size_t>(order * order) : 0;
    Scratch scratch(Scratch::size_of<T>(copy_size));
    if (!scratch) return kNoMemory;
    T* copy = scratch.take<T>(copy_size);
    const int32_t rows = static_cast<int32_t>(n), columns = static_cast<int32_t>(m);
    const int32_t step = static_cast<int32_t>(order);
    const T one(1);
    if (out != b) std::copy(b + begin * m * n, b + end * m * n, out + begin * m * n);
    for (int64_t i = begin; i < end; ++i) {
      const T* matrix = a + i * order * order;
      if constexpr (kIsComplex<T>) {
        if (copied) {
          for (int64_t j = 0; j < order * order; ++j) copy[j] = std::conj(matrix[j]);
          matrix = copy;
        }
      }
      fortran(routines<T>().trsm, left ? "R" : "L", lower ? "U" : "L", operation, diagonal, &rows,
              &columns, &one, matrix, &step, out + i * m * n, &rows, size_t{1}, size_t{1},
              size_t{1}, size_t{1});
    }
    return 0;
  });
}

// Exchanges each element i of 0, 1, ..., size-1 with the one at pivots[i], in turn.
void permute(const int32_t* pivots, int64_t count, int32_t* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = static_cast<int32_t>(i);
  for (int64_t i = 0; i < count; ++i) std::swap(out[i], out[pivots[i]]);
}

template <typename T>
int32_t factor_each(Call* call, int64_t batch, int64_t m, int64_t n, const T* a, T* out,
                    int32_t* pivots, int32_t* order, bool may_take_lanes) {
  const int64_t count = std::min(m, n);
  const bool in_lanes = may_take_lanes && is_for_lanes(batch, m, n);
  const auto some = [&](Call* inner, int64_t begin, int64_t end) {
    int32_t status = 0;
    if (in_lanes && count > 0) {
      status = factor_stack(a + begin * m * n, out + begin * m * n, end - begin, m, n,
                            pivots + begin * count);
    }
    for (int64_t i = begin; i < end && status == 0; ++i) {
      if (!in_lanes && count > 0) {
        std::copy_n(a + i * m * n, m * n, out + i * m * n);
        status = factor_matrix(inner, out + i * m * n, m, n, pivots + i * count);
      }
      if (status == 0) permute(pivots + i * count, count, order + i * m, m);
    }
    return status;
  };
  if (batch == 1) return some(call, 0, 1);
  return over_stack(call, batch, cube(m, n, count),
                    [&](int64_t begin, int64_t end) { return some(nullptr, begin, end); });
}

// kiln_lu_T: L U = P A in one matrix, the rows exchanged at each step, and P as a permutation.
//
// Buffers: A and the factors of m x n, pivots of min(m, n), permutation of m (both 32-bit
// integers). Numbers: batch, m, n, 1 if the result may not depend on the batch.
template <typename T>
int32_t lu(Call* call, void* const* buffers, const int64_t* numbers) {
  const int64_t batch = numbers[0], m = numbers[1], n = numbers[2], count = std::min(m, n);
  const T* a = static_cast<const T*>(buffers[0]);
  T* out = static_cast<T*>(buffers[1]);
  int32_t *pivots = static_cast<int32_t*>(buffers[2]), *order = static_cast<int32_t*>(buffers[3]);
  if constexpr (std::is_floating_point_v<T>) {
    return factor_each(call, batch, m, n, a, out, pivots, order, numbers[3] == 0);
  }
  if (!has_routines) return kNoLibrary;
  return over_stack(call, batch, cube(m, n, count), [&](int64_t begin, int64_t end) {
    Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(m * n)));
    if (!scratch) return kNoMemory;
    T* columns = scratch.take<T>(static_cast<size_t>(m * n));
    const int32_t rows = static_cast<int32_t>(m), width = static_cast<int32_t>(n);
    for (int64_t i = begin; i < end; ++i) {
      int32_t* found = pivots + i * count;
      if (count > 0) {
        int32_t info = 0;
        to_columns(a + i * m * n, columns, m, n);
        fortran(routines<T>().getrf, &rows, &width, columns, &rows, found, &info);
        to_rows(columns, out + i * m * n, m, n);
        for (int64_t j = 0; j < count; ++j) --found[j];
      }
      permute(found, count, order + i * m, m);
    }
    return 0;
  });
}

// kiln_lu_pivots_to_permutation: the permutation that results from the row exchanges.
//
// Buffers: pivots of `count`, permutation of `size`; both 32-bit integers. Numbers: batch, count,
// size. A pivot must be a valid row: compiled code has checked it, or the pivots come from kiln_lu.
int32_t lu_pivots_to_permutation(Call*, void* const* buffers, const int64_t* numbers) {
  const int64_t batch = numbers[0], count = numbers[1], size = numbers[2];
  const int32_t* pivots = static_cast<const int32_t*>(buffers[0]);
  int32_t* out = static_cast<int32_t*>(buffers[1]);
  for (int64_t i = 0; i < batch; ++i) permute(pivots + i * count, count, out + i * size, size);
  return 0;
}

}  // namespace

KILN_FOR_TYPES("kiln_cholesky", cholesky)
KILN_FOR_TYPES("kiln_triangular_solve", triangular_solve)
KILN_FOR_TYPES("kiln_lu", lu)
KILN_KERNEL_SYMBOL("kiln_lu_pivots_to_permutation", lu_pivots_to_permutation)
}  // namespace kiln
