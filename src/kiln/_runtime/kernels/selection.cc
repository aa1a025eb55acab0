// The largest elements along an axis. The order is that of ops/reductions/sorting.py: by bits, so that 0 is
// above -0 and a nan is above infinity or, with its sign bit set, below everything; ties go to the
// lower index.
#include "kernels/element_types.h"
#include "kernels/leveled.h"

namespace kiln {
namespace {

// A signed key in the same order: comparing vectors of them takes one instruction.
template <typename S, typename Bits>
S order_of(Bits bits, bool is_float, Bits flip) {
  if (!is_float) return static_cast<S>(static_cast<Bits>(bits ^ flip));
  const S value = static_cast<S>(bits);
  constexpr Bits kRest = static_cast<Bits>(static_cast<Bits>(~Bits(0)) >> 1);
  return static_cast<S>(value ^ ((value >> (8 * sizeof(S) - 1)) & static_cast<S>(kRest)));
}

template <typename S>
struct Candidate {
  S key;
  int64_t index;
};

// Whether `a` comes first in the result.
template <typename S>
bool precedes(const Candidate<S>& a, const Candidate<S>& b) {
  return a.key != b.key ? a.key > b.key : a.index < b.index;
}

template <typename S>
void swap(Candidate<S>& a, Candidate<S>& b) {
  const Candidate<S> kept = a;
  a = b;
  b = kept;
}

template <typename S>
void insertion_sort(Candidate<S>* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Candidate<S> moving = a[i];
    int64_t at = i;
    for (; at > 0 && precedes(moving, a[at - 1]); --at) a[at] = a[at - 1];
    a[at] = moving;
  }
}

template <typename S>
void sift_down(Candidate<S>* a, int64_t at, int64_t n) {
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && precedes(a[child], a[child + 1])) ++child;
    if (!precedes(a[at], a[child])) return;
    swap(a[at], a[child]);
  }
}

template <typename S>
void heap_sort(Candidate<S>* a, int64_t n) {
  for (int64_t i = n / 2 - 1; i >= 0; --i) sift_down(a, i, n);
  for (int64_t end = n - 1; end > 0; --end) {
    swap(a[0], a[end]);
    sift_down(a, 0, end);
  }
}

// Partitions a range around the median of three; returns the size of the first part.
template <typename S>
int64_t partition(Candidate<S>* a, int64_t n) {
  Candidate<S>&first = a[0], &middle = a[n / 2], &last = a[n - 1];
  if (precedes(middle, first)) swap(middle, first);
  if (precedes(last, middle)) swap(last, middle);
  if (precedes(middle, first)) swap(middle, first);
  const Candidate<S> pivot = middle;
  int64_t i = -1, j = n;
  for (;;) {
    do ++i;
    while (precedes(a[i], pivot));
    do --j;
    while (precedes(pivot, a[j]));
    if (i >= j) return j + 1;
    swap(a[i], a[j]);
  }
}

// Sorts the first k of n candidates into place; none of the others precedes them.
template <typename S>
void sort_first(Candidate<S>* a, int64_t n, int64_t k, bool whole, int depth) {
  while (n > 24) {
    if (depth-- == 0) return heap_sort(a, n);
    const int64_t part = partition(a, n);
    if (part >= k) {
      n = part;
      continue;
    }
    if (whole) sort_first(a, part, part, true, depth);
    a += part;
    n -= part;
    k -= part;
  }
  insertion_sort(a, n);
}

template <typename S>
void sort_first(Candidate<S>* a, int64_t n, int64_t k, bool whole) {
  int depth = 2;
  for (int64_t rest = n; rest > 0; rest >>= 1) depth += 2;
  sort_first(a, n, k, whole, depth);
}

// Moves the first k of n candidates to the front; returns the last key among them.
template <typename S>
S bring_first(Candidate<S>* a, int64_t n, int64_t k) {
  sort_first(a, n, k, false);
  S least = a[0].key;
  for (int64_t j = 1; j < k; ++j) least = a[j].key < least ? a[j].key : least;
  return least;
}

