// The loops of Fourier transforms for the host CPU's microarchitecture level.
#include "fft/columns.h"
#include "fft/plan.h"
#include "machine/features.h"

namespace kiln {
namespace {

const FftCode& fft_code() {
#ifdef KILN_X86_64
  static const FftCode& code = processor_level() == 4   ? v4::fft_code
                               : processor_level() == 3 ? v3::fft_code
                                                        : baseline::fft_code;
  return code;
#else
  return baseline::fft_code;
#endif
}

}  // namespace

template <>
void fft_run(const FftColumns<float>& given) {
  fft_code().single(given);
}
template <>
void fft_run(const FftColumns<double>& given) {
  fft_code().twice(given);
}

}  // namespace kiln
