// Convolutions as products of the kernel with a patch matrix (im2col).
#include <algorithm>
#include <complex>

#include "abi/split.h"
#include "linear/blas.h"
#include "linear/convolutions/convolution.h"
#include "linear/products/gemm.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// Elements of the patch matrix (im2col) that are written at a time: they stay in the L2 cache.
constexpr int64_t kPatches = int64_t{1} << 17;
// At most this much of the reduction dimension at a time.
constexpr int64_t kDepth = 1024;
// Evenly strided runs are read in place if they are at least this long.
constexpr int64_t kLongRun = 32;
// Output features are split too if there are few positions.
constexpr int64_t kFewBlocks = 8, kFeatureBlock = 64, kBlockWork = int64_t{1} << 23;

// How one feature group is computed: as the product of its kernel, a features x depth matrix, and a
// depth x positions matrix, or of both transposed.
struct Plan {
  Operand operand;
  Walk positions, depth;  // their other arrays: the result, and the kernel
  int64_t features, feature_step, kernel_feature_step;
  bool by_features;  // rows of the product are features, rather than positions
  int64_t position_run, position_step, depth_run, depth_step;
  bool packs_kernel, scatters;
  bool patches_by_depth;  // rows of the patches are elements of the depth, rather than positions
  bool is_direct;         // the operand is the patch matrix, in place
  int64_t x_row;
  int64_t groups, x_step, w_step, out_step;

  explicit Plan(const Convolution& c);

 private:
  bool find_direct(const Convolution& c);
};

Plan::Plan(const Convolution& c) {
  const int axes = c.space + 2;
  groups = std::max(c.feature_groups, c.batch_groups);
  features = c.rhs_size[0] / groups;
  operand.axes = axes;
  for (int d = 0; d < axes; ++d) {
    operand.size[d] = c.lhs_size[d];
    operand.step[d] = c.lhs_step[d];
    operand.low[d] = d < 2 ? 0 : c.low[d - 2];
  }
  operand.size[0] /= c.batch_groups;
  operand.size[1] /= c.feature_groups;
  positions.add({c.out_size[0], 0, 1, c.out_step[0]});
  depth.add({c.rhs_size[1], 1, 1, c.rhs_step[1]});
  for (int d = 2; d < axes; ++d) {
    positions.add({c.out_size[d], d, c.stride[d - 2], c.out_step[d]});
    depth.add({c.rhs_size[d], d, c.rhs_dilation[d - 2], c.rhs_step[d]});
  }
  positions.sort();
  depth.sort();
  feature_step = c.out_step[1];
  kernel_feature_step = c.rhs_step[0];
  x_step = c.batch_groups > 1 ? operand.size[0] * c.lhs_step[0] : operand.size[1] * c.lhs_step[1];
  w_step = features * c.rhs_step[0];
  out_step = features * c.out_step[1];
  position_run = positions.run(&position_step);
  by_features = features == 1 || feature_step != 1;
  const bool is_long = position_run >= std::min(kLongRun, positions.size());
  scatters = !is_long || (by_features && position_step != 1);
  if (scatters) position_run = positions.size();
  depth_run = depth.run(&depth_step);
  const bool is_deep = depth_run >= std::min(kLongRun, depth.size());
  packs_kernel = !is_deep || (depth_step != 1 && kernel_feature_step != 1);
  if (packs_kernel) depth_run = depth.size();
  patches_by_depth = line_cost(operand, positions) <= line_cost(operand, depth);
  is_direct = find_direct(c);
}

// With a one-element kernel the patches are the operand itself, if it is evenly strided.
bool Plan::find_direct(const Convolution& c) {
  for (int d = 2; d < operand.axes; ++d) {
    const bool fits = c.rhs_size[d] == 1 && operand.low[d] == 0 &&
                      (c.out_size[d] - 1) * c.stride[d - 2] < operand.size[d];
    if (!fits) return false;
  }
  const WalkAxis& inner = positions.axes[positions.count - 1];
  const int64_t step = inner.step * operand.step[inner.along];
  int64_t length = inner.size;
  for (int i = positions.count - 2; i >= 0 && length < position_run; --i) {
    const WalkAxis& axis = positions.axes[i];
    if (axis.step * operand.step[axis.along] != length * step) return false;
    length *= axis.size;
  }
  patches_by_depth = step == 1;
  x_row = patches_by_depth ? operand.step[1] : step;
  // Rows of a matrix do not overlap, as the library checks.
  return (step == 1 || operand.step[1] == 1) &&
         x_row >= (patches_by_depth ? position_run : operand.size[1]);
}

// The kernel of a group as a dense features x depth matrix.
template <typename T>
void pack_kernel(const Plan& plan, const T* w, T* to) {
  const int64_t size = plan.depth.size();
  for (int64_t k = 0; k < size; ++k) {
    const T* from = w + plan.depth.offset(k);
    for (int64_t f = 0; f < plan.features; ++f) {
      to[f * size + k] = from[f * plan.kernel_feature_step];
    }
  }
}

