// Discrete Fourier transforms over the last axes. ops/linear/fft.py defines what each computes.
#include "abi/symbols.h"
#include "fft/axes.h"
#include "fft/plan.h"
#include "kernels/element_types.h"
#include "kernels/recovery.h"

namespace kiln {
namespace {

constexpr int64_t kMostAxes = 3;

// fft. Buffers: operand, result. No axis is of size 0.
// Numbers: first row, rows (how many transforms), kind (fft, ifft, rfft, irfft), the complex type,
// transformed axes (1 to 3), their lengths (on the real side).
int32_t fft(Call* call, void* const* buffers, const int64_t* numbers) {
  if (numbers[4] < 1 || numbers[4] > kMostAxes) return kUnsupported;
  if (numbers[1] <= 0) return kDone;
  if (numbers[3] == kComplex64) {
    return recovered([&] { fft_transform<float>(call, buffers, numbers); });
  }
  if (numbers[3] != kComplex128) return kUnsupported;
  return recovered([&] { fft_transform<double>(call, buffers, numbers); });
}

}  // namespace

#ifdef KILN_STATIC_RUNTIME
// Given the numbers of the kernel, makes the tables of calls in advance, if memory suffices, and
// returns the scratch memory that a thread needs, in bytes.
extern "C" int64_t kiln_fft_prepare(const int64_t* numbers) {
  if (numbers[4] < 1 || numbers[4] > kMostAxes || numbers[1] <= 0) return 0;
  int64_t bytes = 0;
  const bool is_single = numbers[3] == kComplex64;
  const int32_t status = recovered(
      [&] { bytes = is_single ? fft_prepare<float>(numbers) : fft_prepare<double>(numbers); });
  return status == kDone ? bytes : 0;
}
#endif

KILN_KERNEL_SYMBOL("fft", fft)
}  // namespace kiln