struct Selection {
  int64_t size, k;
  bool is_float;
  uint64_t flip;
};

constexpr int64_t kBlock = 64, kPart = 16;
// A row has a first bound if each of its groups, `kBlock` for so many of the first k, has so many
// elements.
constexpr int64_t kPerBlock = 16, kFewestInGroup = 4, kMostBounded = 96;

template <typename S, bool is_float, int64_t count, typename Bits>
bool is_any_above(S least, const Bits* __restrict x, Bits flip) {
  int any = 0;
  for (int64_t j = 0; j < count; ++j) any |= order_of<S>(x[j], is_float, flip) > least;
  return any != 0;
}

// A key that at least k elements reach: the k-th largest of the largest elements of groups. The
// least key if there is none.
template <typename S, bool is_float, typename Bits>
S first_bound(const Bits* __restrict x, int64_t n, int64_t k, Bits flip, Candidate<S>* kept) {
  constexpr S kLeast = static_cast<S>(Bits(1) << (8 * sizeof(S) - 1));
  const int64_t groups = (k + kPerBlock - 1) / kPerBlock * kBlock;
  if (k > kMostBounded || n < kFewestInGroup * groups) return kLeast;
  S largest[(kMostBounded + kPerBlock - 1) / kPerBlock * kBlock];
  for (int64_t g = 0; g < groups; g += kBlock) {
    S most[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) most[j] = kLeast;
    for (int64_t i = g; i + kBlock <= n; i += groups) {
      for (int64_t j = 0; j < kBlock; ++j) {
        const S key = order_of<S>(x[i + j], is_float, flip);
        most[j] = key > most[j] ? key : most[j];
      }
    }
    for (int64_t j = 0; j < kBlock; ++j) largest[g + j] = most[j];
  }
  for (int64_t g = 0; g < groups; ++g) kept[g] = {largest[g], g};
  return bring_first(kept, groups, k);
}

// Keeps the candidates for the first k; an element not above the k-th so far is none.
template <typename S, bool is_float, typename Bits>
void select_row(const Selection& wanted, const char* in, char* values, int32_t* indices,
                Candidate<S>* kept, int64_t room) {
  const int64_t n = wanted.size, k = wanted.k;
  const Bits flip = static_cast<Bits>(wanted.flip);
  const Bits* __restrict x = reinterpret_cast<const Bits*>(in);
  constexpr S kLeast = static_cast<S>(Bits(1) << (8 * sizeof(S) - 1));
  const auto keep = [&](int64_t& count, int64_t j) {
    kept[count] = {order_of<S>(x[j], is_float, flip), j};
  };
  int64_t count = 0, i = 0;
  S least = first_bound<S, is_float>(x, n, k, flip, kept);
  if (least == kLeast) {
    for (; i < (room < n ? room : n); ++i) keep(count, i), ++count;
  } else {
    // Elements that only reach the bound are candidates too.
    --least;
  }
  while (i < n) {
    if (count + kBlock > room) {
      least = bring_first(kept, count, k);
      count = k;
    }
    for (; i < n && count + kBlock <= room; i += kBlock) {
      const int64_t end = n - i < kBlock ? n - i : kBlock;
      if (end == kBlock && !is_any_above<S, is_float, kBlock>(least, x + i, flip)) continue;
      for (int64_t part = i; part < i + end; part += kPart) {
        const int64_t last = part + kPart < i + end ? part + kPart : i + end;
        if (last - part == kPart && !is_any_above<S, is_float, kPart>(least, x + part, flip))
          continue;
        for (int64_t j = part; j < last; ++j) {
          keep(count, j);
          count += kept[count].key > least;
        }
      }
    }
  }
  sort_first(kept, count, k, true);
  Bits* out = reinterpret_cast<Bits*>(values);
  for (int64_t j = 0; j < k; ++j) {
    out[j] = x[kept[j].index];
    indices[j] = static_cast<int32_t>(kept[j].index);
  }
}

