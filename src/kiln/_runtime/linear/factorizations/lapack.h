// Code shared by factorization kernels. LAPACK's matrices are column-major, those of compiled code
// row-major: most are copied both ways, so that LAPACK determines signs and orders.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/blas.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {

template <typename T>
constexpr int kLogSize = sizeof(T) == 4   ? 2
                         : sizeof(T) == 8 ? 3
                                          : 4;

// Copies an m x n matrix from row-major to column-major.
template <typename T>
void to_columns(const T* rows, T* columns, int64_t m, int64_t n) {
  transpose_loop<kLogSize<T>>()(rows, columns, m, n, n, m);
}

// Copies an m x n matrix from column-major, with leading dimension m, to row-major.
template <typename T>
void to_rows(const T* columns, T* rows, int64_t m, int64_t n) {
  transpose_loop<kLogSize<T>>()(columns, rows, n, m, m, n);
}

template <typename T>
T not_a_number() {
  constexpr Real<T> kNan = std::numeric_limits<Real<T>>::quiet_NaN();
  if constexpr (kIsComplex<T>) return T(kNan, kNan);
  else return kNan;
}

template <typename T>
bool all_finite(const T* x, int64_t count) {
  const Real<T>* parts = reinterpret_cast<const Real<T>*>(x);
  Real<T> sum = 0;
  // The product of zero and a finite number is zero.
  for (int64_t i = 0; i < count * (kIsComplex<T> ? 2 : 1); ++i) sum += parts[i] * Real<T>(0);
  return sum == 0;
}

template <typename T>
void set_identity(T* out, int64_t rows, int64_t columns) {
  std::fill_n(out, rows * columns, T(0));
  for (int64_t i = 0; i < std::min(rows, columns); ++i) out[i * columns + i] = T(1);
}

// The size of the workspace that a routine reports in its first element.
template <typename T>
int32_t reported(T first) {
  return std::max(1, static_cast<int32_t>(std::real(first)));
}

// Runs `body(begin, end)` over ranges of a batch of matrices, each of which costs `work`
// multiplications.
template <typename Body>
[[nodiscard]] int32_t over_stack(Call* call, int64_t batch, double work, const Body& body) {
  if (batch == 0) return 0;
  constexpr double kLeast = 1 << 18;
  const int64_t least = static_cast<int64_t>(kLeast / std::max(work, 64.0)) + 1;
  const Blocks blocks = Blocks::of(batch, least, 1);
  return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
    return body(blocks.begin(first), blocks.end(last - 1));
  });
}

inline double cube(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// Symbols of a kernel for each number type.
#define KILN_FOR_TYPES(name, kernel)                 \
  KILN_KERNEL_SYMBOL(name "_f32", kernel<float>)     \
  KILN_KERNEL_SYMBOL(name "_f64", kernel<double>)    \
  KILN_KERNEL_SYMBOL(name "_c64", kernel<Complex64>) \
  KILN_KERNEL_SYMBOL(name "_c128", kernel<Complex128>)

}  // namespace kiln
