// Products of a matrix and a vector of floats: what reads the matrix once, in long pieces.
// Compiled once per microarchitecture level, so nothing here may be shared with other files.
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "linear/levels.h"
#include "machine/vectors.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

// Rows that are read at once: streams that the hardware prefetches. More of them, at a distance of a
// power of two, displace each other from an L1 cache of eight ways.
constexpr int kRows = 4;
// Sums that stay in the L1 cache.
constexpr int64_t kSums = 1024;
// Independent sums of a row, which hide the latency of one.
constexpr int kChains = 2;

// How far ahead bytes of each row are prefetched: they are in the L1 cache until they are read.
constexpr int64_t kAhead = 1024;

// Where to prefetch: further on in a row, and from its end on in the next one.
template <typename T>
int64_t place_ahead(int64_t at, int64_t columns, int64_t next_rows) {
  const int64_t place = at + kAhead / static_cast<int64_t>(sizeof(T));
  return place < columns ? place : place - columns + next_rows;
}

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Loads the elements that exist; the other lanes are zero.
template <typename T>
Vector<T> load_some(const T* from, int64_t count) {
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1 << count) - 1);
  if constexpr (sizeof(T) == 4) return _mm512_maskz_loadu_ps(mask, from);
  else return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
#else
  Vector<T> some = {};
  for (int64_t i = 0; i < count; ++i) some[i] = from[i];
  return some;
#endif
}

// sums += x[0] A[0] + ... + x[R - 1] A[R - 1], in whole vectors. The next rows are `next_rows` on.
template <int R, typename T>
[[gnu::noinline]] void combine_rows(const T* x, const T* a, int64_t a_row, int64_t columns,
                                    int64_t next_rows, T* sums) {
  T scales[R];
  const T* rows[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) scales[r] = x[r], rows[r] = a + r * a_row;
  int64_t j = 0;
  for (; j + kLanes<T> <= columns; j += kLanes<T>) {
    const int64_t soon = place_ahead<T>(j, columns, next_rows);
    Vector<T> sum = load(sums + j);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      // The hardware does not prefetch the strides.
      __builtin_prefetch(rows[r] + soon);
      sum += scales[r] * load(rows[r] + j);
    }
    store(sums + j, sum);
  }
  if (j == columns) return;
  Vector<T> sum = load(sums + j);
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) sum += scales[r] * load_some(rows[r] + j, columns - j);
  store(sums + j, sum);
}

template <typename T>
void combine(const T* x, const T* a, int64_t a_row, int64_t rows, int64_t columns, bool add, T* y) {
  alignas(kBytes) T sums[kSums];
  for (int64_t begin = 0; begin < columns; begin += kSums) {
    const int64_t width = least(kSums, columns - begin);
    const T* part = a + begin;
    std::memset(sums, 0, static_cast<size_t>(least(kSums, width + kLanes<T>)) * sizeof(T));
    int64_t i = 0;
    for (; i + kRows <= rows; i += kRows) {
      const int64_t next_rows = i + 2 * kRows <= rows ? kRows * a_row : 0;
      combine_rows<kRows>(x + i, part + i * a_row, a_row, width, next_rows, sums);
    }
    for (; i < rows; ++i) combine_rows<1>(x + i, part + i * a_row, a_row, width, 0, sums);
    for (int64_t j = 0; j < width; ++j) y[begin + j] = add ? y[begin + j] + sums[j] : sums[j];
  }
}

template <typename T>
void combine_in_runs(const void* x_, const void* a_, int64_t a_row, int64_t rows, int64_t columns,
                     bool add, void* y) {
  const T *x = static_cast<const T*>(x_), *a = static_cast<const T*>(a_);
  for (int64_t i = 0; i < rows; i += kPackedDepth) {
    const int64_t run = least(kPackedDepth, rows - i);
    combine(x + i, a + i * a_row, a_row, run, columns, add || i > 0, static_cast<T*>(y));
  }
}

template <typename T, int count>
struct Part {
  typedef T V __attribute__((vector_size(count * sizeof(T))));
};

// The sum of `count` lanes: the upper half is added to the lower one, and so on.
template <typename T, int count>
T sum_of(typename Part<T, count>::V of) {
  if constexpr (count == 1) {
    return of[0];
  } else {
    typename Part<T, count / 2>::V low, high;
    std::memcpy(&low, &of, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&of) + sizeof low, sizeof high);
    return sum_of<T, count / 2>(low + high);
  }
}

template <int R, typename T>
[[gnu::noinline]] void dot_rows(const T* a, int64_t a_row, int64_t columns, int64_t next_rows,
                                const T* x, bool add, T* y) {
  Vector<T> sums[R][kChains] = {};
  const T* rows[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) rows[r] = a + r * a_row;
  int64_t j = 0;
  for (; j + kChains * kLanes<T> <= columns; j += kChains * kLanes<T>) {
#pragma GCC unroll 2
    for (int64_t c = 0; c < kChains; ++c) {
      const int64_t at = j + c * kLanes<T>;
      const Vector<T> right = load(x + at);
      const int64_t soon = place_ahead<T>(at, columns, next_rows);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        __builtin_prefetch(rows[r] + soon);
        sums[r][c] += load(rows[r] + at) * right;
      }
    }
  }
  for (; j < columns; j += kLanes<T>) {
    const int64_t width = least(kLanes<T>, columns - j);
    const Vector<T> right = load_some(x + j, width);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sums[r][0] += load_some(rows[r] + j, width) * right;
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const T sum = sum_of<T, kLanes<T>>(sums[r][0] + sums[r][1]);
    y[r] = add ? y[r] + sum : sum;
  }
}

template <typename T>
void dot(const void* x_, const void* a_, int64_t a_row, int64_t rows, int64_t columns, bool add,
         void* y_) {
  const T *a = static_cast<const T*>(a_), *x = static_cast<const T*>(x_);
  T* y = static_cast<T*>(y_);
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    const int64_t next_rows = i + 2 * kRows <= rows ? kRows * a_row : 0;
    dot_rows<kRows>(a + i * a_row, a_row, columns, next_rows, x, add, y + i);
  }
  for (; i < rows; ++i) dot_rows<1>(a + i * a_row, a_row, columns, 0, x, add, y + i);
}

}  // namespace

namespace KILN_LEVEL {

const VectorLoops vectors_of_f32{combine_in_runs<float>, dot<float>};
const VectorLoops vectors_of_f64{combine_in_runs<double>, dot<double>};

}  // namespace KILN_LEVEL
}  // namespace kiln
