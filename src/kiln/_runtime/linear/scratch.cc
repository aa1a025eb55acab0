#include "scratch.h"

#include <cstdlib>

namespace kiln {
namespace {

// What a thread keeps at most: more is rare, and a thread of the pool lives as long as the process.
constexpr size_t kKept = size_t{64} << 20;

struct Held {
  char* memory = nullptr;
  size_t size = 0;
  bool in_use = false;
  ~Held() { std::free(memory); }
};

thread_local Held held;

char* aligned(size_t bytes) {
  constexpr size_t kPage = 4096;
  return static_cast<char*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
}

}  // namespace

Scratch::Scratch(size_t bytes) : is_kept_(!held.in_use && bytes <= kKept) {
  if (bytes == 0) bytes = 1;
  if (!is_kept_) {
    memory_ = aligned(bytes);
    return;
  }
  if (held.size < bytes) {
    std::free(held.memory);
    held.memory = aligned(bytes);
    held.size = held.memory == nullptr ? 0 : bytes;
  }
  memory_ = held.memory;
  held.in_use = memory_ != nullptr;
  is_kept_ = memory_ != nullptr;
}

Scratch::~Scratch() {
  if (is_kept_) held.in_use = false;
  else std::free(memory_);
}

}  // namespace kiln
