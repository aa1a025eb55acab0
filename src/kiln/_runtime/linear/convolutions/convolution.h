// Convolutions of any layout, in any number of spatial axes.
#pragma once

#include "abi/native_call.h"
#include "linear/convolutions/patches.h"
#include "linear/products/epilogue.h"

namespace kiln {

// What a convolution computes, from the numbers of its kernel.
struct Convolution {
  int space;
  int64_t feature_groups, batch_groups;
  // In memory: the sizes of the operand, the kernel and the result.
  int64_t lhs[kMaxAxes + 1], rhs[kMaxAxes + 1], out[kMaxAxes + 1];
  // By meaning (batch, features, space; of the kernel: features of the result, of the operand,
  // space): sizes and steps in memory.
  int64_t lhs_size[kMaxAxes + 1], rhs_size[kMaxAxes + 1], out_size[kMaxAxes + 1];
  int64_t lhs_step[kMaxAxes + 1], rhs_step[kMaxAxes + 1], out_step[kMaxAxes + 1];
  int64_t stride[kMaxSpace], low[kMaxSpace], lhs_dilation[kMaxSpace], rhs_dilation[kMaxSpace];

  static Convolution of(const int64_t* numbers);
  int64_t lhs_count() const { return count(lhs); }
  int64_t rhs_count() const { return count(rhs); }
  int64_t out_count() const { return count(out); }

 private:
  int64_t count(const int64_t* sizes) const {
    int64_t product = 1;
    for (int i = 0; i < space + 2; ++i) product *= sizes[i];
    return product;
  }
};

template <typename T>
[[nodiscard]] int32_t convolve(Call* call, const Convolution& convolution, const T* x, const T* w,
                               T* out);

// The following are for operands without holes.

// Without a patch matrix: products read a padded copy of the operand at the offsets of the kernel's
// elements. An epilogue runs on each block once its sums are complete; then the result may be null,
// if only the epilogue needs it. Its matrix has a row for each position of each item if features
// are last, else for each feature of each item.

// The rows of a product are the positions of a line of the result, its columns are features. The
// kernel may be packed.
bool has_lines(const Convolution& convolution);
template <typename T>
[[nodiscard]] int32_t convolve_lines(Call* call, const Convolution& convolution, const T* x,
                                     const T* w, T* out, const Epilogue* after = nullptr,
                                     bool is_packed = false);

// The rows are features, the columns positions, if features are first.
bool has_planes(const Convolution& convolution);
template <typename T>
[[nodiscard]] int32_t convolve_planes(Call* call, const Convolution& convolution, const T* x,
                                      const T* w, T* out, const Epilogue* after = nullptr);

// A product for each position of the result, if there are fewer than the kernel has in space.
bool has_few_positions(const Convolution& convolution);
template <typename T>
[[nodiscard]] int32_t convolve_by_position(Call* call, const Convolution& convolution, const T* x,
                                           const T* w, T* out);

// A product of the kernel with what each position reads, written as a matrix. The batch may have
// groups.
template <typename T>
[[nodiscard]] int32_t convolve_patches(Call* call, const Convolution& convolution, const T* x,
                                       const T* w, T* out);

// Whether each feature is convolved separately, and the features of a position are contiguous.
bool is_depthwise(const Convolution& convolution);
template <typename T>
[[nodiscard]] int32_t convolve_depthwise(Call* call, const Convolution& convolution, const T* x,
                                         const T* w, T* out);

}  // namespace kiln
