// Kernels that are compiled once for each level of the processor; leveled.cc names the best of
// each.
//
// The files that define them include nothing of the standard library but its C headers and types: a
// template that two levels instantiate is linked once, possibly from a level that is too new.
#pragma once

#include <cstdint>

#include "../native_call.h"

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
KILN_DECLARE_KERNEL(top_k)

}  // namespace kiln
