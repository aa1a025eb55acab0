// Rows of a matrix by a vector, where no BLAS computes them.
#pragma once

#include <cstdint>

namespace kiln {

// out[i] = sum over k of rows[i * row + k] * x[k], or added to it. The order of the sum depends on
// the depth alone.
using DotLoop = void (*)(const void* rows, int64_t row, int64_t count, const void* x, int64_t depth,
                         bool add, void* out);

#define KILN_DECLARE_DOTS(level)                 \
  namespace level {                              \
  extern const DotLoop dots_of_f32, dots_of_f64; \
  }
KILN_DECLARE_DOTS(baseline)
KILN_DECLARE_DOTS(v3)
KILN_DECLARE_DOTS(v4)
#undef KILN_DECLARE_DOTS

// The loop for the host CPU.
template <typename T>
DotLoop dot_loop();
template <>
DotLoop dot_loop<float>();
template <>
DotLoop dot_loop<double>();

}  // namespace kiln
