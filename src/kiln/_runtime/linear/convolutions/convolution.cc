#include "linear/convolutions/convolution.h"

#include <algorithm>
#include <complex>
#include <numeric>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/blas.h"
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

void steps_of(const int64_t* sizes, int axes, int64_t* steps) {
  int64_t step = 1;
  for (int i = axes - 1; i >= 0; --i) {
    steps[i] = step;
    step *= sizes[i];
  }
}

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

Convolution Convolution::of(const int64_t* numbers) {
  Convolution c;
  c.space = static_cast<int>(*numbers++);
  c.feature_groups = *numbers++;
  c.batch_groups = *numbers++;
  const int axes = c.space + 2;
  int64_t* const sizes[] = {c.lhs, c.rhs, c.out};
  for (int64_t* into : sizes) {
    for (int i = 0; i < axes; ++i) into[i] = *numbers++;
  }
  int64_t* const size_by_meaning[] = {c.lhs_size, c.rhs_size, c.out_size};
  int64_t* const step_by_meaning[] = {c.lhs_step, c.rhs_step, c.out_step};
  for (int array = 0; array < 3; ++array) {
    int64_t steps[kMaxAxes + 1];
    steps_of(sizes[array], axes, steps);
    for (int i = 0; i < axes; ++i) {
      const int64_t axis = *numbers++;
      size_by_meaning[array][i] = sizes[array][axis];
      step_by_meaning[array][i] = steps[axis];
    }
  }
  for (int d = 0; d < c.space; ++d) {
    c.stride[d] = *numbers++;
    c.low[d] = *numbers++;
    c.lhs_dilation[d] = *numbers++;
    c.rhs_dilation[d] = *numbers++;
  }
  return c;
}

namespace {

template <typename T>
void fill_zeros(const Convolution& c, T* out) {
  int64_t count = 1;
  for (int i = 0; i < c.space + 2; ++i) count *= c.out_size[i];
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (int d = c.space + 1; d >= 0; --d) {
      at += rest % c.out_size[d] * c.out_step[d];
      rest /= c.out_size[d];
    }
    out[at] = T(0);
  }
}

// With holes between the elements of the operand along an axis: positions of the result that meet
// the same elements of the kernel are a convolution without holes, of these elements.
template <typename T>
int32_t convolve_without_holes(Call* call, const Convolution& c, int d, const T* x, const T* w,
                               T* out) {
  const int64_t holes = c.lhs_dilation[d], count = c.out_size[d + 2], taps = c.rhs_size[d + 2];
  const int64_t every = holes / std::gcd(holes, c.stride[d]);
  const int64_t skip = holes / std::gcd(holes, c.rhs_dilation[d]);
  for (int64_t first = 0; first < std::min(every, count); ++first) {
    const int64_t start = first * c.stride[d] - c.low[d];
    int64_t tap = 0;
    while (tap < std::min(skip, taps) && (start + tap * c.rhs_dilation[d]) % holes != 0) ++tap;
    Convolution part = c;
    part.lhs_dilation[d] = 1;
    part.out_size[d + 2] = (count - first + every - 1) / every;
    part.out_step[d + 2] *= every;
    T* to = out + first * c.out_step[d + 2];
    if (tap == std::min(skip, taps)) {
      fill_zeros(part, to);
      continue;
    }
    part.rhs_size[d + 2] = (taps - tap + skip - 1) / skip;
    part.rhs_step[d + 2] *= skip;
    part.stride[d] = every * c.stride[d] / holes;
    part.rhs_dilation[d] = skip * c.rhs_dilation[d] / holes;
    part.low[d] = -(start + tap * c.rhs_dilation[d]) / holes;
    const int32_t status = convolve(call, part, x, w + tap * c.rhs_step[d + 2], to);
    if (status != 0) return status;
  }
  return 0;
}

