// Quicksort of keys: vectorized partitions from one buffer to the other, and a sorting network in
// registers for small remainders. Equal keys are identical, so stability does not matter.
#include "kernels/vector_sort.h"

#ifdef __AVX512F__
// GCC 12 warns about its own header wherever its functions are inlined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <type_traits>

#include "kernels/sorting_network.h"
#endif

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {

#ifdef __AVX512F__
namespace {

// Writes the keys less than the pivot upwards from `low`, and the others downwards from `high`;
// returns how many are less. If `is_roomy`, keys after the former may be overwritten meanwhile.
template <bool is_roomy, typename Key>
int64_t divide(const Key* a, int64_t n, Key pivot, Key* low, Key* high) {
  constexpr int kStep = kLanes<Key>;
  const __m512i middle = Lanes<Key>::fill(pivot);
  const Key* const first = low;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    const __m512i v = load(a + i);
    const Mask<Key> less = Lanes<Key>::less(v, middle);
    const int count = __builtin_popcount(less), rest = kStep - count;
    if constexpr (is_roomy) store(low, kStep, gathered<Key>(less, v));
    else store_first(low, count, gathered<Key>(less, v));
    low += count;
    high -= rest;
    store_first(high, rest, gathered<Key>(static_cast<Mask<Key>>(~less), v));
  }
  for (; i < n; ++i) {
    if (a[i] < pivot) *low++ = a[i];
    else *--high = a[i];
  }
  return low - first;
}

// From one buffer to another of the same size: before each step there is room for a vector.
template <typename Key>
int64_t partition(const Key* a, int64_t n, Key pivot, Key* b) {
  return divide<true>(a, n, pivot, b, b + n);
}

template <typename Key>
int64_t count_less(const Key* a, int64_t n, Key pivot) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += a[i] < pivot;
  return count;
}

template <typename Key>
Key median(const Key* a, int64_t n) {
  constexpr int64_t kSample = 32;
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
  while (n > kFew<Key>) {
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
      using L = Lanes<Key>;
      less = pivot == L::kMost ? n : partition<Key>(a, n, L::after(pivot), b);
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

// Floats with a nan or a negative zero cannot be keys.
template <typename Key>
bool copy_keys(const Key* from, int64_t n, Key flip, Key* to) {
  if constexpr (std::is_floating_point_v<Key>) {
    using Bits = std::conditional_t<sizeof(Key) == 4, uint32_t, uint64_t>;
    constexpr Bits kSign = Bits(1) << (8 * sizeof(Key) - 1);
    Bits found = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Key x = from[i];
      found |= (x != x) | (__builtin_bit_cast(Bits, x) == kSign);
      to[i] = x;
    }
    return found == 0;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ flip;
    return true;
  }
}

template <typename Key>
constexpr VectorSort<Key> kSort{sort<Key>, median<Key>, count_less<Key>, divide<false, Key>,
                                copy_keys<Key>};

}  // namespace
#endif

namespace KILN_LEVEL {

#ifdef __AVX512F__
const VectorSorts vector_sorts{kSort<uint32_t>, kSort<uint64_t>, kSort<float>, kSort<double>};
#else
const VectorSorts vector_sorts{};
#endif

}  // namespace KILN_LEVEL
}  // namespace kiln
