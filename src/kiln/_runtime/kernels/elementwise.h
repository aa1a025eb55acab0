// Loops over elements. Compiled once for each level of the processor, chosen when the module loads.
#pragma once

#include <cstddef>

namespace kiln {

enum Binary : int {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kBinaries
};
enum Unary : int { kNegative, kAbsolute, kUnaries };
enum Element : int { kFloat32, kFloat64, kInt32, kInt64, kElements };

// Row-major operands; one that is a scalar is read at its first element only.
using BinaryLoop = void (*)(const void* a, const void* b, void* out, size_t count, bool a_is_scalar,
                            bool b_is_scalar);
using UnaryLoop = void (*)(const void* a, void* out, size_t count);

struct Kernels {
  BinaryLoop binary[kBinaries][kElements];  // null where there is none
  UnaryLoop unary[kUnaries][kElements];
};

const Kernels& kernels_baseline();
#ifdef KILN_X86_64
const Kernels& kernels_v3();
const Kernels& kernels_v4();
#endif

}  // namespace kiln
