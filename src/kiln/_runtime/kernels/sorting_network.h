// Sorting networks in registers, for CPUs with AVX-512. Everything is private to each file that
// includes it, as in loops/elements.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace kiln {
namespace {

// A vector of keys. All instructions take it as integers, whose bits they are.
template <typename Key>
struct Lanes;

template <>
struct Lanes<uint32_t> {
  using Mask = __mmask16;
  static constexpr int kCount = 16;
  static constexpr uint32_t kMost = ~uint32_t(0);

  static uint32_t after(uint32_t key) { return key + 1; }
  static __m512i fill(uint32_t key) { return _mm512_set1_epi32(static_cast<int>(key)); }
  static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
  static __m512i most(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
  static __m512i most(__m512i other, Mask mask, __m512i a, __m512i b) {
    return _mm512_mask_max_epu32(other, mask, a, b);
  }
  static Mask less(__m512i a, __m512i b) { return _mm512_cmplt_epu32_mask(a, b); }
};

template <>
struct Lanes<uint64_t> {
  using Mask = __mmask8;
  static constexpr int kCount = 8;
  static constexpr uint64_t kMost = ~uint64_t(0);

  static uint64_t after(uint64_t key) { return key + 1; }
  static __m512i fill(uint64_t key) { return _mm512_set1_epi64(static_cast<long long>(key)); }
  static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
  static __m512i most(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
  static __m512i most(__m512i other, Mask mask, __m512i a, __m512i b) {
    return _mm512_mask_max_epu64(other, mask, a, b);
  }
  static Mask less(__m512i a, __m512i b) { return _mm512_cmplt_epu64_mask(a, b); }
};

// The number after a float: there is no negative zero.
template <typename Key, typename Bits>
Key number_after(Key key) {
  const Bits bits = __builtin_bit_cast(Bits, key);
  return __builtin_bit_cast(Key, key >= 0 ? bits + 1 : bits - 1);
}

// Floats are compared by twice as many ports as integers.
template <>
struct Lanes<float> {
  using Mask = __mmask16;
  static constexpr int kCount = 16;
  static constexpr float kMost = __builtin_inff();

  static float after(float key) { return number_after<float, uint32_t>(key); }
  static __m512 of(__m512i v) { return _mm512_castsi512_ps(v); }
  static __m512i bits(__m512 v) { return _mm512_castps_si512(v); }
  static __m512i fill(float key) { return bits(_mm512_set1_ps(key)); }
  static __m512i least(__m512i a, __m512i b) { return bits(_mm512_min_ps(of(a), of(b))); }
  static __m512i most(__m512i a, __m512i b) { return bits(_mm512_max_ps(of(a), of(b))); }
  static __m512i most(__m512i other, Mask mask, __m512i a, __m512i b) {
    return bits(_mm512_mask_max_ps(of(other), mask, of(a), of(b)));
  }
  static Mask less(__m512i a, __m512i b) { return _mm512_cmp_ps_mask(of(a), of(b), _CMP_LT_OQ); }
};

template <>
struct Lanes<double> {
  using Mask = __mmask8;
  static constexpr int kCount = 8;
  static constexpr double kMost = __builtin_inf();

