// Division of work into blocks. Block boundaries depend on the sizes only, so that results have the
// same bits with any number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include "abi/pool.h"

namespace kiln {

// Runs `body(begin, end)` over ranges of `grain` blocks (the last may be shorter) that cover
// 0..count, on the call's threads; over all of them in one range if there is only one thread.
// Returns the first failure. A body that calls compiled code takes the thread's own call as its
// first parameter.
template <typename Body>
[[nodiscard]] int32_t over_blocks(Call* call, int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return 0;
  const auto each = [&](Call* own, int64_t begin, int64_t end) -> int32_t {
    if constexpr (std::is_invocable_v<const Body&, Call*, int64_t, int64_t>) {
      return body(own, begin, end);
    } else {
      return body(begin, end);
    }
  };
  if (call == nullptr || call->pool == nullptr) return each(call, 0, count);
  return parallel_for(call, count, grain, each);
}

template <typename Body>
[[nodiscard]] int32_t over_blocks(Call* call, int64_t count, const Body& body) {
  return over_blocks(call, count, 1, body);
}

// The start of each block: all have the same size, except that the last is larger rather than
// followed by a small one.
struct Blocks {
  int64_t items, size, count;

  // Blocks of at least `least` items, in multiples of `step`.
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
