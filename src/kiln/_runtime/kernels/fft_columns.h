// Discrete Fourier transforms of adjacent columns: what fft.cc plans and fft_columns.cc computes.
#pragma once

#include <cstdint>

namespace kiln {

// A step by one prime factor, or by 1, 4 or 8. What lies before it has been transformed.
template <typename T>
struct FftStage {
  int64_t radix, rest;  // rest: the product of later radices
  const T* twiddles;    // of (rest, radix - 1) complex numbers
  const T* roots;       // of unity, radix complex numbers; for radices without code of their own
};

// A line of memory holds one number of each column.
template <typename T>
constexpr int64_t kFftColumns = 64 / static_cast<int64_t>(sizeof(T));
constexpr int64_t kLargestRadix = 61;

// How many numbers of scratch memory a transform needs. The two halves do not begin at the same
// place of a page: loads would wait for stores that only look like theirs.
template <typename T>
constexpr int64_t fft_scratch(int64_t size) {
  return 4 * (size + 3) * kFftColumns<T>;
}

// Up to kFftColumns columns. Steps count complex numbers; one of each pair of steps is 1.
template <typename T>
struct FftColumns {
  const FftStage<T>* stages;
  int64_t stage_count, size, columns;
  const T* in;
  int64_t in_step, in_column;
  T* out;
  int64_t out_step, out_column;
  int64_t out_block;  // from kFftColumns<T> results of a column to the next as many
  // An inverse transform is that of numbers with real and imaginary parts exchanged, exchanged
  // again.
  bool exchange_in, exchange_out;
  T scale;
  // Null, or what results are multiplied by: (size, 2, kFftColumns<T>), real parts apart from
  // imaginary ones.
  const T* factors;
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
