// How a transform of a given size is computed; plans are cached.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi/native_call.h"
#include "abi/split.h"
#include "fft/columns.h"
#include "kernels/recovery.h"
#include "machine/scratch.h"

namespace kiln {

// The factorization of a size into stages of small radices.
template <typename T>
struct FftStages {
  int64_t size;
  std::vector<FftStage<T>> stages;
  std::vector<T> numbers;  // to which the stages point
};

template <typename T>
using FftStagesRef = std::shared_ptr<const FftStages<T>>;

template <typename T>
struct FftPlan {
  int64_t size;
  // Columns, or many rows at once: null for a large size, or one with a large prime factor.
  FftStagesRef<T> whole;
  // One row as a matrix (rows, columns): its columns, times factors, then its rows. Null if small.
  FftStagesRef<T> rows, columns;
  std::vector<T> factors;
  // A size with a large prime factor: a cyclic convolution of a larger size, with the kernel's
  // transform; the chirp modulates before and after (Bluestein).
  std::shared_ptr<const FftPlan<T>> convolution;
  std::vector<T> chirp, kernel;
};

// The roots of unity of a real transform of an even size, up to half of it.
template <typename T>
struct FftRealRoots {
  std::vector<T> roots;
};

// All roots of unity of a size. Those of a quarter of a turn have a part that is 0.
template <typename T>
struct FftAllRoots {
  std::vector<T> roots;
};

// From a table of the most recently used plans. Thread-safe; stops the kernel if memory runs out.
template <typename T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t size);
template <typename T>
std::shared_ptr<const FftRealRoots<T>> fft_real_roots(int64_t size);
template <typename T>
std::shared_ptr<const FftAllRoots<T>> fft_all_roots(int64_t size);

// The transform of one row, or with swapped parts, on the call's threads; `in` may be `out`.
template <typename T>
void fft_row(Call* call, const FftPlan<T>& plan, const T* in, T* out, bool exchange, T scale);

// The scratch memory that it needs on a thread.
template <typename T>
size_t fft_row_scratch(const FftPlan<T>& plan);

// Run `body(begin, end)` over 0..count, `grain` at a time, on the call's threads. If memory runs
// out inside it, or the call is interrupted, the kernel is stopped.
template <typename Body>
void fft_shared(Call* call, int64_t count, int64_t grain, const Body& body) {
  const int32_t status = over_blocks(call, count, grain, [&](int64_t begin, int64_t end) {
    return recovered([&] { body(begin, end); });
  });
  if (status != kDone) stop_kernel(status);
}

template <typename T>
T* fft_numbers(const Scratch& scratch) {
  if (!scratch) stop_kernel(kOutOfMemory);
  return reinterpret_cast<T*>(scratch.bytes());
}

// A transform of up to kFftColumns columns, without their addresses.
template <typename T>
FftColumns<T> fft_columns(const FftStages<T>& stages, T* scratch) {
  FftColumns<T> given{};
  given.stages = stages.stages.data();
  given.stage_count = static_cast<int64_t>(stages.stages.size());
  given.size = stages.size;
  given.scale = 1;
  given.scratch = scratch;
  return given;
}

// The code of the host CPU's microarchitecture level.
template <typename T>
void fft_run(const FftColumns<T>& given);
template <>
void fft_run(const FftColumns<float>& given);
template <>
void fft_run(const FftColumns<double>& given);

}  // namespace kiln
