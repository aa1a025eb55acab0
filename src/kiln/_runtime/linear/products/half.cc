// Products of 16-bit floats: computed in 32 bits, rounded once at the end.
#include <algorithm>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/products/gemm.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

using Half = uint16_t;

struct Conversions {
  ConvertLoop widen, narrow;
};
Conversions bf16() { return {linear_loops().bf16_to_f32, linear_loops().f32_to_bf16}; }
Conversions f16() { return {linear_loops().f16_to_f32, linear_loops().f32_to_f16}; }

// Rows of C whose sums are kept at a time, and the rows of A converted with them.
constexpr int64_t kRows = 384;

// One product of the batch. `out` may have either element size.
int32_t multiply_half(Call* call, const Product& p, const Conversions& convert, const Half* a,
                      const Half* b, void* out, bool wide) {
  const int64_t rows = std::min(p.m, kRows);
  const size_t a_size = static_cast<size_t>(p.transpose_a ? p.m * p.k : rows * p.k);
  const size_t c_size = wide ? 0 : static_cast<size_t>(rows * p.n);
  Scratch scratch(Scratch::size_of<float>(a_size) +
                  Scratch::size_of<float>(static_cast<size_t>(p.k * p.n)) +
                  Scratch::size_of<float>(c_size));
  if (!scratch) return 1;
  float* left = scratch.take<float>(a_size);
  float* right = scratch.take<float>(static_cast<size_t>(p.k * p.n));
  float* sums = scratch.take<float>(c_size);
  convert.widen(b, right, p.k * p.n);
  if (p.transpose_a) convert.widen(a, left, p.m * p.k);
  for (int64_t row = 0; row < p.m; row += rows) {
    Product part = p;
    part.batch = 1;
    part.m = std::min(rows, p.m - row);
    part.a_step = part.b_step = part.c_step = 0;
    if (!p.transpose_a) convert.widen(a + row * p.k, left, part.m * p.k);
    float* to = wide ? static_cast<float*>(out) + row * p.n : sums;
    Half* narrow = static_cast<Half*>(out) + row * p.n;
    if (!wide && p.accumulate) convert.widen(narrow, sums, part.m * p.n);
    const int32_t status = multiply(call, part, left + (p.transpose_a ? row : 0), right, to);
    if (status != 0) return status;
    if (!wide) convert.narrow(sums, narrow, part.m * p.n);
  }
  return 0;
}

// kiln_gemm_bf16, kiln_gemm_f16: buffers and numbers as of kiln_gemm_f32, all of 16-bit floats.
// kiln_gemm_bf16_f32, kiln_gemm_f16_f32: C has 32-bit floats.
template <Conversions (*kConversions)(), bool kWide>
int32_t gemm_half(Call* call, void* const* buffers, const int64_t* numbers) {
  const Product p = Product::of(numbers);
  const Half *a = static_cast<const Half*>(buffers[0]), *b = static_cast<const Half*>(buffers[1]);
  const Conversions convert = kConversions();
  for (int64_t i = 0; i < p.batch; ++i) {
    char* out = static_cast<char*>(buffers[2]) + i * p.c_step * (kWide ? 4 : 2);
    const int32_t status =
        multiply_half(call, p, convert, a + i * p.a_step, b + i * p.b_step, out, kWide);
    if (status != 0) return status;
  }
  return 0;
}

Symbols symbols{
    {"kiln_gemm_bf16", gemm_half<bf16, false>},
    {"kiln_gemm_f16", gemm_half<f16, false>},
    {"kiln_gemm_bf16_f32", gemm_half<bf16, true>},
    {"kiln_gemm_f16_f32", gemm_half<f16, true>},
};

}  // namespace
}  // namespace kiln
