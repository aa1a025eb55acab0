// Stable sorting of elements by an unsigned key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "abi/split.h"
#include "machine/scratch.h"

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

// Threads divide more elements than these by their highest digit, and sort a bucket each.
constexpr int64_t kMostInCache = 1 << 16;
// Elements per task of a pass over them, and about how many tasks there are.
constexpr int64_t kPass = 1 << 15, kTasks = 16;

inline Blocks passes_over(int64_t n) { return Blocks::of(n, std::max(kPass, n / kTasks), 1); }

// Runs `body(begin, end)` over parts of 0..n.
template <typename Body>
[[nodiscard]] int32_t over_passes(Call* call, int64_t n, const Body& body) {
  const Blocks blocks = passes_over(n);
  return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
    body(blocks.begin(first), blocks.end(last - 1));
    return kDone;
  });
}

// The highest digit, and how many elements there are for each of its values at least.
constexpr int kHighDigit = 11;
constexpr int64_t kPerBucket = 1 << 8;

// Buckets by the key's bits from `shift` on, of which `count` is a power of two.
struct Buckets {
  int shift;
  int64_t count;

  template <typename E>
  int64_t of(const E& e) const {
    return static_cast<int64_t>(e.key >> shift) & (count - 1);
  }
};

template <typename E>
void count_elements(const E* from, const E* end, const Buckets buckets, uint32_t* counts) {
  std::fill_n(counts, buckets.count, 0u);
  for (; from < end; ++from) ++counts[buckets.of(*from)];
}

// `next`: the place in `to` of the next element of each bucket.
template <typename E>
void divide(const E* from, const E* end, const Buckets buckets, uint32_t* next, E* to) {
  for (; from < end; ++from) to[next[buckets.of(*from)]++] = *from;
}

// Sorts elements by the low `bits` of their keys, with `b` as scratch, on all threads. Passes ranges
// of sorted elements to `emit(sorted, begin, size)`: all of them, in any order. (One thread gains
// nothing from buckets: a pass more takes what the cache saves.)
template <typename E, typename Emit>
[[nodiscard]] int32_t sort_in_buckets(Call* call, E* a, E* b, int64_t begin, int64_t n, int bits,
                                      const Emit& emit) {
  if (bits == 0 || n <= kMostInCache || n >= int64_t(1) << 32 || threads_of(call) == 1) {
    emit(bits == 0 ? a : sort_by_key(a, b, n, bits), begin, n);
    return kDone;
  }
  int digit = 1;
  while (digit < std::min(bits, kHighDigit) && n >> (digit + 1) >= kPerBucket) ++digit;
  const Buckets buckets{bits - digit, int64_t(1) << digit};
  const Blocks blocks = passes_over(n);
  const Scratch scratch(static_cast<size_t>(blocks.count * buckets.count) * sizeof(uint32_t));
  if (!scratch) return kOutOfMemory;
  uint32_t* const places = reinterpret_cast<uint32_t*>(scratch.bytes());
  const auto each = [&](auto visit) {
    return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        visit(places + i * buckets.count, a + blocks.begin(i), a + blocks.end(i));
      }
      return kDone;
    });
  };
  int32_t status = each([&](uint32_t* counts, const E* from, const E* end) {
    count_elements(from, end, buckets, counts);
  });
  if (status != kDone) return status;
  uint32_t starts[(1 << kHighDigit) + 1], before = 0;
  for (int64_t bucket = 0; bucket < buckets.count; ++bucket) {
    starts[bucket] = before;
    for (int64_t i = 0; i < blocks.count; ++i) {
      const uint32_t here = places[i * buckets.count + bucket];
      places[i * buckets.count + bucket] = before;
      before += here;
    }
  }
  starts[buckets.count] = before;
  status = each(
      [&](uint32_t* next, const E* from, const E* end) { divide(from, end, buckets, next, b); });
  if (status != kDone) return status;
  const auto sort_bucket = [&](Call* own, int64_t bucket) {
    const int64_t start = starts[bucket], size = starts[bucket + 1] - start;
    return sort_in_buckets(own, b + start, a + start, begin + start, size, buckets.shift, emit);
  };
  // All threads share a large bucket.
  const auto is_large = [&](int64_t bucket) {
    return starts[bucket + 1] - starts[bucket] > std::max(n / kTasks, kMostInCache);
  };
  for (int64_t bucket = 0; bucket < buckets.count && status == kDone; ++bucket) {
    if (is_large(bucket)) status = sort_bucket(call, bucket);
  }
  if (status != kDone) return status;
  return over_blocks(call, buckets.count, std::max<int64_t>(1, buckets.count / (4 * kTasks)),
                     [&](Call* own, int64_t first, int64_t last) {
                       int32_t result = kDone;
                       for (int64_t i = first; i < last && result == kDone; ++i) {
                         if (starts[i + 1] > starts[i] && !is_large(i))
                           result = sort_bucket(own, i);
                       }
                       return result;
                     });
}

}  // namespace
}  // namespace kiln
