// Discrete Fourier transforms of adjacent columns: planned by plan.cc, computed by
// columns.cc.
#pragma once

#include <cstdint>

namespace kiln {

// A stage for one prime factor, or for 1, 4 or 8. Earlier factors have been transformed.
template <typename T>
struct FftStage {
  int64_t radix, rest;  // rest: the product of later radices
  const T* twiddles;    // of (rest, radix - 1) complex numbers
  const T* roots;       // radix roots of unity; for radices without specialized code
};

// A cache line holds one number of each column.
template <typename T>
constexpr int64_t kFftColumns = 64 / static_cast<int64_t>(sizeof(T));
constexpr int64_t kLargestRadix = 61;

// How many numbers of scratch memory a transform needs. The two halves do not start at the same
// page offset: loads would wait for stores that falsely alias (4K aliasing).
template <typename T>
constexpr int64_t fft_scratch(int64_t size) {
  return 4 * (size + 3) * kFftColumns<T>;
}

// Rows of complex numbers; or the transform of rows of real numbers, or its inverse, by one of half
// as many complex numbers.
enum FftRows { kComplexRows, kFromRealRows, kToRealRows };

// Up to kFftColumns columns. Strides count complex numbers; one of each pair of strides is 1.
template <typename T>
struct FftColumns {
  const FftStage<T>* stages;
  int64_t stage_count, size, columns;
  const T* in;
  int64_t in_step, in_column;
  T* out;
  int64_t out_step, out_column;
  int64_t out_block;  // from kFftColumns<T> results of a column to the next as many
  // An inverse transform is the forward one with real and imaginary parts swapped before and after.
  bool exchange_in, exchange_out;
  T scale;
  // Null, or factors of the results: (size, 2, kFftColumns<T>), real and imaginary parts separate.
  const T* factors;
  // From (to) rows of real numbers there is one result (operand) more in a row than `size`; pairs of
  // numbers are combined with these roots of unity.
  FftRows rows;
  const T* roots;
  T* scratch;  // fft_scratch<T>(size) numbers, aligned to a line
};

struct FftCode {
  void (*single)(const FftColumns<float>&);
  void (*twice)(const FftColumns<double>&);
};

namespace baseline {
extern const FftCode fft_code;
}
namespace v3 {
extern const FftCode fft_code;
}
namespace v4 {
extern const FftCode fft_code;
}

}  // namespace kiln
