// Kernels that are compiled once per microarchitecture level; leveled.cc selects the best of each.
//
// The files that define them include only C headers and types of the standard library: a template
// that two levels instantiate is linked once, possibly from a level that the host CPU does not
// support.
#pragma once

#include <cstdint>

#include "abi/native_call.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

#define KILN_DECLARE_KERNEL(name)                                         \
  namespace baseline {                                                    \
  int32_t name(Call* call, void* const* buffers, const int64_t* numbers); \
  }                                                                       \
  namespace v3 {                                                          \
  int32_t name(Call* call, void* const* buffers, const int64_t* numbers); \
  }                                                                       \
  namespace v4 {                                                          \
  int32_t name(Call* call, void* const* buffers, const int64_t* numbers); \
  }

namespace kiln {

KILN_DECLARE_KERNEL(cumulative)
KILN_DECLARE_KERNEL(folded)
KILN_DECLARE_KERNEL(top_k)

// Elementary functions of the lanes of a vector, in place.
#define KILN_DECLARE_FUNCTIONS(level)     \
  namespace level {                       \
  void sin_f32(float* x, int64_t count);  \
  void cos_f32(float* x, int64_t count);  \
  void tan_f32(float* x, int64_t count);  \
  void sin_f64(double* x, int64_t count); \
  void cos_f64(double* x, int64_t count); \
  void tan_f64(double* x, int64_t count); \
  }
KILN_DECLARE_FUNCTIONS(baseline)
KILN_DECLARE_FUNCTIONS(v3)
KILN_DECLARE_FUNCTIONS(v4)

}  // namespace kiln
