// Convolutions with a kernel that is larger than the result, as derivatives by the kernel are: a
// product for each position of the result, of the kernel's elements and the part of the operand
// that lies under it there. The batch is the columns of these products, so the operand is copied
// once, with its padding and the batch last; the parts are then rows of the copy.
#include <algorithm>

#include "abi/split.h"
#include "linear/convolutions/convolution.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kMostCopied = int64_t{1} << 25;  // elements
constexpr int64_t kMostPositions = 128;
constexpr int64_t kLeastDepth = 32;
constexpr int64_t kRows = 48;  // of a task
constexpr int64_t kTaskWork = int64_t{1} << 20;
constexpr int64_t kFewTasks = 8;
constexpr int64_t kCopiedPoints = int64_t{1} << 15;  // per task

template <typename T>
const TileLoops& tiles() {
  return tile_loops<T>();
}

template <typename T>
TransposeLoop transpose() {
  return transpose_loop<sizeof(T) == 8 ? 3 : 2>();
}

// The sizes of the products, and of the copied operand.
struct Shape {
  int last;                                      // spatial axis
  int64_t positions = 1, points = 1, lines = 1;  // of the result; of the kernel, in space
  int64_t extent[kMaxSpace];
  int64_t places = 1;  // of an item of the copy

  explicit Shape(const Convolution& c) : last(c.space - 1) {
    for (int d = 0; d < c.space; ++d) {
      positions *= c.out_size[d + 2];
      points *= c.rhs_size[d + 2];
      extent[d] =
          (c.out_size[d + 2] - 1) * c.stride[d] + (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d] + 1;
      places *= extent[d];
      if (d < last) lines *= extent[d];
    }
  }
};

// A line of the copy: places along the last axis, each with the whole batch.
template <typename T>
void copy_line(const Convolution& c, const Shape& shape, const T* x, int64_t line, int64_t width,
               T* to) {
  const int last = shape.last;
  bool inside = true;
  for (int d = last - 1; d >= 0; --d) {
    const int64_t at = line % shape.extent[d] - c.low[d];
    line /= shape.extent[d];
    inside = inside && at >= 0 && at < c.lhs_size[d + 2];
    x += at * c.lhs_step[d + 2];
  }
  const int64_t batch = c.out_size[0], length = shape.extent[last];
  const int64_t size = inside ? c.lhs_size[last + 2] : 0;
  const int64_t low = std::clamp<int64_t>(c.low[last], 0, length);
  const int64_t high = std::clamp<int64_t>(size + c.low[last], low, length);
  std::fill_n(to, low * width, T(0));
  std::fill_n(to + high * width, (length - high) * width, T(0));
  const T* from = x + (low - c.low[last]) * c.lhs_step[last + 2];
  to += low * width;
  if (c.lhs_step[0] != 1) {
    if (high > low) transpose<T>()(from, to, batch, high - low, c.lhs_step[0], width);
    return;
  }
  for (int64_t i = low; i < high; ++i, from += c.lhs_step[last + 2], to += width) {
    std::copy_n(from, batch, to);
  }
}

// Elements of the kernel as rows of features: its points of all items, in chunks of
// `kPackedDepth`.
template <typename T>
void pack_chunk(const Convolution& c, const Shape& shape, const T* w, int64_t begin, int64_t end,
                T* to) {
  const int64_t step = c.rhs_step[shape.last + 2];
  while (begin < end) {
    const int64_t item = begin / shape.points, point = begin % shape.points;
    const int64_t count = std::min(shape.points - point, end - begin);
    const T* from = w + item * c.rhs_step[1] + point * step;
    if (step == 1) {
      tiles<T>().pack_rows(from, c.rhs_step[0], c.rhs_size[0], count, to);
    } else {
      transpose<T>()(from, to, count, c.rhs_size[0], step, kPackedRow<T>);
    }
    begin += count;
    to += count;
  }
}

// The results of one feature, at all positions of the whole batch.
template <typename T>
void write_feature(const Convolution& c, const Shape& shape, const T* sums, int64_t sums_step,
                   T* out) {
  int64_t at[kMostPositions];
  for (int64_t i = 0; i < shape.positions; ++i) {
    int64_t rest = i;
    at[i] = 0;
    for (int d = shape.last; d >= 0; --d) {
      at[i] += rest % c.out_size[d + 2] * c.out_step[d + 2];
      rest /= c.out_size[d + 2];
    }
  }
  for (int64_t b = 0; b < c.out_size[0]; ++b, out += c.out_step[0]) {
    for (int64_t i = 0; i < shape.positions; ++i) out[at[i]] = sums[i * sums_step + b];
  }
}

}  // namespace

bool has_few_positions(const Convolution& c) {
  if (c.space < 1 || c.feature_groups != 1 || c.batch_groups != 1) return false;
  const Shape shape(c);
  const int last = shape.last;
  // Points of the kernel are contiguous, or evenly strided with contiguous features.
  int64_t step = c.rhs_step[last + 2];
  if (step != 1 && c.rhs_step[0] != 1) return false;
  for (int d = last; d >= 0; --d) {
    if (c.rhs_size[d + 2] != 1 && c.rhs_step[d + 2] != step) return false;
    step *= c.rhs_size[d + 2];
  }
  if (c.lhs_step[0] != 1 && c.lhs_step[last + 2] != 1) return false;
  const int64_t depth = shape.points * c.rhs_size[1];
  return shape.positions > 1 && shape.positions <= kMostPositions &&
         shape.points > shape.positions && depth >= kLeastDepth && c.out_size[0] >= 4 &&
         c.rhs_size[0] >= 4 &&
         c.rhs_size[1] * shape.places * std::max<int64_t>(c.out_size[0], 32) <= kMostCopied;
}

