// Vectors of complex numbers with separate real and imaginary parts, and conversions from
// interleaved memory. Everything is private to each file that includes it, as in loops/elements.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "machine/vectors.h"

namespace kiln {
namespace {

template <typename T>
using EachLane = std::make_integer_sequence<int, kLanes<T>>;

// The lanes of two concatenated vectors with the given indices.
template <int... lane, typename V>
inline V picked(V a, V b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, lane...);
#else
  using Number = std::conditional_t<sizeof(a[0]) == 8, int64_t, int32_t>;
  typedef Number Numbers __attribute__((vector_size(sizeof(V))));
  return __builtin_shuffle(a, b, Numbers{lane...});
#endif
}

// Interleaves the lanes of two vectors, `group` lanes at a time: those of their first halves, or
// second.
template <int group, int half, typename V, int... lane>
inline V zipped(V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int n = sizeof...(lane);
  return picked<(lane / group % 2 * n + lane / group / 2 * group + lane % group +
                 half * (n / 2))...>(a, b);
}

// Deinterleaves: every other lane of two vectors, starting with the first or the second.
template <int first, typename V, int... lane>
inline V unzipped(V a, V b, std::integer_sequence<int, lane...>) {
  return picked<(2 * lane + first)...>(a, b);
}

template <typename T>
struct Complex {
  using V = Vector<T>;
  V re, im;

  Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  Complex operator*(T b) const { return {re * b, im * b}; }
  Complex operator*(const Complex& b) const {
    return {re * b.re - im * b.im, re * b.im + im * b.re};
  }
  Complex times_i() const { return {-im, re}; }
  // Multiplied by a complex number in memory.
  Complex turned(const T* w) const { return {re * w[0] - im * w[1], re * w[1] + im * w[0]}; }

  // Of two vectors of interleaved complex numbers, as in memory.
  static Complex of(V a, V b, bool exchange) {
    const V even = unzipped<0>(a, b, EachLane<T>()), odd = unzipped<1>(a, b, EachLane<T>());
    return {exchange ? odd : even, exchange ? even : odd};
  }
  // Half of the numbers, interleaved as in memory.
  V first() const { return zipped<1, 0>(re, im, EachLane<T>()); }
  V second() const { return zipped<1, 1>(re, im, EachLane<T>()); }
};

// Transposes a square block of complex numbers.
template <typename T>
inline void transpose(Vector<T>* rows) {
  constexpr int n = kLanes<T> / 2;
#pragma GCC unroll 4
  for (int done = 1; done < n; done *= 2) {
    Vector<T> next[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = zipped<2, 0>(rows[i], rows[i + n / 2], EachLane<T>());
      next[2 * i + 1] = zipped<2, 1>(rows[i], rows[i + n / 2], EachLane<T>());
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
}

}  // namespace
}  // namespace kiln
