// Work in blocks. Where a block begins depends on the sizes alone, so that the results have the same
// bits on every number of threads.
#pragma once

#include <cstdint>

#include "../native_call.h"

namespace kiln {

// Runs `body(begin, end)` over ranges of blocks that cover 0..count; returns the first failure.
template <typename Body>
int32_t over_blocks(Call*, int64_t count, const Body& body) {
  return count > 0 ? body(int64_t{0}, count) : 0;
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