template <typename T>
int32_t convolve_by_position(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  const Shape shape(c);
  const TileLoops& code = tiles<T>();
  const int64_t batch = c.out_size[0], features = c.rhs_size[0], items = c.rhs_size[1];
  const int64_t width = (batch + code.columns - 1) / code.columns * code.columns;
  const int64_t depth = items * shape.points;
  const int64_t chunks = (depth + kPackedDepth - 1) / kPackedDepth;
  const int64_t chunk_size = features * kPackedRow<T>, sums_step = features * width;
  const auto copied = static_cast<size_t>(items * shape.places * width);
  const auto packed_size = static_cast<size_t>(chunks * chunk_size);
  const auto sums_size = static_cast<size_t>(shape.positions * sums_step);
  Scratch scratch(Scratch::size_of<T>(copied) + Scratch::size_of<T>(packed_size) +
                  Scratch::size_of<T>(sums_size) +
                  Scratch::size_of<int64_t>(static_cast<size_t>(depth)));
  if (!scratch) return 1;
  T *copy = scratch.take<T>(copied), *packed = scratch.take<T>(packed_size);
  T* sums = scratch.take<T>(sums_size);
  int64_t* rows = scratch.take<int64_t>(static_cast<size_t>(depth));
  const int64_t line = shape.extent[shape.last] * width;
  int32_t status = over_blocks(call, items * shape.lines, kCopiedPoints / line + 1,
                               [&](int64_t first, int64_t last) {
                                 for (int64_t i = first; i < last; ++i) {
                                   copy_line(c, shape, x + i / shape.lines * c.lhs_step[1],
                                             i % shape.lines, width, copy + i * line);
                                 }
                                 return 0;
                               });
  if (status != 0) return status;
  status =
      over_blocks(call, chunks, kCopiedPoints / chunk_size + 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t begin = i * kPackedDepth;
          pack_chunk(c, shape, w, begin, std::min(begin + kPackedDepth, depth),
                     packed + i * chunk_size);
        }
        return 0;
      });
  if (status != 0) return status;
  for (int64_t i = 0; i < depth; ++i) {
    int64_t rest = i, step = width;
    rows[i] = 0;
    for (int d = shape.last; d >= 0; --d) {
      rows[i] += rest % c.rhs_size[d + 2] * c.rhs_dilation[d] * step;
      rest /= c.rhs_size[d + 2];
      step *= shape.extent[d];
    }
    rows[i] += rest * step;
  }
  // The chunks of all products of a task run in turn, so that what they read stays in cache.
  const int64_t blocks = (features + kRows - 1) / kRows, count = blocks * shape.positions;
  const int64_t work = std::min(kRows, features) * depth * width;
  const int64_t grain =
      std::max((kTaskWork + work - 1) / work, (count + kFewTasks - 1) / kFewTasks);
  status = over_blocks(call, count, grain, [&](int64_t first, int64_t last) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t position = i % shape.positions, row = i / shape.positions * kRows;
        int64_t rest = position, step = width, start = 0;
        for (int d = shape.last; d >= 0; --d) {
          start += rest % c.out_size[d + 2] * c.stride[d] * step;
          rest /= c.out_size[d + 2];
          step *= shape.extent[d];
        }
        TileBlock tile{};
        tile.rows = std::min(kRows, features - row);
        tile.columns = batch;
        tile.depth = std::min(kPackedDepth, depth - chunk * kPackedDepth);
        tile.a = packed + chunk * chunk_size + row * kPackedRow<T>;
        tile.b = copy + start;
        tile.b_rows = rows + chunk * kPackedDepth;
        tile.b_panel = code.columns;
        tile.c = sums + position * sums_step + row * width;
        tile.c_row = width;
        tile.add = chunk > 0;
        tiles_at_rows<T>()(tile);
      }
    }
    return 0;
  });
  if (status != 0) return status;
  if (c.out_step[1] == 1) {
    return over_blocks(call, shape.positions, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        int64_t rest = i, at = 0;
        for (int d = shape.last; d >= 0; --d) {
          at += rest % c.out_size[d + 2] * c.out_step[d + 2];
          rest /= c.out_size[d + 2];
        }
        transpose<T>()(sums + i * sums_step, out + at, features, batch, width, c.out_step[0]);
      }
      return 0;
    });
  }
  return over_blocks(call, features, kCopiedPoints / (batch * shape.positions) + 1,
                     [&](int64_t first, int64_t last) {
                       for (int64_t i = first; i < last; ++i) {
                         write_feature(c, shape, sums + i * width, sums_step,
                                       out + i * c.out_step[1]);
                       }
                       return 0;
                     });
}

template int32_t convolve_by_position<float>(Call*, const Convolution&, const float*, const float*,
                                             float*);
template int32_t convolve_by_position<double>(Call*, const Convolution&, const double*,
                                              const double*, double*);

}  // namespace kiln
