// Quicksort of keys: vectorized partitions from one buffer to the other, and a sorting network in
// registers for small remainders. Equal keys are identical, so stability does not matter.
#include "kernels/vector_sort.h"

#ifdef __AVX512F__
// GCC 12 warns about its own header wherever its functions are inlined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <type_traits>
#include <utility>
#endif

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {

#ifdef __AVX512F__
namespace {

template <typename Key>
struct Lanes;

template <>
struct Lanes<uint32_t> {
  using Mask = __mmask16;
  static constexpr int kCount = 16;

  static __m512i fill(uint32_t key) { return _mm512_set1_epi32(static_cast<int>(key)); }
  static __m512i load(const uint32_t* from) { return _mm512_loadu_si512(from); }
  static __m512i load(__m512i other, Mask mask, const uint32_t* from) {
    return _mm512_mask_loadu_epi32(other, mask, from);
  }
  static void store(uint32_t* to, __m512i v) { _mm512_storeu_si512(to, v); }
  static void store(uint32_t* to, Mask mask, __m512i v) { _mm512_mask_storeu_epi32(to, mask, v); }
  static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu32(a, b); }
  static __m512i most(__m512i a, __m512i b) { return _mm512_max_epu32(a, b); }
  static __m512i most(__m512i other, Mask mask, __m512i a, __m512i b) {
    return _mm512_mask_max_epu32(other, mask, a, b);
  }
  static Mask less(__m512i a, __m512i b) { return _mm512_cmplt_epu32_mask(a, b); }
  static __m512i gathered(Mask mask, __m512i v) { return _mm512_maskz_compress_epi32(mask, v); }
  template <int... lane>
  static __m512i moved(__m512i v, std::integer_sequence<int, lane...>) {
    alignas(64) static constexpr int32_t kFrom[] = {lane...};
    return _mm512_permutexvar_epi32(_mm512_load_si512(kFrom), v);
  }
};

template <>
struct Lanes<uint64_t> {
  using Mask = __mmask8;
  static constexpr int kCount = 8;

  static __m512i fill(uint64_t key) { return _mm512_set1_epi64(static_cast<long long>(key)); }
  static __m512i load(const uint64_t* from) { return _mm512_loadu_si512(from); }
  static __m512i load(__m512i other, Mask mask, const uint64_t* from) {
    return _mm512_mask_loadu_epi64(other, mask, from);
  }
  static void store(uint64_t* to, __m512i v) { _mm512_storeu_si512(to, v); }
  static void store(uint64_t* to, Mask mask, __m512i v) { _mm512_mask_storeu_epi64(to, mask, v); }
  static __m512i least(__m512i a, __m512i b) { return _mm512_min_epu64(a, b); }
  static __m512i most(__m512i a, __m512i b) { return _mm512_max_epu64(a, b); }
  static __m512i most(__m512i other, Mask mask, __m512i a, __m512i b) {
    return _mm512_mask_max_epu64(other, mask, a, b);
  }
  static Mask less(__m512i a, __m512i b) { return _mm512_cmplt_epu64_mask(a, b); }
  static __m512i gathered(Mask mask, __m512i v) { return _mm512_maskz_compress_epi64(mask, v); }
  template <int... lane>
  static __m512i moved(__m512i v, std::integer_sequence<int, lane...>) {
    alignas(64) static constexpr int64_t kFrom[] = {lane...};
    return _mm512_permutexvar_epi64(_mm512_load_si512(kFrom), v);
  }
};

template <typename Key>
using Mask = typename Lanes<Key>::Mask;
template <typename Key>
using EachLane = std::make_integer_sequence<int, Lanes<Key>::kCount>;

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

// Compares each lane with the one whose index differs in the bits of `with`.
template <typename Key, int with>
inline __m512i compared(__m512i v) {
  using L = Lanes<Key>;
  const __m512i other = L::moved(v, partners<with>(EachLane<Key>()));
  return L::most(L::least(v, other), static_cast<Mask<Key>>(upper<with>(EachLane<Key>())), v,
                 other);
}

// Bitonic merge: sorts vectors that first fall, then rise, or vice versa.
template <typename Key>
inline __m512i merged(__m512i v) {
  if constexpr (Lanes<Key>::kCount == 16) v = compared<Key, 8>(v);
  return compared<Key, 1>(compared<Key, 2>(compared<Key, 4>(v)));
}

template <typename Key>
inline __m512i ordered(__m512i v) {
  v = compared<Key, 1>(compared<Key, 3>(compared<Key, 1>(v)));
  v = compared<Key, 1>(compared<Key, 2>(compared<Key, 7>(v)));
  if constexpr (Lanes<Key>::kCount == 16) {
    v = compared<Key, 1>(compared<Key, 2>(compared<Key, 4>(compared<Key, 15>(v))));
  }
  return v;
}

// Sorts at most as many keys as `count` vectors hold.
template <typename Key, int count>
void sort_vectors(const Key* from, int64_t n, Key* to) {
  using L = Lanes<Key>;
  __m512i v[count];
  const __m512i last = L::fill(static_cast<Key>(~Key(0)));
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    const int64_t left = n - i * L::kCount;
    if (left >= L::kCount) v[i] = L::load(from + i * L::kCount);
    else if (left <= 0) v[i] = last;
    else v[i] = L::load(last, static_cast<Mask<Key>>((1u << left) - 1), from + i * L::kCount);
    v[i] = ordered<Key>(v[i]);
  }
#pragma GCC unroll 4
  for (int width = 1; width < count; width *= 2) {
#pragma GCC unroll 8
    for (int base = 0; base < count; base += 2 * width) {
      // The larger of two go to the second half in reverse, which the next steps do not mind.
      __m512i other[count / 2 > 0 ? count / 2 : 1];
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) {
        other[i] = L::moved(v[base + 2 * width - 1 - i], partners<L::kCount - 1>(EachLane<Key>()));
      }
#pragma GCC unroll 8
      for (int i = 0; i < width; ++i) {
        const __m512i a = v[base + i];
        v[base + i] = L::least(a, other[i]);
        v[base + width + i] = L::most(a, other[i]);
      }
    }
#pragma GCC unroll 4
    for (int apart = width / 2; apart > 0; apart /= 2) {
#pragma GCC unroll 16
      for (int i = 0; i < count; ++i) {
        if (i & apart) continue;
        const __m512i a = v[i], b = v[i + apart];
        v[i] = L::least(a, b);
        v[i + apart] = L::most(a, b);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) v[i] = merged<Key>(v[i]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) {
    const int64_t left = n - i * L::kCount;
    if (left >= L::kCount) L::store(to + i * L::kCount, v[i]);
    else if (left > 0) L::store(to + i * L::kCount, static_cast<Mask<Key>>((1u << left) - 1), v[i]);
  }
}

constexpr int kMostVectors = 16;

template <typename Key>
void sort_few(const Key* from, int64_t n, Key* to) {
  constexpr int kCount = Lanes<Key>::kCount;
  if (n <= kCount) return sort_vectors<Key, 1>(from, n, to);
  if (n <= 2 * kCount) return sort_vectors<Key, 2>(from, n, to);
  if (n <= 4 * kCount) return sort_vectors<Key, 4>(from, n, to);
  if (n <= 8 * kCount) return sort_vectors<Key, 8>(from, n, to);
  sort_vectors<Key, kMostVectors>(from, n, to);
}

// Writes the keys less than the pivot to the beginning of b, and the others to its end.
template <typename Key>
int64_t partition(const Key* a, int64_t n, Key pivot, Key* b) {
  using L = Lanes<Key>;
  const __m512i middle = L::fill(pivot);
  Key *low = b, *high = b + n;
  int64_t i = 0;
  for (; i + L::kCount <= n; i += L::kCount) {
    const __m512i v = L::load(a + i);
    const Mask<Key> less = L::less(v, middle);
    const int count = __builtin_popcount(less), rest = L::kCount - count;
    // There is still room for a whole vector before `high`.
    L::store(low, L::gathered(less, v));
    low += count;
    high -= rest;
    L::store(high, static_cast<Mask<Key>>((1u << rest) - 1),
             L::gathered(static_cast<Mask<Key>>(~less), v));
  }
  for (; i < n; ++i) {
    if (a[i] < pivot) *low++ = a[i];
    else *--high = a[i];
  }
  return low - b;
}

template <typename Key>
Key median(const Key* a, int64_t n) {
  constexpr int64_t kSample = 2 * Lanes<uint32_t>::kCount;
  Key sample[kSample];
  for (int64_t i = 0; i < kSample; ++i) sample[i] = a[n / kSample * i + i % 4];
  sort_few(sample, kSample, sample);
  return sample[kSample / 2];
}

// The fallback after many bad pivots.
template <typename Key>
void heap_sort(Key* a, int64_t n) {
  for (int64_t last = n - 1, first = n / 2; last > 0;) {
    Key moving;
    if (first > 0) {
      moving = a[--first];
    } else {
      moving = a[last];
      a[last--] = a[0];
    }
    int64_t at = first;
    for (int64_t next; (next = 2 * at + 1) <= last; at = next) {
      next += next < last && a[next] < a[next + 1];
      if (!(moving < a[next])) break;
      a[at] = a[next];
    }
    a[at] = moving;
  }
}

template <typename Key>
void quicksort(Key* a, Key* b, int64_t n, Key* out, int depth) {
  while (n > kMostVectors * Lanes<Key>::kCount) {
    if (depth-- == 0) {
      for (int64_t i = 0; out != a && i < n; ++i) out[i] = a[i];
      return heap_sort(out, n);
    }
    const Key pivot = median(a, n);
    int64_t less = partition(a, n, pivot, b);
    if (less > 0) {
      quicksort(b, a, less, out == a ? a : b, depth);
    } else {
      // The pivot is the minimum: keys equal to it are in place.
      less = pivot == static_cast<Key>(~Key(0)) ? n : partition<Key>(a, n, pivot + 1, b);
      for (int64_t i = 0; i < less; ++i) out[i] = pivot;
    }
    const bool is_first = out == a;
    Key* kept = a;
    a = b + less;
    b = kept + less;
    out = is_first ? b : a;
    n -= less;
  }
  if (n > 0) sort_few(a, n, out);
}

template <typename Key>
void sort(Key* a, Key* b, int64_t n, Key* out) {
  int depth = 8;
  for (int64_t left = n; left > 0; left /= 2) depth += 2;
  quicksort(a, b, n, out, depth);
}

template <typename Key>
int64_t split(const Key* a, Key* b, int64_t n) {
  return partition(a, n, median(a, n), b);
}

}  // namespace
#endif

namespace KILN_LEVEL {

#ifdef __AVX512F__
const VectorSorts vector_sorts{{sort<uint32_t>, split<uint32_t>},
                               {sort<uint64_t>, split<uint64_t>}};
#else
const VectorSorts vector_sorts{};
#endif

}  // namespace KILN_LEVEL
}  // namespace kiln