  static double after(double key) { return number_after<double, uint64_t>(key); }
  static __m512d of(__m512i v) { return _mm512_castsi512_pd(v); }
  static __m512i bits(__m512d v) { return _mm512_castpd_si512(v); }
  static __m512i fill(double key) { return bits(_mm512_set1_pd(key)); }
  static __m512i least(__m512i a, __m512i b) { return bits(_mm512_min_pd(of(a), of(b))); }
  static __m512i most(__m512i a, __m512i b) { return bits(_mm512_max_pd(of(a), of(b))); }
  static __m512i most(__m512i other, Mask mask, __m512i a, __m512i b) {
    return bits(_mm512_mask_max_pd(of(other), mask, of(a), of(b)));
  }
  static Mask less(__m512i a, __m512i b) { return _mm512_cmp_pd_mask(of(a), of(b), _CMP_LT_OQ); }
};

template <typename Key>
using Mask = typename Lanes<Key>::Mask;
template <typename Key>
constexpr int kLanes = Lanes<Key>::kCount;
template <typename Key>
using EachLane = std::make_integer_sequence<int, kLanes<Key>>;

// The lowest lanes.
template <typename Key>
inline Mask<Key> first_lanes(int64_t count) {
  return static_cast<Mask<Key>>((1u << count) - 1);
}

template <typename Key>
inline __m512i load(const Key* from) {
  return _mm512_loadu_si512(from);
}

// Lanes without a key are taken from `other`.
template <typename Key>
inline __m512i load(const Key* from, int64_t count, __m512i other) {
  if (count >= kLanes<Key>) return load(from);
  if (count <= 0) return other;
  if constexpr (sizeof(Key) == 4) {
    return _mm512_mask_loadu_epi32(other, first_lanes<Key>(count), from);
  } else {
    return _mm512_mask_loadu_epi64(other, first_lanes<Key>(count), from);
  }
}

template <typename Key>
inline void store_first(Key* to, int64_t count, __m512i v) {
  if constexpr (sizeof(Key) == 4) _mm512_mask_storeu_epi32(to, first_lanes<Key>(count), v);
  else _mm512_mask_storeu_epi64(to, first_lanes<Key>(count), v);
}

template <typename Key>
inline void store(Key* to, int64_t count, __m512i v) {
  if (count >= kLanes<Key>) _mm512_storeu_si512(to, v);
  else if (count > 0) store_first(to, count, v);
}

template <typename Key>
inline __m512i gathered(Mask<Key> mask, __m512i v) {
  if constexpr (sizeof(Key) == 4) return _mm512_maskz_compress_epi32(mask, v);
  else return _mm512_maskz_compress_epi64(mask, v);
}

// Lanes of v by their indices, where the mask is set; the others are those of `other`.
template <typename Key, int... lane>
inline __m512i moved(__m512i other, Mask<Key> mask, __m512i v,
                     std::integer_sequence<int, lane...>) {
  using Number = std::conditional_t<sizeof(Key) == 4, int32_t, int64_t>;
  alignas(64) static constexpr Number kFrom[] = {lane...};
  const __m512i places = _mm512_load_si512(kFrom);
  if constexpr (sizeof(Key) == 4) {
    return _mm512_mask_permutexvar_epi32(other, mask, places, v);
  } else {
    return _mm512_mask_permutexvar_epi64(other, mask, places, v);
  }
}
template <typename Key, typename Places>
inline __m512i moved(__m512i v, Places places) {
  return moved<Key>(v, static_cast<Mask<Key>>(-1), v, places);
}

template <int with, int... lane>
constexpr std::integer_sequence<int, (lane ^ with)...> partners(
    std::integer_sequence<int, lane...>) {
  return {};
}

// The lanes that keep the larger of two: the upper half of each 2^k lanes, if `with` has k bits.
template <int with, int... lane>
constexpr unsigned upper(std::integer_sequence<int, lane...>) {
  constexpr int kHigh = with >= 8 ? 8 : with >= 4 ? 4 : with >= 2 ? 2 : 1;
  return (((lane & kHigh) != 0 ? 1u << lane : 0u) | ...);
}

// Compares each lane with that of `other` whose index differs in the bits of `with`.
template <typename Key, int with>
inline __m512i compared(__m512i v, __m512i other) {
  using L = Lanes<Key>;
  other = moved<Key>(other, partners<with>(EachLane<Key>()));
  return L::most(L::least(v, other), static_cast<Mask<Key>>(upper<with>(EachLane<Key>())), v,
                 other);
}
template <typename Key, int with>
inline __m512i compared(__m512i v) {
  return compared<Key, with>(v, v);
}

template <typename Key>
inline void exchange(__m512i& a, __m512i& b) {
  const __m512i least = Lanes<Key>::least(a, b);
  b = Lanes<Key>::most(a, b);
  a = least;
}

// Bitonic merge: sorts vectors that first fall, then rise, or vice versa.
template <typename Key>
inline __m512i merged(__m512i v) {
  if constexpr (kLanes<Key> == 16) v = compared<Key, 8>(v);
  return compared<Key, 1>(compared<Key, 2>(compared<Key, 4>(v)));
}

template <typename Key>
inline __m512i ordered(__m512i v) {
  v = compared<Key, 1>(compared<Key, 3>(compared<Key, 1>(v)));
  v = compared<Key, 1>(compared<Key, 2>(compared<Key, 7>(v)));
  if constexpr (kLanes<Key> == 16) {
    v = compared<Key, 1>(compared<Key, 2>(compared<Key, 4>(compared<Key, 15>(v))));
  }
  return v;
}

// Bitonic merges of `count` vectors whose lanes are adjacent keys, then within each of them.
template <typename Key, int count>
inline void sort_rows(__m512i* v) {
#pragma GCC unroll 8
  for (int i = 0; i < count; ++i) v[i] = ordered<Key>(v[i]);
#pragma GCC unroll 4
  for (int width = 1; width < count; width *= 2) {
#pragma GCC unroll 8
    for (int base = 0; base < count; base += 2 * width) {
      // The larger of two go to the second half in reverse, which the next steps do not mind.
      __m512i other[count / 2 > 0 ? count / 2 : 1];
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) {
        other[i] =
            moved<Key>(v[base + 2 * width - 1 - i], partners<kLanes<Key> - 1>(EachLane<Key>()));
      }
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) {
        const __m512i a = v[base + i];
        v[base + i] = Lanes<Key>::least(a, other[i]);
        v[base + width + i] = Lanes<Key>::most(a, other[i]);
      }
    }
#pragma GCC unroll 4
    for (int apart = width / 2; apart > 0; apart /= 2) {
#pragma GCC unroll 8
      for (int i = 0; i < count; ++i) {
        if ((i & apart) == 0) exchange<Key>(v[i], v[i + apart]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) v[i] = merged<Key>(v[i]);
  }
}

constexpr int kRows = 16;
// Sorts 16 keys by 60 comparisons (Green, 1969).
struct Pair {
  int first, second;
};
constexpr int kComparisons = 60;
constexpr Pair kNetwork[kComparisons] = {
    {0, 13}, {1, 12}, {2, 15},  {3, 14},  {4, 8},   {5, 6},   {7, 11},  {9, 10},  {0, 5},
    {1, 7},  {2, 9},  {3, 4},   {6, 13},  {8, 14},  {10, 15}, {11, 12}, {0, 1},   {2, 3},
    {4, 5},  {6, 8},  {7, 9},   {10, 11}, {12, 13}, {14, 15}, {0, 2},   {1, 3},   {4, 10},
    {5, 11}, {6, 7},  {8, 9},   {12, 14}, {13, 15}, {1, 2},   {3, 12},  {4, 6},   {5, 7},
    {8, 10}, {9, 11}, {13, 14}, {1, 4},   {2, 6},   {5, 8},   {7, 10},  {9, 13},  {11, 14},
    {2, 4},  {3, 6},  {9, 12},  {11, 13}, {3, 5},   {6, 8},   {7, 9},   {10, 12}, {3, 4},
    {5, 6},  {7, 8},  {9, 10},  {11, 12}, {6, 7},   {8, 9}};

template <typename Key, int... step>
inline void sort_lanes(__m512i* v, std::integer_sequence<int, step...>) {
  (exchange<Key>(v[kNetwork[step].first], v[kNetwork[step].second]), ...);
}

template <typename Key, int with>
inline void compare_lanes(__m512i* v) {
  if constexpr (with > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) v[i] = compared<Key, with>(v[i]);
    compare_lanes<Key, with / 2>(v);
  }
}

// Merges the sorted keys of each `width` lanes with those of the next ones.
template <typename Key, int width>
inline void merge_lanes(__m512i* v) {
  if constexpr (width < kLanes<Key>) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows / 2; ++i) {
      __m512i &a = v[i], &b = v[kRows - 1 - i];
      const __m512i low = compared<Key, 2 * width - 1>(a, b);
      b = compared<Key, 2 * width - 1>(b, a);
      a = low;
    }
    compare_lanes<Key, width / 2>(v);
#pragma GCC unroll 4
    for (int apart = kRows / 2; apart > 0; apart /= 2) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        if ((i & apart) == 0) exchange<Key>(v[i], v[i + apart]);
      }
    }
    merge_lanes<Key, 2 * width>(v);
  }
}

