// The threads that compiled code and kernels share their work with. They never have the
// interpreter's lock, and no signal is handled on them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "native_call.h"

namespace kiln {

// A part of the work: the numbers from `begin` on, before `end`.
using ParallelBody = int32_t (*)(Call*, void* context, int64_t begin, int64_t end);

// Run a body on [0, count), in chunks of `grain` numbers: where chunks begin does not depend on the
// number of threads, so neither do results. It runs on this thread alone if the call has no pool,
// within another parallel loop, and while another call has the threads. The `Call` that a body is
// given is the thread's own; its fault is the slot to write to. Of several chunks that fail the
// first counts, and what it returned is returned; chunks after it may not run. Chunks are larger if
// there would be more than 2^31.
//
// Compiled code calls it as `kiln_parallel`. Worth it from about 10 microseconds of work a chunk.
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

// The pool of this process: in the child of a fork another one.
Pool* current_pool();

// How many threads a call of this thread uses that does not say: a positive number.
int32_t threads_in_use();

}  // namespace kiln
