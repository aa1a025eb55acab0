#include "linear/convolutions/convolution.h"

#include <algorithm>
#include <complex>
#include <numeric>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/blas.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// Elements per task of what only moves them.
constexpr int64_t kMoved = int64_t{1} << 17;

void steps_of(const int64_t* sizes, int axes, int64_t* steps) {
  int64_t step = 1;
  for (int i = axes - 1; i >= 0; --i) {
    steps[i] = step;
    step *= sizes[i];
  }
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
int32_t fill_zeros(Call* call, const Convolution& c, T* out) {
  const int axes = c.space + 2;
  int order[kMaxAxes + 1], inner = 0;
  for (int d = 1; d < axes; ++d) {
    if (c.out_step[d] < c.out_step[inner]) inner = d;
  }
  int count = 0;
  int64_t lines = 1;
  for (int d = 0; d < axes; ++d) {
    if (d == inner) continue;
    order[count++] = d;
    lines *= c.out_size[d];
  }
  const int64_t length = c.out_size[inner], step = c.out_step[inner];
  return over_blocks(call, lines, kMoved / length + 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      T* line = out;
      for (int64_t k = count - 1, rest = i; k >= 0; --k) {
        line += rest % c.out_size[order[k]] * c.out_step[order[k]];
        rest /= c.out_size[order[k]];
      }
      for (int64_t j = 0; j < length; ++j) line[j * step] = T(0);
    }
    return 0;
  });
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
      const int32_t status = fill_zeros(call, part, to);
      if (status != 0) return status;
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

// Whether space is contiguous around features that are last in memory.
bool has_features_last(int space, const int64_t* sizes, const int64_t* steps) {
  int64_t step = sizes[1];
  for (int d = space + 1; d > 1; --d) {
    if (sizes[d] != 1 && steps[d] != step) return false;
    step *= sizes[d];
  }
  return steps[1] == 1;
}

// The same convolution of arrays with features first.
Convolution turned(const Convolution& c) {
  Convolution other = c;
  const auto turn = [&](const int64_t* sizes, int64_t* steps) {
    int64_t step = 1;
    for (int d = c.space + 1; d >= 0; --d) {
      steps[d] = step;
      step *= sizes[d];
    }
  };
  turn(c.lhs_size, other.lhs_step);
  turn(c.out_size, other.out_step);
  return other;
}

// Few features that are last: they would be a small part of a vector.
template <typename T>
int32_t convolve_turned(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  const TransposeLoop transpose = transpose_loop<sizeof(T) == 8 ? 3 : 2>();
  const Convolution other = turned(c);
  const int64_t places = other.lhs_step[1], positions = other.out_step[1];
  const int64_t channels = c.lhs_size[1], features = c.out_size[1];
  const auto read = static_cast<size_t>(c.lhs_count()), made = static_cast<size_t>(c.out_count());
  Scratch scratch(Scratch::size_of<T>(read) + Scratch::size_of<T>(made));
  if (!scratch) return 1;
  T *operand = scratch.take<T>(read), *result = scratch.take<T>(made);
  const auto over_items = [&](int64_t each, const auto& body) {
    return over_blocks(call, c.out_size[0], kMoved / each + 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) body(i);
      return 0;
    });
  };
  int32_t status = over_items(places * channels, [&](int64_t i) {
    transpose(x + i * c.lhs_step[0], operand + i * other.lhs_step[0], places, channels, channels,
              places);
  });
  if (status == 0) status = convolve_planes(call, other, operand, w, result);
  if (status != 0) return status;
  return over_items(positions * features, [&](int64_t i) {
    transpose(result + i * other.out_step[0], out + i * c.out_step[0], features, positions,
              positions, features);
  });
}

// Ways to compute a convolution that is not empty; those of floats only are last.
enum class Way { kHoles, kDepthwise, kPatches, kByPosition, kLines, kPlanes, kTurned };

Way way_of(const Convolution& c) {
  for (int d = 0; d < c.space; ++d) {
    if (c.lhs_dilation[d] != 1) return Way::kHoles;
  }
  if (is_depthwise(c)) return Way::kDepthwise;
  if (has_few_positions(c)) return Way::kByPosition;
  if (has_lines(c)) return Way::kLines;
  if (has_planes(c)) return Way::kPlanes;
  const bool is_last = has_features_last(c.space, c.lhs_size, c.lhs_step) &&
                       has_features_last(c.space, c.out_size, c.out_step);
  return is_last && has_planes(turned(c)) ? Way::kTurned : Way::kPatches;
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
    if (way == Way::kTurned) return convolve_turned(call, c, x, w, out);
  }
  return convolve_patches(call, c, x, w, out);
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
  const ConversionLoops& loops = conversion_loops();
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

}  // namespace

KILN_KERNEL_SYMBOL("kiln_conv_f32", convolution<float>)
KILN_KERNEL_SYMBOL("kiln_conv_f64", convolution<double>)
KILN_KERNEL_SYMBOL("kiln_conv_c64", convolution<Complex64>)
KILN_KERNEL_SYMBOL("kiln_conv_c128", convolution<Complex128>)
KILN_KERNEL_SYMBOL("kiln_conv_bf16", half_convolution<true>)
KILN_KERNEL_SYMBOL("kiln_conv_f16", half_convolution<false>)
KILN_KERNEL_SYMBOL("kiln_conv_i8", convolution<uint8_t>)
KILN_KERNEL_SYMBOL("kiln_conv_i16", convolution<uint16_t>)
KILN_KERNEL_SYMBOL("kiln_conv_i32", convolution<uint32_t>)
KILN_KERNEL_SYMBOL("kiln_conv_i64", convolution<uint64_t>)
KILN_KERNEL_SYMBOL("kiln_conv_u8", convolution<uint8_t>)
KILN_KERNEL_SYMBOL("kiln_conv_u16", convolution<uint16_t>)
KILN_KERNEL_SYMBOL("kiln_conv_u32", convolution<uint32_t>)
KILN_KERNEL_SYMBOL("kiln_conv_u64", convolution<uint64_t>)
KILN_KERNEL_SYMBOL("kiln_conv_bool", convolution<bool>)
KILN_KERNEL_SYMBOL("kiln_conv_packed_f32", packed_convolution<float>)
KILN_KERNEL_SYMBOL("kiln_conv_packed_f64", packed_convolution<double>)
KILN_KERNEL_SYMBOL("kiln_conv_epilogue_f32", convolution_epilogue<float, false>)
KILN_KERNEL_SYMBOL("kiln_conv_epilogue_f64", convolution_epilogue<double, false>)
KILN_KERNEL_SYMBOL("kiln_conv_packed_epilogue_f32", convolution_epilogue<float, true>)
KILN_KERNEL_SYMBOL("kiln_conv_packed_epilogue_f64", convolution_epilogue<double, true>)
}  // namespace kiln
