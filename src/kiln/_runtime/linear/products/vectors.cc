// Rows of a matrix by a vector. Compiled once per microarchitecture level, so nothing here may be
// shared with other files.
#include "linear/products/vectors.h"

#include <cstring>

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
// Rows that share what is loaded of the vector, each with as many sums as hide the latency of a
// multiply-add.
constexpr int kRows = 4, kSums = 2;

template <typename T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kBytes)));
  static constexpr int64_t kCount = kBytes / sizeof(T);
};

// The elements that exist; the other lanes are zero.
template <typename T>
typename Lanes<T>::Vector load(const T* from, int64_t count) {
  typename Lanes<T>::Vector loaded{};
  if (count >= Lanes<T>::kCount) {
    std::memcpy(&loaded, from, sizeof loaded);
  } else {
    std::memcpy(&loaded, from, static_cast<size_t>(count) * sizeof(T));
  }
  return loaded;
}

template <typename T>
T total(const typename Lanes<T>::Vector& sums) {
  T halves[Lanes<T>::kCount];
  std::memcpy(halves, &sums, sizeof sums);
  for (int64_t half = Lanes<T>::kCount / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) halves[i] += halves[i + half];
  }
  return halves[0];
}

template <typename T, int R>
void some_rows(const T* rows, int64_t row, const T* x, int64_t depth, bool add, T* out) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t kCount = Lanes<T>::kCount;
  Vector sums[R][kSums] = {};
  int64_t k = 0;
  for (; k + kSums * kCount <= depth; k += kSums * kCount) {
    for (int s = 0; s < kSums; ++s) {
      const Vector right = load(x + k + s * kCount, kCount);
      for (int r = 0; r < R; ++r) {
        sums[r][s] += load(rows + r * row + k + s * kCount, kCount) * right;
      }
    }
  }
  for (int s = 0; k < depth; k += kCount, s = 1 - s) {
    const Vector right = load(x + k, depth - k);
    for (int r = 0; r < R; ++r) sums[r][s] += load(rows + r * row + k, depth - k) * right;
  }
  for (int r = 0; r < R; ++r) {
    const T found = total<T>(sums[r][0] + sums[r][1]);
    out[r] = add ? out[r] + found : found;
  }
}

template <typename T>
void dots(const void* rows_, int64_t row, int64_t count, const void* x_, int64_t depth, bool add,
          void* out_) {
  const T *rows = static_cast<const T*>(rows_), *x = static_cast<const T*>(x_);
  T* out = static_cast<T*>(out_);
  int64_t i = 0;
  for (; i + kRows <= count; i += kRows) {
    some_rows<T, kRows>(rows + i * row, row, x, depth, add, out + i);
  }
  for (; i < count; ++i) some_rows<T, 1>(rows + i * row, row, x, depth, add, out + i);
}

}  // namespace

namespace KILN_LEVEL {

const DotLoop dots_of_f32 = dots<float>;
const DotLoop dots_of_f64 = dots<double>;

}  // namespace KILN_LEVEL
}  // namespace kiln
