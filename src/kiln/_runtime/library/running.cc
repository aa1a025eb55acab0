// The call of a program whose kernels need scratch memory.
#include "library/context.h"

namespace kiln {

// Kernels have what is left of the workspace after `used` bytes. Calls check the workspace: there is
// not less.
extern "C" int32_t kiln_library_run(Context* context, Entry entry, int64_t used) {
  ScratchBlocks* const outer = scratch_blocks;
  context->scratch.reserved = context->call.workspace + used;
  context->scratch.reserved_bytes = static_cast<size_t>(context->workspace_bytes - used);
  scratch_blocks = &context->scratch;
  const int32_t status = entry(&context->call);
  scratch_blocks = outer;
  return status;
}

}  // namespace kiln
