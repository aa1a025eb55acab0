// Loops of this folder that are compiled once for each level of the processor.
#pragma once

#include <cstdint>

namespace kiln {

// One matrix product: C = A B, or C += A B. Steps are in elements, from one row to the next and
// from one column to the next; those of C's columns are 1.
struct SmallProduct {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column, c_row;
  bool accumulate;
};

// The elements that loops are compiled for. Integers wrap around, whatever their sign.
enum Element { kF32, kF64, kC64, kC128, kI8, kI16, kI32, kI64, kBool, kElements };

using ProductLoop = void (*)(const SmallProduct&, const void* a, const void* b, void* c);
// sums[i] += a[i] * b[i]
using MultiplyAddLoop = void (*)(void* sums, const void* a, const void* b, int64_t count);
using ConvertLoop = void (*)(const void* from, void* to, int64_t count);
// Writes the transpose of a matrix of `rows` times `columns`; steps are in elements, between rows
// of either.
using TransposeLoop = void (*)(const void* from, void* to, int64_t rows, int64_t columns,
                               int64_t from_step, int64_t to_step);

struct LinearLoops {
  ProductLoop product[kElements];  // any sizes; for floats meant for few elements
  MultiplyAddLoop multiply_add[kElements];
  ConvertLoop bf16_to_f32, f32_to_bf16, f16_to_f32, f32_to_f16;
  TransposeLoop transpose[5];  // by the logarithm of the size of an element
};

// The loops for this processor. Not inline: see `kernels/README.md`.
const LinearLoops& linear_loops();

}  // namespace kiln
