// The steps of a long program, which compiled code stores as a table: code for each step would take
// longer to compile than to run.
#include <cstdint>

#include "abi/native_call.h"
#include "abi/pool.h"
#include "abi/symbols.h"

namespace kiln {
namespace {

// `engines/native/llvm/sequences.py` writes these. A negative offset, count or grain n stands for
// size number -1 - n of the call. A kernel whose numbers are sizes of the call has the first of
// them as its count, and `kFromCall` as its grain.
struct Where {
  int32_t space;  // 0 operands, 1 results, 2 the workspace, 3 a constant
  int32_t number;
  int64_t offset;
  char* constant;
};

struct Step {
  void* function;          // a `ParallelBody`, or a `Kernel` if there are numbers
  const int64_t* numbers;  // of a kernel
  int64_t count, grain;    // of a body; grain 0: all on this thread
  int64_t first, buffers;  // of `Where`
};

constexpr int kMostBuffers = 64;
constexpr int64_t kFromCall = INT64_MIN;

int64_t number(const Call* call, int64_t n) { return n >= 0 ? n : call->sizes[-1 - n]; }

char* place(const Call* call, const Where& where) {
  switch (where.space) {
    case 0: return const_cast<char*>(static_cast<const char*>(call->operands[where.number]));
    case 1: return static_cast<char*>(call->results[where.number]);
    case 2: return call->workspace;
    default: return where.constant;
  }
}

int32_t run_sequence(Call* call, const Step* steps, int64_t count, const Where* places) {
  void* buffers[kMostBuffers];
  for (const Step* step = steps; step != steps + count; ++step) {
    const Where* where = places + step->first;
    for (int64_t i = 0; i < step->buffers; ++i) {
      buffers[i] = place(call, where[i]) + number(call, where[i].offset);
    }
    int32_t status;
    if (step->grain == kFromCall) {
      const int64_t* numbers = call->sizes + step->count;
      status = reinterpret_cast<Kernel>(step->function)(call, buffers, numbers);
    } else if (step->numbers != nullptr) {
      status = reinterpret_cast<Kernel>(step->function)(call, buffers, step->numbers);
    } else {
      const auto body = reinterpret_cast<ParallelBody>(step->function);
      const int64_t count = number(call, step->count), grain = number(call, step->grain);
      status = grain != 0 ? run_in_parallel(call, body, buffers, count, grain)
                          : body(call, buffers, 0, count);
    }
    if (status != kDone) return status;
  }
  return kDone;
}

}  // namespace

extern "C" int32_t kiln_sequence(Call* call, const void* steps, int64_t count, const void* places) {
  return run_sequence(call, static_cast<const Step*>(steps), count,
                      static_cast<const Where*>(places));
}
KILN_FUNCTION_SYMBOL(kiln_sequence)

}  // namespace kiln