// A part of a group's result: some positions, some features.
template <typename T>
int32_t convolve_part(const Plan& plan, const T* x, const T* w, const T* packed, T* out,
                      int64_t first, int64_t last, int64_t feature, int64_t last_feature) {
  const int64_t count = last - first, features = last_feature - feature;
  const int64_t depth = plan.depth.size();
  const int64_t most = std::min(depth, kDepth);
  const size_t patch_size = plan.is_direct ? 0 : static_cast<size_t>(most * count);
  const size_t sum_size = plan.scatters ? static_cast<size_t>(features * count) : 0;
  Scratch scratch(Scratch::size_of<T>(patch_size) + Scratch::size_of<T>(sum_size));
  if (!scratch) return 1;
  T *patches = scratch.take<T>(patch_size), *sums = scratch.take<T>(sum_size);
  T* target =
      plan.scatters ? sums : out + plan.positions.offset(first) + feature * plan.feature_step;
  const T* direct = x;
  if (plan.is_direct) {
    int64_t index = first;
    for (int i = plan.positions.count - 1; i >= 0; --i) {
      const WalkAxis& axis = plan.positions.axes[i];
      direct += index % axis.size * axis.step * plan.operand.step[axis.along];
      index /= axis.size;
    }
  }
  const int64_t dense_row = plan.by_features ? count : features;
  Product p{};
  p.batch = 1;
  const int64_t rows = plan.by_features ? features : count;
  p.c_row = plan.scatters ? dense_row : plan.by_features ? plan.feature_step : plan.position_step;
  // The row stride of a single row is meaningless, but the library checks it.
  if (rows == 1) p.c_row = dense_row;
  for (int64_t k = 0; k < depth;) {
    // Not beyond the end of a run in the kernel.
    const int64_t end = std::min({k + most, depth, (k / plan.depth_run + 1) * plan.depth_run});
    p.k = end - k;
    p.accumulate = k > 0;
    const T* kernel;
    bool by_depth;
    int64_t kernel_row;
    if (packed != nullptr) {
      kernel = packed + feature * depth + k;
      by_depth = false;
      kernel_row = depth;
    } else {
      kernel = w + feature * plan.kernel_feature_step + plan.depth.offset(k);
      by_depth = plan.depth_step != 1;
      kernel_row = by_depth ? plan.depth_step : plan.kernel_feature_step;
      if ((by_depth ? p.k : features) == 1) kernel_row = by_depth ? features : p.k;
    }
    const T* matrix = patches;
    int64_t row = plan.patches_by_depth ? count : p.k;
    if (plan.is_direct) {
      matrix = direct + k * plan.operand.step[1];
      row = plan.x_row;
    } else if (plan.patches_by_depth) {
      write_patches(plan.operand, x, plan.depth, k, end, plan.positions, first, last, patches);
    } else {
      write_patches(plan.operand, x, plan.positions, first, last, plan.depth, k, end, patches);
    }
    if (plan.by_features) {
      p.m = features, p.n = count;
      p.a_row = kernel_row, p.transpose_a = by_depth;
      p.b_row = row, p.transpose_b = !plan.patches_by_depth;
      multiply_here(p, kernel, matrix, target);
    } else {
      p.m = count, p.n = features;
      p.a_row = row, p.transpose_a = plan.patches_by_depth;
      p.b_row = kernel_row, p.transpose_b = !by_depth;
      multiply_here(p, matrix, kernel, target);
    }
    k = end;
  }
  for (int64_t i = 0; plan.scatters && i < count; ++i) {
    T* to = out + plan.positions.offset(first + i);
    for (int64_t f = 0; f < features; ++f) {
      to[(feature + f) * plan.feature_step] =
          plan.by_features ? sums[f * count + i] : sums[i * features + f];
    }
  }
  return 0;
}

}  // namespace

template <typename T>
int32_t convolve_patches(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  const Plan plan(c);
  const int64_t positions = plan.positions.size(), depth = plan.depth.size();
  Scratch scratch(plan.packs_kernel ? Scratch::size_of<T>(static_cast<size_t>(c.rhs_count())) : 0);
  if (!scratch) return 1;
  T* packed = plan.packs_kernel ? scratch.take<T>(static_cast<size_t>(c.rhs_count())) : nullptr;
  const int64_t packed_step = plan.features * depth;
  for (int64_t g = 0; packed != nullptr && g < plan.groups; ++g) {
    pack_kernel(plan, w + g * plan.w_step, packed + g * packed_step);
  }
  // Blocks consist of positions, and do not cross the end of a run in the result.
  const int64_t runs = positions / plan.position_run;
  const int64_t most = std::max<int64_t>(48, kPatches / std::min(depth, kDepth) / 48 * 48);
  const int64_t per_run = (plan.position_run + most - 1) / most;
  const int64_t block = ((plan.position_run + per_run - 1) / per_run + 15) / 16 * 16;
  int64_t feature_blocks = 1;
  if (runs * per_run * plan.groups < kFewBlocks) {
    const int64_t work = positions * depth * plan.features / (runs * per_run);
    feature_blocks = std::clamp<int64_t>(work / kBlockWork, 1,
                                         std::max<int64_t>(1, plan.features / kFeatureBlock));
  }
  const int64_t feature_block = (plan.features + feature_blocks - 1) / feature_blocks;
  const int64_t count = plan.groups * runs * per_run * feature_blocks;
  return over_blocks(call, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t feature = i % feature_blocks * feature_block;
      const int64_t part = i / feature_blocks % per_run;
      const int64_t run = i / feature_blocks / per_run % runs;
      const int64_t group = i / feature_blocks / per_run / runs;
      const int64_t start = std::min(part * block, plan.position_run);
      const int64_t stop = std::min(start + block, plan.position_run);
      const int64_t last_feature = std::min(feature + feature_block, plan.features);
      if (start >= stop || feature >= last_feature) continue;
      const int64_t origin = run * plan.position_run;
      const int32_t status = convolve_part<T>(
          plan, x + group * plan.x_step, w + group * plan.w_step,
          packed == nullptr ? nullptr : packed + group * packed_step, out + group * plan.out_step,
          origin + start, origin + stop, feature, last_feature);
      if (status != 0) return status;
    }
    return 0;
  });
}

#define KILN_INSTANTIATE(T) \
  template int32_t convolve_patches<T>(Call*, const Convolution&, const T*, const T*, T*);
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
