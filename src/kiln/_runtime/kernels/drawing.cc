// The hidden state of random numbers without a seed.
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>

#include "abi/symbols.h"

namespace kiln {
namespace {

uint64_t entropy() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

// kiln_draw_counters. Buffers: two u64 of result, a key and the first counter of a range that no
// other call gets. Numbers: how many counters.
int32_t draw_counters(Call*, void* const* buffers, const int64_t* numbers) {
  static const uint64_t key = entropy();
  static std::atomic<uint64_t> next{0};
  uint64_t* state = static_cast<uint64_t*>(buffers[0]);
  // The child of a fork inherits the counters of its parent, but must not repeat its numbers.
  state[0] = key ^ static_cast<uint64_t>(getpid()) * 0x9E3779B97F4A7C15;
  state[1] = next.fetch_add(static_cast<uint64_t>(numbers[0]), std::memory_order_relaxed);
  return kDone;
}

}  // namespace

KILN_KERNEL_SYMBOL("kiln_draw_counters", draw_counters)
}  // namespace kiln
