// Our own loops for matrix products: small ones, of integers, and of truth values. Compiled
// once per microarchitecture level, so nothing here may be shared with other files.
#include <cstring>

#include "linear/levels.h"
#include "machine/vectors.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

constexpr int kHalf = kBytes > 32 ? kBytes / 2 : kBytes;
// Rows of B that are packed at a time: they fit in the L1 cache.
constexpr int64_t kDepth = 128;

// Loads the elements that exist; the other lanes are zero.
template <typename T, int kSize>
typename Lanes<T, kSize>::Vector load_some(const T* from, int64_t count) {
  if (count == Lanes<T, kSize>::kCount) return load<T, kSize>(from);
  T padded[Lanes<T, kSize>::kCount] = {};
  for (int64_t i = 0; i < count; ++i) padded[i] = from[i];
  return load<T, kSize>(padded);
}

template <typename T, int kSize>
void store_some(T* to, const typename Lanes<T, kSize>::Vector& vector, int64_t count) {
  if (count == Lanes<T, kSize>::kCount) {
    std::memcpy(to, &vector, sizeof vector);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = vector[i];
}

// R rows of C, and as many columns as a vector has lanes.
template <typename T, bool kTruth, int kSize, int R>
void strip(const SmallProduct& p, const T* a, const T* b, int64_t b_step, int64_t depth, T* c,
           int64_t width, bool add) {
  using Vector = typename Lanes<T, kSize>::Vector;
  Vector sums[R];
  for (int r = 0; r < R; ++r) {
    sums[r] = add ? load_some<T, kSize>(c + r * p.c_row, width) : Vector{};
  }
  for (int64_t i = 0; i < depth; ++i, a += p.a_column, b += b_step) {
    const Vector right = load<T, kSize>(b);
    for (int r = 0; r < R; ++r) {
      const T left = a[r * p.a_row];
      if constexpr (kTruth) sums[r] |= left != 0 ? right : Vector{};
      else sums[r] += left * right;
    }
  }
  for (int r = 0; r < R; ++r) store_some<T, kSize>(c + r * p.c_row, sums[r], width);
}

// Columns of C, as many as a vector of `kSize` bytes has lanes, or fewer.
template <typename T, bool kTruth, int kSize>
void columns(const SmallProduct& p, const T* a, const T* b, T* c, int64_t width) {
  constexpr int kCount = Lanes<T, kSize>::kCount;
  alignas(kSize) T packed[kDepth * kCount];
  for (int64_t from = 0; from < p.k; from += kDepth) {
    const int64_t depth = p.k - from < kDepth ? p.k - from : kDepth;
    const T* right = b + from * p.b_row;
    int64_t step = p.b_row;
    // A truth value may be any byte that is not zero.
    if (kTruth || p.b_column != 1 || width != kCount) {
      for (int64_t i = 0; i < depth; ++i) {
        T* row = packed + i * kCount;
        for (int64_t j = 0; j < width; ++j) {
          const T value = right[i * p.b_row + j * p.b_column];
          row[j] = kTruth ? static_cast<T>(value != 0) : value;
        }
        for (int64_t j = width; j < kCount; ++j) row[j] = 0;
      }
      right = packed;
      step = kCount;
    }
    const T* left = a + from * p.a_column;
    T* out = c;
    const bool add = p.accumulate || from > 0;
    int64_t row = 0;
    for (; row + 8 <= p.m; row += 8, left += 8 * p.a_row, out += 8 * p.c_row) {
      strip<T, kTruth, kSize, 8>(p, left, right, step, depth, out, width, add);
    }
    if (row + 4 <= p.m) {
      strip<T, kTruth, kSize, 4>(p, left, right, step, depth, out, width, add);
      row += 4, left += 4 * p.a_row, out += 4 * p.c_row;
    }
    for (; row < p.m; ++row, left += p.a_row, out += p.c_row) {
      strip<T, kTruth, kSize, 1>(p, left, right, step, depth, out, width, add);
    }
  }
}

template <typename T, bool kTruth>
void product(const SmallProduct& p, const void* a_, const void* b_, void* c_) {
  constexpr int64_t kItem = sizeof(T);
  const T *a = static_cast<const T*>(a_), *b = static_cast<const T*>(b_);
  T* c = static_cast<T*>(c_);
  for (int64_t column = 0; column < p.n; column += kBytes / kItem) {
    const int64_t left = p.n - column;
    const int64_t width = left < kBytes / kItem ? left : kBytes / kItem;
    const T* right = b + column * p.b_column;
    // The narrowest vector that holds the columns: few lanes, or none, are wasted.
    if (width * kItem <= 16) {
      columns<T, kTruth, 16>(p, a, right, c + column, width);
    } else if (width * kItem <= kHalf) {
      columns<T, kTruth, kHalf>(p, a, right, c + column, width);
    } else {
      columns<T, kTruth, kBytes>(p, a, right, c + column, width);
    }
  }
}

// Complex numbers: real and imaginary parts are packed separately. R is the type of either.
template <typename R, int kRows>
void complex_strip(const SmallProduct& p, const R* a, const R* b, int64_t depth, R* c,
                   int64_t width, bool add) {
  using Vector = typename Lanes<R>::Vector;
  constexpr int kCount = Lanes<R>::kCount;
  Vector real[kRows], imag[kRows];
  for (int r = 0; r < kRows; ++r) {
    real[r] = imag[r] = Vector{};
    for (int64_t j = 0; add && j < width; ++j) {
      real[r][j] = c[2 * (r * p.c_row + j)];
      imag[r][j] = c[2 * (r * p.c_row + j) + 1];
    }
  }
  for (int64_t i = 0; i < depth; ++i, a += 2 * p.a_column, b += 2 * kCount) {
    const Vector b_real = load(b), b_imag = load(b + kCount);
    for (int r = 0; r < kRows; ++r) {
      const R a_real = a[2 * r * p.a_row], a_imag = a[2 * r * p.a_row + 1];
      real[r] += a_real * b_real - a_imag * b_imag;
      imag[r] += a_real * b_imag + a_imag * b_real;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int64_t j = 0; j < width; ++j) {
      c[2 * (r * p.c_row + j)] = real[r][j];
      c[2 * (r * p.c_row + j) + 1] = imag[r][j];
    }
  }
}

template <typename R>
void complex_product(const SmallProduct& p, const void* a_, const void* b_, void* c_) {
  constexpr int kCount = Lanes<R>::kCount;
  const R *a = static_cast<const R*>(a_), *b = static_cast<const R*>(b_);
  R* c = static_cast<R*>(c_);
  alignas(kBytes) R packed[2 * kDepth * kCount];
  for (int64_t column = 0; column < p.n; column += kCount) {
    const int64_t width = p.n - column < kCount ? p.n - column : kCount;
    for (int64_t from = 0; from < p.k; from += kDepth) {
      const int64_t depth = p.k - from < kDepth ? p.k - from : kDepth;
      for (int64_t i = 0; i < depth; ++i) {
        R* row = packed + 2 * i * kCount;
        for (int64_t j = 0; j < kCount; ++j) {
          const int64_t at = 2 * ((from + i) * p.b_row + (column + j) * p.b_column);
          row[j] = j < width ? b[at] : R(0);
          row[kCount + j] = j < width ? b[at + 1] : R(0);
        }
      }
      const R* left = a + 2 * from * p.a_column;
      R* out = c + 2 * column;
      const bool add = p.accumulate || from > 0;
      int64_t row = 0;
      for (; row + 4 <= p.m; row += 4, left += 8 * p.a_row, out += 8 * p.c_row) {
        complex_strip<R, 4>(p, left, packed, depth, out, width, add);
      }
      for (; row < p.m; ++row, left += 2 * p.a_row, out += 2 * p.c_row) {
        complex_strip<R, 1>(p, left, packed, depth, out, width, add);
      }
    }
  }
}

template <typename T>
void multiply_add(void* sums_, const void* a_, const void* b_, int64_t count) {
  T* __restrict sums = static_cast<T*>(sums_);
  const T* __restrict a = static_cast<const T*>(a_), * __restrict b = static_cast<const T*>(b_);
  for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<T>(sums[i] + a[i] * b[i]);
}

// 16-bit numbers would be promoted to int, whose product may overflow.
void multiply_add_words(void* sums_, const void* a_, const void* b_, int64_t count) {
  uint16_t* __restrict sums = static_cast<uint16_t*>(sums_);
  const uint16_t* __restrict a = static_cast<const uint16_t*>(a_);
  const uint16_t* __restrict b = static_cast<const uint16_t*>(b_);
  for (int64_t i = 0; i < count; ++i) {
    sums[i] = static_cast<uint16_t>(sums[i] + static_cast<uint32_t>(a[i]) * b[i]);
  }
}

void multiply_add_truths(void* sums_, const void* a_, const void* b_, int64_t count) {
  uint8_t* __restrict sums = static_cast<uint8_t*>(sums_);
  const uint8_t* __restrict a = static_cast<const uint8_t*>(a_);
  const uint8_t* __restrict b = static_cast<const uint8_t*>(b_);
  for (int64_t i = 0; i < count; ++i) sums[i] |= a[i] != 0 && b[i] != 0;
}

template <typename R>
void complex_multiply_add(void* sums_, const void* a_, const void* b_, int64_t count) {
  R* __restrict sums = static_cast<R*>(sums_);
  const R* __restrict a = static_cast<const R*>(a_), * __restrict b = static_cast<const R*>(b_);
  for (int64_t i = 0; i < 2 * count; i += 2) {
    const R real = a[i] * b[i] - a[i + 1] * b[i + 1];
    sums[i + 1] += a[i] * b[i + 1] + a[i + 1] * b[i];
    sums[i] += real;
  }
}

}  // namespace

namespace KILN_LEVEL {

const ProductLoops products_of_f32{product<float, false>, multiply_add<float>};
const ProductLoops products_of_f64{product<double, false>, multiply_add<double>};
const ProductLoops products_of_c64{complex_product<float>, complex_multiply_add<float>};
const ProductLoops products_of_c128{complex_product<double>, complex_multiply_add<double>};
const ProductLoops products_of_i8{product<uint8_t, false>, multiply_add<uint8_t>};
const ProductLoops products_of_i16{product<uint16_t, false>, multiply_add_words};
const ProductLoops products_of_i32{product<uint32_t, false>, multiply_add<uint32_t>};
const ProductLoops products_of_i64{product<uint64_t, false>, multiply_add<uint64_t>};
const ProductLoops products_of_bool{product<uint8_t, true>, multiply_add_truths};

}  // namespace KILN_LEVEL
}  // namespace kiln
