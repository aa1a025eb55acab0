// The context of calls of an exported library: what a call needs besides its operands and results.
// The code of `engines/native/library/` reads and writes the fields of `Call`, and the size of the
// workspace, by position.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/native_call.h"
#include "abi/pool.h"

namespace kiln {

// Scratch memory of the kernels that run on a thread.
struct ScratchBlocks {
  // Allocated with the context: its size is that which kernels of the program need.
  char* reserved;
  size_t reserved_bytes, taken;
  // Blocks beyond it, if a kernel needs more, which later calls find.
  static constexpr int kMost = 32;  // kernels that call each other
  char* memory[kMost];
  size_t size[kMost];
  int in_use;
};

// The blocks of the call that runs on this thread.
extern __thread ScratchBlocks* scratch_blocks;

struct Context {
  Call call;
  int64_t workspace_bytes;
  alignas(8) const char* constants;  // mapped from a file; null: not yet
  size_t constant_bytes;
  Fault fault;
  ScratchBlocks scratch;
};

// Runs a body on chunks of [0, count) on the calling thread.
int32_t run_in_order(Call* call, ParallelBody body, void* context, int64_t count, int64_t grain);

// Ends the threads of a context, if it has any.
void release_threads(Context* context);
// Errors of a call besides those of kernels (`Status`).
enum LibraryStatus : int32_t {
  kNoContext = 3,
  kBadSize = 4,
  kSmallWorkspace = 5,
  kNullPointer = 6,
  kMisaligned = 7,
  kOverlap = 8,
  kNoConstants = 9,
};

}  // namespace kiln
