// Rows of a matrix by a vector. Compiled once per microarchitecture level, so nothing here may be
// shared with other files.
#include "linear/vectors.h"

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
// Rows that share what is loaded of the vector, and whose sums hide each other's latency.
constexpr int kRows = 2;

template <typename T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kBytes)));
  static constexpr int64_t kCount = kBytes / sizeof(T);
};

template <typename T>
typename Lanes<T>::Vector load(const T* from) {
  typename Lanes<T>::Vector loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

// The elements that exist; the other lanes are zero.
template <typename T>
typename Lanes<T>::Vector load_some(const T* from, int64_t count) {
  T padded[Lanes<T>::kCount] = {};
  for (int64_t i = 0; i < count; ++i) padded[i] = from[i];
  return load(padded);
}

// Of the lanes by halves.
template <typename T>
T total(const typename Lanes<T>::Vector& sums) {
  T halves[Lanes<T>::kCount];
  std::memcpy(halves, &sums, sizeof sums);
  for (int64_t half = Lanes<T>::kCount / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) halves[i] += halves[i + half];
  }
  return halves[0];
}

template <typename T>
void dots(const void* rows_, int64_t row, int64_t count, const void* x_, int64_t depth, bool add,
          void* out_) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int64_t kCount = Lanes<T>::kCount;
  const T *rows = static_cast<const T*>(rows_), *x = static_cast<const T*>(x_);
  T* out = static_cast<T*>(out_);
  for (int64_t i = 0; i < count; i += kRows) {
    // Where there are fewer rows, the last one is recomputed.
    const T* at[kRows];
    for (int r = 0; r < kRows; ++r) at[r] = rows + (i + r < count ? i + r : count - 1) * row;
    Vector sums[kRows] = {};
    for (int64_t k = 0; k < depth; k += kCount) {
      if (k + kCount <= depth) {
        const Vector right = load(x + k);
        for (int r = 0; r < kRows; ++r) sums[r] += load(at[r] + k) * right;
      } else {
        const Vector right = load_some(x + k, depth - k);
        for (int r = 0; r < kRows; ++r) sums[r] += load_some(at[r] + k, depth - k) * right;
      }
    }
    for (int r = 0; r < kRows && i + r < count; ++r) {
      const T found = total<T>(sums[r]);
      out[i + r] = add ? out[i + r] + found : found;
    }
  }
}

}  // namespace

namespace KILN_LEVEL {

const DotLoop dots_of_f32 = dots<float>;
const DotLoop dots_of_f64 = dots<double>;

}  // namespace KILN_LEVEL
}  // namespace kiln
