// Parallel loops of exported libraries: they run on the calling thread. Chunks are those of the
// thread pool, and so are the bits of results.
#include "abi/pool.h"
#include "library/context.h"

namespace kiln {

int32_t threads_of(Call*) { return 1; }

int32_t threads_in_use() { return 1; }

int32_t run_in_parallel(Call* call, ParallelBody body, void* context, int64_t count,
                        int64_t grain) {
  return run_in_order(call, body, context, count, Chunks(count, grain).grain);
}

void release_threads(Context*) {}

}  // namespace kiln
