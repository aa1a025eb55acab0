// Depthwise convolutions with features last: a matrix product would have depth 1, so rows of
// features are multiplied and added. Those of floats with small windows are nests
// (`engines/native/lowerings/linear/depthwise.py`).
#include <algorithm>
#include <complex>

#include "abi/split.h"
#include "linear/blas.h"
#include "linear/convolutions/convolution.h"
#include "linear/products/gemm.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// Blocks have at least this many multiplications.
constexpr int64_t kBlockWork = int64_t{1} << 17;

template <typename T>
bool is_finite(T x) {
  return x * T(0) == T(0);
}
template <typename T>
bool is_finite(std::complex<T> x) {
  return is_finite(x.real()) && is_finite(x.imag());
}

}  // namespace

bool is_depthwise(const Convolution& c) {
  return c.feature_groups > 1 && c.rhs_size[1] == 1 && c.rhs_size[0] == c.feature_groups &&
         c.lhs_step[1] == 1 && c.out_step[1] == 1;
}

template <typename T>
int32_t convolve_depthwise(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  const int64_t features = c.feature_groups;
  Walk positions, kernel;
  positions.add({c.out_size[0], 0, 1, c.out_step[0]});
  for (int d = 0; d < c.space; ++d) {
    positions.add({c.out_size[d + 2], d + 2, c.stride[d], c.out_step[d + 2]});
    kernel.add({c.rhs_size[d + 2], d + 2, c.rhs_dilation[d], c.rhs_step[d + 2]});
  }
  const int64_t taps = kernel.size(), count = positions.size();
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>((taps + 1) * features)));
  if (!scratch) return 1;
  T* packed = scratch.take<T>(static_cast<size_t>((taps + 1) * features));
  T* const padding = packed + taps * features;
  std::fill_n(padding, features, T(0));
  // What is not finite gives nan where it is multiplied by padding.
  bool are_finite = true;
  for (int64_t k = 0; k < taps; ++k) {
    const T* from = w + kernel.offset(k);
    for (int64_t f = 0; f < features; ++f) {
      const T factor = packed[k * features + f] = from[f * c.rhs_step[0]];
      are_finite = are_finite && is_finite(factor);
    }
  }
  const MultiplyAddLoop multiply_add = product_loops<kElementOf<T>>().multiply_add;
  const Blocks blocks = Blocks::of(count, kBlockWork / (taps * features) + 1, 1);
  return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
    for (int64_t i = blocks.begin(first); i < blocks.end(last - 1); ++i) {
      int64_t starts[kMaxSpace], rest = i, to_at = 0;
      for (int d = c.space - 1; d >= 0; --d) {
        const int64_t at = rest % c.out_size[d + 2];
        rest /= c.out_size[d + 2];
        starts[d] = at * c.stride[d] - c.low[d];
        to_at += at * c.out_step[d + 2];
      }
      T* to = out + to_at + rest * c.out_step[0];
      const T* image = x + rest * c.lhs_step[0];
      std::fill_n(to, features, T(0));
      int64_t taken[kMaxSpace] = {};
      for (int64_t k = 0; k < taps; ++k) {
        const T* from = image;
        bool inside = true;
        for (int d = 0; d < c.space; ++d) {
          const int64_t at = starts[d] + taken[d] * c.rhs_dilation[d];
          inside = inside && at >= 0 && at < c.lhs_size[d + 2];
          from += at * c.lhs_step[d + 2];
        }
        if (inside || !are_finite) {
          multiply_add(to, inside ? from : padding, packed + k * features, features);
        }
        for (int d = c.space - 1; d >= 0 && ++taken[d] == c.rhs_size[d + 2]; --d) taken[d] = 0;
      }
    }
    return 0;
  });
}

#define KILN_INSTANTIATE(T) \
  template int32_t convolve_depthwise<T>(Call*, const Convolution&, const T*, const T*, T*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)
KILN_INSTANTIATE(Complex64)
KILN_INSTANTIATE(Complex128)
KILN_INSTANTIATE(uint8_t)
KILN_INSTANTIATE(uint16_t)
KILN_INSTANTIATE(uint32_t)
KILN_INSTANTIATE(uint64_t)
KILN_INSTANTIATE(bool)

}  // namespace kiln
