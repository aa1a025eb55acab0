// Parallel loops of exported libraries: they run on the calling thread. Chunks are those of the
// thread pool, and so are the bits of results.
#include <algorithm>

#include "abi/pool.h"
#include "library/context.h"

namespace kiln {

int32_t threads_of(Call*) { return 1; }

int32_t threads_in_use() { return 1; }

int32_t run_in_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                        int64_t grain) {
  constexpr int64_t kMostChunks = (int64_t{1} << 20) - 1;
  grain = std::max<int64_t>(grain, 1);
  while ((count - 1) / grain >= kMostChunks) grain *= 2;
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

void release_threads(Context*) {}

}  // namespace kiln
