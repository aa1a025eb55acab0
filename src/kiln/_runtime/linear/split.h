// Work in blocks. Where a block begins depends on the sizes alone, so that the results have the
// same bits on every number of threads.
#pragma once

#include <cstdint>

#include "../pool.h"

namespace kiln {

// Runs `body(begin, end)` over ranges of blocks that cover 0..count, of `grain` blocks but the
// last, on the threads of the call; over all at once if there is no other thread. Returns the first
// failure.
template <typename Body>
[[nodiscard]] int32_t over_blocks(Call* call, int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return 0;
  if (call == nullptr || call->pool == nullptr) return body(int64_t{0}, count);
  return parallel_for(call, count, grain,
                      [&](Call*, int64_t begin, int64_t end) { return body(begin, end); });
}

template <typename Body>
[[nodiscard]] int32_t over_blocks(Call* call, int64_t count, const Body& body) {
  return over_blocks(call, count, 1, body);
}

// Where the blocks of a number of items begin: all of the same size, but that the last is larger
// rather than another be small.
struct Blocks {
  int64_t items, size, count;

  // Blocks of at least `least` items and a multiple of `step`.
  static Blocks of(int64_t items, int64_t least, int64_t step) {
    int64_t size = (least + step - 1) / step * step;
    if (size < step) size = step;
    int64_t count = items / size;
    return {items, size, count < 1 ? 1 : count};
  }
  int64_t begin(int64_t block) const { return block * size; }
  int64_t end(int64_t block) const { return block + 1 == count ? items : (block + 1) * size; }
};

}  // namespace kiln