// The transpose of a square of lanes: exchanges blocks of `width` lanes, then smaller ones.
template <typename Key, int width>
inline void transpose(__m512i* v) {
  if constexpr (width > 0) {
    constexpr auto high = static_cast<Mask<Key>>(upper<width>(EachLane<Key>()));
    constexpr auto places = partners<width>(EachLane<Key>());
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<Key>; ++i) {
      if ((i & width) != 0) continue;
      const __m512i a = v[i], b = v[i + width];
      v[i] = moved<Key>(a, high, b, places);
      v[i + width] = moved<Key>(b, static_cast<Mask<Key>>(~high), a, places);
    }
    transpose<Key, width / 2>(v);
  }
}

// Sorts at most as many keys as `count` vectors hold.
template <typename Key, int count>
void sort_vectors(const Key* from, int64_t n, Key* to) {
  constexpr int kStep = kLanes<Key>;
  __m512i v[count];
  const __m512i last = Lanes<Key>::fill(Lanes<Key>::kMost);
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) v[i] = load(from + i * kStep, n - i * kStep, last);
  if constexpr (count < kRows) {
    sort_rows<Key, count>(v);
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i) store(to + i * kStep, n - i * kStep, v[i]);
  } else {
    // Each lane is sorted first, which moves none between lanes; lanes are merged into runs.
    sort_lanes<Key>(v, std::make_integer_sequence<int, kComparisons>());
    merge_lanes<Key, 1>(v);
#pragma GCC unroll 2
    for (int part = 0; part < kRows / kStep; ++part) {
      transpose<Key, kStep / 2>(v + part * kStep);
#pragma GCC unroll 16
      for (int i = 0; i < kStep; ++i) {
        const int64_t at = i * kRows + part * kStep;
        store(to + at, n - at, v[part * kStep + i]);
      }
    }
  }
}

// The most keys that `sort_few` sorts.
template <typename Key>
constexpr int64_t kFew = kRows * kLanes<Key>;

template <typename Key>
void sort_few(const Key* from, int64_t n, Key* to) {
  constexpr int kStep = kLanes<Key>;
  if (n <= kStep) return sort_vectors<Key, 1>(from, n, to);
  if (n <= 2 * kStep) return sort_vectors<Key, 2>(from, n, to);
  if (n <= 4 * kStep) return sort_vectors<Key, 4>(from, n, to);
  if (n <= 8 * kStep) return sort_vectors<Key, 8>(from, n, to);
  sort_vectors<Key, kRows>(from, n, to);
}

}  // namespace
}  // namespace kiln
