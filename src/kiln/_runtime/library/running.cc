// The call of a program whose kernels need scratch memory.
#include "library/context.h"

namespace kiln {

extern "C" int32_t kiln_library_run(Context* context, Entry entry) {
  ScratchBlocks* const outer = scratch_blocks;
  scratch_blocks = &context->scratch;
  const int32_t status = entry(&context->call);
  scratch_blocks = outer;
  return status;
}

}  // namespace kiln
