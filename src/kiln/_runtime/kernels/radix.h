// Stable sorting of elements by an unsigned key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

template <typename Key, typename Payload>
struct Keyed {
  Key key;
  Payload payload;
};
template <typename Key>
struct Keyed<Key, void> {
  Key key;
};

// Below these sizes, counting and clearing of buckets would take most of the time.
constexpr int64_t kInsertion = 40;
constexpr int64_t kNarrowDigits = 2000;

template <typename E>
void insertion_sort(E* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    E moving = a[i];
    int64_t at = i;
    for (; at > 0 && moving.key < a[at - 1].key; --at) a[at] = a[at - 1];
    a[at] = moving;
  }
}

// From the lowest digit to the highest; digits that are equal everywhere are skipped.
template <int digit, typename E>
E* radix_sort(E* a, E* b, int64_t n, int bits) {
  using Key = decltype(a->key);
  constexpr int kMostDigits = (8 * static_cast<int>(sizeof(Key)) + digit - 1) / digit;
  constexpr uint32_t kBuckets = 1u << digit, kMask = kBuckets - 1;
  const int digits = (bits + digit - 1) / digit;
  uint32_t counts[kMostDigits][kBuckets];
  std::memset(counts, 0, sizeof counts[0] * static_cast<size_t>(digits));
  for (int64_t i = 0; i < n; ++i) {
    Key key = a[i].key;
    for (int d = 0; d < digits; ++d, key = static_cast<Key>(key >> digit)) ++counts[d][key & kMask];
  }
  for (int d = 0; d < digits; ++d) {
    uint32_t* places = counts[d];
    const int shift = d * digit;
    if (places[a[0].key >> shift & kMask] == n) continue;
    uint32_t before = 0;
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      uint32_t here = places[bucket];
      places[bucket] = before;
      before += here;
    }
    for (int64_t i = 0; i < n; ++i) b[places[a[i].key >> shift & kMask]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

// Sorts `a` by the low `bits` of its keys, with `b` as scratch; returns which of them is the
// result.
template <typename E>
E* sort_by_key(E* a, E* b, int64_t n, int bits) {
  if (n <= kInsertion) {
    insertion_sort(a, n);
    return a;
  }
  if (n <= kNarrowDigits || bits <= 16) return radix_sort<8>(a, b, n, bits);
  if (n < int64_t(1) << 32) return radix_sort<11>(a, b, n, bits);
  std::stable_sort(a, a + n, [](const E& x, const E& y) { return x.key < y.key; });
  return a;
}

}  // namespace
}  // namespace kiln
