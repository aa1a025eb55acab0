// Scratch memory of kernels in exported libraries: part of the workspace of a call's context, so that
// calls allocate none.
#include "machine/scratch.h"

#include <cstdlib>

#include "library/context.h"

namespace kiln {
namespace {

constexpr size_t kPage = 4096;

// Of a kernel that runs outside a call of a library: there is none.
ScratchBlocks nowhere;

[[gnu::noinline]] char* aligned(size_t bytes) {
  return static_cast<char*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
}

}  // namespace

__thread ScratchBlocks* scratch_blocks = &nowhere;

// Memory is taken in the order in which kernels call each other. A block that is too small is
// replaced by a larger one.
Scratch::Scratch(size_t bytes) : is_kept_(true) {
  ScratchBlocks& held = *scratch_blocks;
  const size_t rounded = room(bytes);
  if (rounded <= held.reserved_bytes - held.taken) {
    memory_ = held.reserved + held.taken;
    held.taken += rounded;
    return;
  }
  if (bytes == 0) bytes = 1;
  if (held.in_use == ScratchBlocks::kMost) {
    is_kept_ = false;
    memory_ = aligned(bytes);
    return;
  }
  char*& memory = held.memory[held.in_use];
  size_t& size = held.size[held.in_use];
  if (size < bytes) {
    std::free(memory);
    memory = aligned(bytes);
    size = memory == nullptr ? 0 : bytes;
  }
  memory_ = memory;
  is_kept_ = memory != nullptr;
  held.in_use += is_kept_;
}

Scratch::~Scratch() {
  ScratchBlocks& held = *scratch_blocks;
  // The latest is destroyed first.
  const auto place = static_cast<size_t>(memory_ - held.reserved);
  if (memory_ >= held.reserved && place < held.reserved_bytes) held.taken = place;
  else if (is_kept_) --scratch_blocks->in_use;
  else std::free(memory_);
}

ScratchMark scratch_in_use() { return {scratch_blocks->taken, scratch_blocks->in_use}; }

void restore_scratch(ScratchMark mark) {
  scratch_blocks->taken = mark.taken;
  scratch_blocks->in_use = mark.blocks;
}

}  // namespace kiln
