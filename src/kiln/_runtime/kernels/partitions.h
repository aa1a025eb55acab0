// Sorting keys without payload by vectors, on all threads.
#pragma once

#include <algorithm>

#include "abi/split.h"
#include "kernels/radix.h"
#include "kernels/vector_sort.h"

namespace kiln {
namespace {

// The least piece that is sorted apart.
constexpr int64_t kLeastPiece = 1 << 15;

// Partitions keys from one buffer to the other, all threads together; counts those that are less
// than the pivot.
template <typename Key>
[[nodiscard]] int32_t partition_together(Call* call, const VectorSort<Key>& code, const Key* from,
                                         Key* to, int64_t n, int64_t* below) {
  const Key pivot = code.median(from, n);
  const Blocks blocks = passes_over(n);
  int64_t less[2 * kTasks];
  const auto each = [&](auto body) {
    return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        body(i, from + blocks.begin(i), blocks.end(i) - blocks.begin(i));
      }
      return kDone;
    });
  };
  const int32_t status = each([&](int64_t i, const Key* part, int64_t size) {
    less[i] = code.count_less(part, size, pivot);
  });
  if (status != kDone) return status;
  Key *low[2 * kTasks], *high[2 * kTasks], *next = to, *end = to + n;
  for (int64_t i = 0; i < blocks.count; ++i) {
    low[i] = next;
    high[i] = end;
    next += less[i];
    end -= blocks.end(i) - blocks.begin(i) - less[i];
  }
  *below = next - to;
  return each([&](int64_t i, const Key* part, int64_t size) {
    code.divide(part, size, pivot, low[i], high[i]);
  });
}

// Sorts keys without payload, with vectors, in place. Large inputs are partitioned until there is
// work for all threads.
template <typename Key>
[[nodiscard]] int32_t sort_by_vectors(Call* call, const VectorSort<Key>& code, Key* a, Key* b,
                                      int64_t n) {
  struct Piece {
    int64_t begin, size;
    bool is_moved, is_final;
    Key* in(Key* here, Key* there) const { return (is_moved ? there : here) + begin; }
  };
  Piece pieces[2 * kTasks], parts[2 * kTasks];
  pieces[0] = {0, n, false, false};
  int64_t count = 1;
  const auto is_large = [&](const Piece& piece) {
    return !piece.is_final && piece.size >= std::max(2 * kLeastPiece, n / kTasks);
  };
  while (threads_of(call) > 1 && count <= kTasks && std::any_of(pieces, pieces + count, is_large)) {
    int64_t less[2 * kTasks] = {};
    if (count == 1) {
      const int32_t status = partition_together(call, code, a, b, n, &less[0]);
      if (status != kDone) return status;
    } else {
      const int32_t status = over_blocks(call, count, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const Piece& piece = pieces[i];
          if (!is_large(piece)) continue;
          const Key* from = piece.in(a, b);
          Key* to = piece.in(b, a);
          const Key pivot = code.median(from, piece.size);
          less[i] = code.divide(from, piece.size, pivot, to, to + piece.size);
        }
        return kDone;
      });
      if (status != kDone) return status;
    }
    int64_t made = 0;
    for (int64_t i = 0; i < count; ++i) {
      Piece piece = pieces[i];
      if (less[i] == 0) {  // not partitioned, or all keys are at least the pivot
        piece.is_final = piece.is_final || is_large(piece);
        parts[made++] = piece;
        continue;
      }
      const bool is_moved = !piece.is_moved;
      parts[made++] = {piece.begin, less[i], is_moved, false};
      parts[made++] = {piece.begin + less[i], piece.size - less[i], is_moved, false};
    }
    std::copy_n(parts, made, pieces);
    count = made;
  }
  return over_blocks(call, count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Piece& piece = pieces[i];
      code.sort(piece.in(a, b), piece.in(b, a), piece.size, a + piece.begin);
    }
    return kDone;
  });
}

}  // namespace
}  // namespace kiln