using SelectRow = void (*)(const Selection&, const char*, char*, int32_t*, char*, int64_t);

template <typename S, typename Bits>
void select_row_as(const Selection& wanted, const char* in, char* values, int32_t* indices,
                   char* kept, int64_t room) {
  Candidate<S>* candidates = reinterpret_cast<Candidate<S>*>(kept);
  if (wanted.is_float) select_row<S, true, Bits>(wanted, in, values, indices, candidates, room);
  else select_row<S, false, Bits>(wanted, in, values, indices, candidates, room);
}

SelectRow row_selector(int64_t item) {
  switch (item) {
    case 1: return select_row_as<int8_t, uint8_t>;
    case 2: return select_row_as<int16_t, uint16_t>;
    case 4: return select_row_as<int32_t, uint32_t>;
    default: return select_row_as<int64_t, uint64_t>;
  }
}

}  // namespace

namespace KILN_LEVEL {

// top_k. Buffers: operand, values, int32 indices; no result overlaps the operand.
// Numbers: first row, rows, size of the axis, inner, k, type.
int32_t top_k(Call*, void* const* buffers, const int64_t* numbers) {
  const int64_t first = numbers[0], count = numbers[1], k = numbers[4], type = numbers[5];
  const Rows rows{numbers[2], numbers[3]}, chosen{k, numbers[3]};
  const int64_t item = size_of(type);
  if (item == 0 || type >= kComplex64 || k > rows.size) return kUnsupported;
  if (count <= 0 || k == 0) return kDone;
  const bool is_float = type >= kFloat16;
  const bool is_unsigned = type == kBool || (type >= kUint8 && type <= kUint64);
  const Selection wanted{rows.size, k, is_float,
                         is_unsigned ? uint64_t(1) << (8 * item - 1) : uint64_t(0)};
  // With much room the candidates are rarely sorted; with room for all, once.
  int64_t room = 2 * k + 4 * kBlock;
  if (room > rows.size / 2) room = rows.size + kBlock;
  const int64_t together = rows.inner == 1 ? 1 : 16;
  const int64_t kept = room * static_cast<int64_t>(sizeof(Candidate<int64_t>));
  FreshMemory scratch(kept + together * (rows.size * item + k * (item + 4)) + 64);
  if (!scratch) return kOutOfMemory;
  const SelectRow select = row_selector(item);
  const char* in = static_cast<const char*>(buffers[0]);
  char* values = static_cast<char*>(buffers[1]);
  char* indices = static_cast<char*>(buffers[2]);
  for (int64_t row = first; row < first + count;) {
    if (rows.inner == 1) {
      select(wanted, in + row * rows.size * item, values + row * k * item,
             reinterpret_cast<int32_t*>(indices) + row * k, scratch.data(), room);
      ++row;
      continue;
    }
    int64_t here = rows.inner - row % rows.inner;
    if (here > together) here = together;
    if (here > first + count - row) here = first + count - row;
    char* found = scratch.data() + kept;
    char* dense = found + (together * k * 4 + 15) / 16 * 16;
    char* best = dense + together * rows.size * item;
    gather_rows(in + rows.start(row) * item, dense, here, rows, item);
    for (int64_t b = 0; b < here; ++b) {
      select(wanted, dense + b * rows.size * item, best + b * k * item,
             reinterpret_cast<int32_t*>(found) + b * k, scratch.data(), room);
    }
    scatter_rows(best, values + chosen.start(row) * item, here, chosen, item);
    scatter_rows(found, indices + chosen.start(row) * 4, here, chosen, 4);
    row += here;
  }
  return kDone;
}

}  // namespace KILN_LEVEL
}  // namespace kiln
