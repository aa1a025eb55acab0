// The thread pool of compiled code and kernels. Workers never hold the GIL, and no signal is
// handled on them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "abi/native_call.h"

namespace kiln {

constexpr int64_t kMostChunks = (int64_t{1} << 20) - 1;

// The indices of a chunk, and the number of chunks.
struct Chunks {
  Chunks(int64_t indices, int64_t wanted) : grain(wanted < 1 ? 1 : wanted) {
    while ((indices - 1) / grain >= kMostChunks) grain *= 2;
    count = indices < 1 ? 0 : (indices - 1) / grain + 1;
  }
  int64_t grain, count;
};

// A part of the work: the half-open range from `begin` to `end`.
using ParallelBody = int32_t (*)(Call*, void* context, int64_t begin, int64_t end);

// Run a body on [0, count), in chunks of `grain` indices: chunk boundaries do not depend on the
// number of threads, so neither do results. It runs on this thread alone if the call has no pool,
// inside another parallel loop, and while another call uses the pool. The `Call` that a body is
// given is the thread's own; its fault is the slot to write to. If several chunks fail, the status
// of the first is returned; chunks after it may not run. Chunks are larger if there would be more
// than `kMostChunks`.
//
// Compiled code calls it as `kiln_parallel`. Worthwhile from about 10 microseconds of work per
// chunk.
[[nodiscard]] int32_t run_in_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                                      int64_t grain);

// The same for kernels: body(Call*, begin, end), which returns a status or nothing.
template <typename F>
[[nodiscard]] int32_t parallel_for(Call* call, int64_t count, int64_t grain, F&& body) {
  using Given = std::remove_reference_t<F>;
  ParallelBody each = [](Call* own, void* context, int64_t begin, int64_t end) -> int32_t {
    Given& function = *static_cast<Given*>(context);
    if constexpr (std::is_void_v<decltype(function(own, begin, end))>) {
      function(own, begin, end);
      return kDone;
    } else {
      return function(own, begin, end);
    }
  };
  return run_in_parallel(call, each, const_cast<std::remove_const_t<Given>*>(&body), count, grain);
}

// The pool of this process; the child of a fork has a new one.
Pool* current_pool();

// How many threads a parallel loop of a call has; one inside such a loop.
int32_t threads_of(Call* call);

// The default number of threads of this thread's calls; positive.
int32_t threads_in_use();

}  // namespace kiln