// Ways to compute a convolution that is not empty; those of floats only are last.
enum class Way { kHoles, kDepthwise, kPatches, kByPosition, kLines, kPlanes };

Way way_of(const Convolution& c) {
  for (int d = 0; d < c.space; ++d) {
    if (c.lhs_dilation[d] != 1) return Way::kHoles;
  }
  if (is_depthwise(c)) return Way::kDepthwise;
  if (has_few_positions(c)) return Way::kByPosition;
  if (has_lines(c)) return Way::kLines;
  return has_planes(c) ? Way::kPlanes : Way::kPatches;
}

}  // namespace

template <typename T>
int32_t convolve(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  if (c.out_count() == 0) return 0;
  if (c.lhs_count() == 0 || c.rhs_count() == 0) {
    std::fill_n(out, c.out_count(), T(0));
    return 0;
  }
  const Way way = way_of(c);
  if (way == Way::kHoles) {
    int d = 0;
    while (c.lhs_dilation[d] == 1) ++d;
    return convolve_without_holes(call, c, d, x, w, out);
  }
  if (way == Way::kDepthwise) return convolve_depthwise(call, c, x, w, out);
  if constexpr (std::is_floating_point_v<T>) {
    if (way == Way::kByPosition) return convolve_by_position(call, c, x, w, out);
    if (way == Way::kLines) return convolve_lines(call, c, x, w, out);
    if (way == Way::kPlanes) return convolve_planes(call, c, x, w, out);
  }
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

namespace {

// kiln_conv_T: a kernel slides over an operand, as `ops/linear/convolution.py: ConvGeneralDilated`
// says.
//
// Buffers: the operand, the kernel, the result, of one type. Numbers: the number of spatial axes r
// (at most 6), feature groups, batch groups; the sizes of the operand, the kernel and the result,
// r + 2 each, in memory order; the axes by meaning (lhs_spec, rhs_spec, out_spec), r + 2 each; for
// each spatial axis its stride, low padding, dilation of the operand and of the kernel.
template <typename T>
int32_t convolution(Call* call, void* const* buffers, const int64_t* numbers) {
  return convolve(call, Convolution::of(numbers), static_cast<const T*>(buffers[0]),
                  static_cast<const T*>(buffers[1]), static_cast<T*>(buffers[2]));
}

// kiln_conv_packed_T: the same without holes and groups of the batch, by a kernel that
// `kiln_conv_pack_T` made.
template <typename T>
int32_t packed_convolution(Call* call, void* const* buffers, const int64_t* numbers) {
  const Convolution c = Convolution::of(numbers);
  if (c.out_count() == 0) return 0;
  return convolve_lines<T>(call, c, static_cast<const T*>(buffers[0]),
                           static_cast<const T*>(buffers[1]), static_cast<T*>(buffers[2]), nullptr,
                           true);
}

// Elements per task if the whole result is computed before its epilogue.
constexpr int64_t kTaskPoints = int64_t{1} << 14;

// kiln_conv_epilogue_T, kiln_conv_packed_epilogue_T: a convolution with a fused epilogue, to which
// its result is a matrix (`convolution.h`).
//
// Buffers: the operand, the kernel, the result, the epilogue, then its slots after the head. The
// result may be null: then it is not materialized, and the epilogue reads one block of it.
// Numbers: those of `kiln_conv_T`; the slots of the epilogue, which of them has the result, the
// rows of an item, whether the epilogue needs whole rows, and the columns of the matrix.
template <typename T, bool is_packed>
int32_t convolution_epilogue(Call* call, void* const* buffers, const int64_t* numbers) {
  const Convolution c = Convolution::of(numbers);
  const T *x = static_cast<const T*>(buffers[0]), *w = static_cast<const T*>(buffers[1]);
  T* out = static_cast<T*>(buffers[2]);
  numbers += 3 + 6 * (c.space + 2) + 4 * c.space;
  const Epilogue after{call,           reinterpret_cast<ParallelBody>(buffers[3]),
                       buffers + 4,    numbers[0],
                       numbers[1],     numbers[2],
                       numbers[4],     sizeof(T),
                       numbers[3] != 0};
  if (is_packed) return convolve_lines(call, c, x, w, out, &after, true);
  const Way way = way_of(c);
  if (way == Way::kLines) return convolve_lines(call, c, x, w, out, &after);
  if (way == Way::kPlanes) return convolve_planes(call, c, x, w, out, &after);
  const Scratch scratch(out == nullptr ? static_cast<size_t>(c.out_count()) * sizeof(T) : 0);
  if (!scratch) return 1;
  T* whole = out == nullptr ? reinterpret_cast<T*>(scratch.bytes()) : out;
  const int32_t status = convolve(call, c, x, w, whole);
  if (status != 0) return status;
  const int64_t columns = after.columns;
  return over_blocks(call, c.out_count() / columns, std::max<int64_t>(1, kTaskPoints / columns),
                     [&](Call* own, int64_t first, int64_t last) {
                       return after.on(own).run(whole + first * columns, first, last, 0, columns);
                     });
}

// kiln_conv_T for 16-bit floats, computed in 32 bits.
template <bool kBrain>
int32_t half_convolution(Call* call, void* const* buffers, const int64_t* numbers) {
  const Convolution c = Convolution::of(numbers);
  const LinearLoops& loops = linear_loops();
  const size_t sizes[] = {static_cast<size_t>(c.lhs_count()), static_cast<size_t>(c.rhs_count()),
                          static_cast<size_t>(c.out_count())};
  Scratch scratch(Scratch::size_of<float>(sizes[0]) + Scratch::size_of<float>(sizes[1]) +
                  Scratch::size_of<float>(sizes[2]));
  if (!scratch) return 1;
  float *x = scratch.take<float>(sizes[0]), *w = scratch.take<float>(sizes[1]);
  float* out = scratch.take<float>(sizes[2]);
  const ConvertLoop widen = kBrain ? loops.bf16_to_f32 : loops.f16_to_f32;
  widen(buffers[0], x, c.lhs_count());
  widen(buffers[1], w, c.rhs_count());
  const int32_t status = convolve<float>(call, c, x, w, out);
  if (status == 0) {
    (kBrain ? loops.f32_to_bf16 : loops.f32_to_f16)(out, buffers[2], c.out_count());
  }
  return status;
}

Symbols symbols{
    {"kiln_conv_f32", convolution<float>},
    {"kiln_conv_f64", convolution<double>},
    {"kiln_conv_c64", convolution<Complex64>},
    {"kiln_conv_c128", convolution<Complex128>},
    {"kiln_conv_bf16", half_convolution<true>},
    {"kiln_conv_f16", half_convolution<false>},
    {"kiln_conv_i8", convolution<uint8_t>},
    {"kiln_conv_i16", convolution<uint16_t>},
    {"kiln_conv_i32", convolution<uint32_t>},
    {"kiln_conv_i64", convolution<uint64_t>},
    {"kiln_conv_u8", convolution<uint8_t>},
    {"kiln_conv_u16", convolution<uint16_t>},
    {"kiln_conv_u32", convolution<uint32_t>},
    {"kiln_conv_u64", convolution<uint64_t>},
    {"kiln_conv_bool", convolution<bool>},
    {"kiln_conv_packed_f32", packed_convolution<float>},
    {"kiln_conv_packed_f64", packed_convolution<double>},
    {"kiln_conv_epilogue_f32", convolution_epilogue<float, false>},
    {"kiln_conv_epilogue_f64", convolution_epilogue<double, false>},
    {"kiln_conv_packed_epilogue_f32", convolution_epilogue<float, true>},
    {"kiln_conv_packed_epilogue_f64", convolution_epilogue<double, true>},
};

}  // namespace
}  // namespace kiln
