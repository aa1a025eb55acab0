#include "machine/scratch.h"

#include <cstdlib>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace kiln {
namespace {

// The most that a thread keeps: more is rarely needed, and workers live as long as the process.
constexpr size_t kKept = size_t{64} << 20;

// One block per nesting level of kernels that call others.
constexpr int kLevels = 5;

struct Held {
  char* memory[kLevels] = {};
  size_t size[kLevels] = {};
  int in_use = 0;
  ~Held() {
    for (char* block : memory) std::free(block);
  }
};

thread_local Held held;

char* aligned(size_t bytes) {
  constexpr size_t kPage = 4096, kLargePage = size_t{2} << 20;
  const size_t page = bytes < kLargePage ? kPage : kLargePage;
  const size_t rounded = (bytes + page - 1) / page * page;
  char* memory = static_cast<char*>(std::aligned_alloc(page, rounded));
#ifdef __linux__
  // Large strides through much memory would miss the TLB with small pages.
  if (memory != nullptr && page == kLargePage) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return memory;
}

}  // namespace

Scratch::Scratch(size_t bytes) : is_kept_(held.in_use < kLevels && bytes <= kKept) {
  if (bytes == 0) bytes = 1;
  if (!is_kept_) {
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
  if (is_kept_) --held.in_use;
  else std::free(memory_);
}

}  // namespace kiln
