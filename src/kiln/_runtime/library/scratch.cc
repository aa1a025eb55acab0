// Scratch memory of kernels in exported libraries: it belongs to the context of a call, so that later
// calls allocate none, and is freed with the context.
#include "machine/scratch.h"

#include <cstdlib>

#include "library/context.h"

namespace kiln {
namespace {

constexpr size_t kPage = 4096;

// Of a kernel that runs outside a call of a library: there is none.
ScratchBlocks nowhere;

}  // namespace

__thread ScratchBlocks* scratch_blocks = &nowhere;

// Blocks are taken in the order in which kernels call each other. One that is too small is replaced
// by a larger one.
Scratch::Scratch(size_t bytes) : is_kept_(true) {
  ScratchBlocks& held = *scratch_blocks;
  if (bytes == 0) bytes = 1;
  if (held.in_use == ScratchBlocks::kMost) {
    is_kept_ = false;
    memory_ = static_cast<char*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
    return;
  }
  char*& memory = held.memory[held.in_use];
  size_t& size = held.size[held.in_use];
  if (size < bytes) {
    std::free(memory);
    memory = static_cast<char*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
    size = memory == nullptr ? 0 : bytes;
  }
  memory_ = memory;
  is_kept_ = memory != nullptr;
  held.in_use += is_kept_;
}

Scratch::~Scratch() {
  if (is_kept_) --scratch_blocks->in_use;
  else std::free(memory_);
}

int scratch_in_use() { return scratch_blocks->in_use; }

void restore_scratch(int in_use) { scratch_blocks->in_use = in_use; }

}  // namespace kiln
