// Memory that a kernel needs while it runs. Each thread keeps its own, since fresh memory costs a
// page fault for every 4 KiB.
#pragma once

#include <cstddef>

namespace kiln {

// Aligned memory for the lifetime of the object; null if memory runs out. A nested kernel gets
// other memory than the outer one.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  explicit operator bool() const { return memory_ != nullptr; }
  char* bytes() const { return memory_; }
  // Allocates the next `count` elements.
  template <typename T>
  T* take(size_t count) {
    T* taken = reinterpret_cast<T*>(memory_ + used_);
    used_ += size_of<T>(count);
    return taken;
  }
  // The size of `count` elements, rounded up to the alignment.
  template <typename T>
  static constexpr size_t size_of(size_t count) {
    return (count * sizeof(T) + 63) / 64 * 64;
  }
  // What a block takes of the memory of a context.
  static constexpr size_t room(size_t bytes) { return (bytes + 64) / 64 * 64; }

 private:
  char* memory_;
  size_t used_ = 0;
  // The same for the extension and for static runtimes, which share objects (`kernels_v4` of CMake):
  // a member of one of them alone would be written outside the others' objects.
  //
  bool is_kept_;
};

// In the static runtime only: which objects there are on this thread, and forgetting later ones of a
// kernel that was stopped.
struct ScratchMark {
  size_t taken;  // of the memory that its context was created with
  int blocks;    // beyond it
};
ScratchMark scratch_in_use();
void restore_scratch(ScratchMark mark);

}  // namespace kiln
