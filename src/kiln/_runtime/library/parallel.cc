// Parallel loops of compiled code in exported libraries. `one_thread.cc` or `threads.cc` runs them.
#include <algorithm>

#include "library/context.h"

namespace kiln {

int32_t run_in_order(Call* call, ParallelBody body, void* context, int64_t count, int64_t grain) {
  for (int64_t begin = 0; begin < count; begin += grain) {
    const int32_t status = body(call, context, begin, std::min(count, begin + grain));
    if (status != kDone) return status;
  }
  return kDone;
}

extern "C" int32_t kiln_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                                 int64_t grain) {
  return run_in_parallel(call, body, context, count, grain);
}

// Signals are the caller's business.
extern "C" int32_t kiln_poll(Call*) { return kDone; }

}  // namespace kiln
