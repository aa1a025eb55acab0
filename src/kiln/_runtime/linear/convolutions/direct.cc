// Convolutions without a patch matrix. The operand is copied once, with its padding. Positions are
// numbered along the copy: each kernel element then reads it at a fixed offset, and the sums are
// products of matrices of which one is a part of the copy. Results at positions beyond the end of
// an output line are discarded.
#include <algorithm>
#include <cstring>

#include "abi/split.h"
#include "linear/convolutions/convolution.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kMostCopied = int64_t{1} << 24;  // elements
constexpr int64_t kLeastDepth = 8;
// Positions whose sums, for all features, are kept in the L2 cache at a time.
constexpr int64_t kSums = int64_t{1} << 15;
constexpr int64_t kTaskWork = int64_t{1} << 20;

// The layout of the copy of one image and one feature. With a stride, elements with the same
// remainder are contiguous, so that neighbors in the result are neighbors there.
struct Copied {
  const Convolution& c;
  int space;
  int64_t remainders = 1, part = 1, taps = 1, positions;
  int64_t extent[kMaxSpace], step[kMaxSpace];  // of the places of a remainder

  explicit Copied(const Convolution& given) : c(given), space(given.space) {
    positions = 1;
    for (int d = space - 1; d >= 0; --d) {
      const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
      extent[d] = c.out_size[d + 2] + reach / c.stride[d];
      step[d] = part;
      positions += (c.out_size[d + 2] - 1) * part;
      part *= extent[d];
      remainders *= std::min(c.stride[d], reach + 1);
      taps *= c.rhs_size[d + 2];
    }
  }
  int64_t size() const { return remainders * part; }

  // The offset that a kernel element reads for the first position.
  int64_t place(int64_t tap) const {
    int64_t remainder = 0, at = 0, all = 1;
    for (int d = space - 1; d >= 0; --d) {
      const int64_t length = c.rhs_size[d + 2], offset = tap % length * c.rhs_dilation[d];
      tap /= length;
      remainder += offset % c.stride[d] * all;
      all *= std::min(c.stride[d], (length - 1) * c.rhs_dilation[d] + 1);
      at += offset / c.stride[d] * step[d];
    }
    return remainder * part + at;
  }
  int64_t kernel_place(int64_t tap) const {
    int64_t at = 0;
    for (int d = space - 1; d >= 0; --d) {
      at += tap % c.rhs_size[d + 2] * c.rhs_step[d + 2];
      tap /= c.rhs_size[d + 2];
    }
    return at;
  }
};

// Lines of the last axis, of `item` elements a place; `step` counts elements.
template <typename T>
void copy_line(const T* from, int64_t size, int64_t step, int64_t first, int64_t stride,
               int64_t count, int64_t item, T* to) {
  const int64_t low =
      std::clamp<int64_t>(first >= 0 ? 0 : (-first + stride - 1) / stride, 0, count);
  const int64_t room = size - first;
  const int64_t high =
      std::clamp<int64_t>(room <= 0 ? 0 : (room + stride - 1) / stride, low, count);
  std::fill_n(to, low * item, T(0));
  const T* start = from + first * step;
  if (stride * step == item) {
    std::copy(start + low * item, start + high * item, to + low * item);
  } else {
    for (int64_t i = low; i < high; ++i) {
      for (int64_t k = 0; k < item; ++k) to[i * item + k] = start[i * stride * step + k];
    }
  }
  std::fill_n(to + high * item, (count - high) * item, T(0));
}

// Places of one image, `item` features together.
template <typename T>
void copy_image(const Copied& copied, const T* x, int64_t item, T* to) {
  const Convolution& c = copied.c;
  const int last = copied.space - 1;
  for (int64_t remainder = 0; remainder < copied.remainders; ++remainder) {
    int64_t begin[kMaxSpace], rest = remainder;
    for (int d = last; d >= 0; --d) {
      const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
      const int64_t count = std::min(c.stride[d], reach + 1);
      begin[d] = rest % count - c.low[d];
      rest /= count;
    }
    const int64_t line = copied.extent[last];
    for (int64_t at = 0; at < copied.part; at += line, to += line * item) {
      const T* from = x;
      bool inside = true;
      for (int d = last - 1; d >= 0; --d) {
        const int64_t place = begin[d] + at / copied.step[d] % copied.extent[d] * c.stride[d];
        inside = inside && place >= 0 && place < c.lhs_size[d + 2];
        from += place * c.lhs_step[d + 2];
      }
      if (inside) {
        copy_line(from, c.lhs_size[last + 2], c.lhs_step[last + 2], begin[last], c.stride[last],
                  line, item, to);
      } else {
        std::fill_n(to, line * item, T(0));
      }
    }
  }
}

template <typename T>
const TileLoops& tiles() {
  return linear_loops().tiles[sizeof(T) == 8];
}

// The offset in the result of the line of positions that starts at `position`, without its last
// axis; false if there is no such line.
bool find_line(const Copied& copied, int64_t position, int64_t* to) {
  *to = 0;
  for (int d = 0; d < copied.space - 1; ++d) {
    const int64_t at = position / copied.step[d] % copied.extent[d];
    if (at >= copied.c.out_size[d + 2]) return false;
    *to += at * copied.c.out_step[d + 2];
  }
  return true;
}

// Features are rows, positions columns: neighbors in the result are neighbors in space.
template <typename T>
int32_t by_planes(Call* call, const Copied& copied, const T* x, const T* w, T* out) {
  const Convolution& c = copied.c;
  const TileLoops& code = tiles<T>();
  const int64_t groups = c.feature_groups, channels = c.rhs_size[1];
  const int64_t features = c.rhs_size[0] / groups, depth = channels * copied.taps;
  const int64_t plane = copied.size(), batch = c.out_size[0];
  const int64_t chunks = (depth + kPackedDepth - 1) / kPackedDepth;
  const int64_t image = c.lhs_size[1] * plane, slack = 2 * code.columns;
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(batch * image + slack)) +
                  Scratch::size_of<T>(static_cast<size_t>(c.rhs_size[0] * chunks * kPackedRow<T>)) +
                  Scratch::size_of<int64_t>(static_cast<size_t>(depth)));
  if (!scratch) return 1;
  T* copy = scratch.take<T>(static_cast<size_t>(batch * image + slack));
  T* kernel = scratch.take<T>(static_cast<size_t>(c.rhs_size[0] * chunks * kPackedRow<T>));
  int64_t* places = scratch.take<int64_t>(static_cast<size_t>(depth));
  std::fill_n(copy + batch * image, slack, T(0));
  const int32_t status =
      over_blocks(call, batch * c.lhs_size[1], kSums / plane + 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t item = i / c.lhs_size[1], channel = i % c.lhs_size[1];
          copy_image(copied, x + item * c.lhs_step[0] + channel * c.lhs_step[1], 1,
                     copy + i * plane);
        }
        return 0;
      });
  if (status != 0) return status;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t channel = k / copied.taps, tap = k % copied.taps;
    places[k] = channel * plane + copied.place(tap);
    const T* from = w + channel * c.rhs_step[1] + copied.kernel_place(tap);
    T* to = kernel + k / kPackedDepth * c.rhs_size[0] * kPackedRow<T> + k % kPackedDepth;
    for (int64_t f = 0; f < c.rhs_size[0]; ++f) to[f * kPackedRow<T>] = from[f * c.rhs_step[0]];
  }
  const int64_t most = std::max<int64_t>(4, kSums / features / code.columns) * code.columns;
  const int64_t blocks = (copied.positions + most - 1) / most;
  const int64_t block =
      ((copied.positions + blocks - 1) / blocks + code.columns - 1) / code.columns * code.columns;
  const int64_t work = features * block * depth, line = copied.extent[copied.space - 1];
  return over_blocks(
      call, batch * groups * blocks, (kTaskWork + work - 1) / work,
      [&](int64_t first, int64_t last) {
        const Scratch held(static_cast<size_t>(features * block) * sizeof(T));
        if (!held) return 1;
        T* sums = reinterpret_cast<T*>(held.bytes());
        for (int64_t i = first; i < last; ++i) {
          const int64_t begin = i % blocks * block, group = i / blocks % groups;
          const int64_t item = i / blocks / groups;
          const int64_t end = std::min(copied.positions, begin + block);
          if (begin >= end) continue;
          TileBlock tile{};
          tile.rows = features;
          tile.columns = (end - begin + code.columns - 1) / code.columns * code.columns;
          tile.b = copy + item * image + group * channels * plane + begin;
          tile.b_panel = code.columns;
          tile.c = sums;
          tile.c_row = block;
          for (int64_t k = 0; k < depth; k += kPackedDepth) {
            tile.depth = std::min(kPackedDepth, depth - k);
            tile.a = kernel + (k / kPackedDepth * c.rhs_size[0] + group * features) * kPackedRow<T>;
            tile.b_rows = places + k;
            tile.add = k > 0;
            code.run(tile);
          }
          T* to = out + item * c.out_step[0] + group * features * c.out_step[1];
          const int64_t length = c.out_size[copied.space + 1];
          for (int64_t start = begin / line * line; start < end; start += line) {
            int64_t place;
            const int64_t from = std::max(start, begin), until = std::min(start + length, end);
            if (from >= until || !find_line(copied, start, &place)) continue;
            for (int64_t f = 0; f < features; ++f) {
              std::memcpy(to + place + f * c.out_step[1] + from - start,
                          sums + f * block + from - begin,
                          static_cast<size_t>(until - from) * sizeof(T));
            }
          }
        }
        return 0;
      });
}

// Positions are rows, features columns: neighbors in the result are features of one position.
template <typename T>
int32_t by_points(Call* call, const Copied& copied, const T* x, const T* w, T* out) {
  const Convolution& c = copied.c;
  const TileLoops& code = tiles<T>();
  const int64_t channels = c.rhs_size[1], features = c.rhs_size[0], batch = c.out_size[0];
  const int64_t depth = copied.taps * channels, image = copied.size() * channels;
  const int64_t panels = (features + code.columns - 1) / code.columns;
  const int64_t width = panels * code.columns;
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(batch * image)) +
                  Scratch::size_of<T>(static_cast<size_t>(depth * width)));
  if (!scratch) return 1;
  T* copy = scratch.take<T>(static_cast<size_t>(batch * image));
  T* kernel = scratch.take<T>(static_cast<size_t>(depth * width));
  const int32_t status = over_blocks(call, batch, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      copy_image(copied, x + i * c.lhs_step[0], channels, copy + i * image);
    }
    return 0;
  });
  if (status != 0) return status;
  for (int64_t k = 0; k < depth; ++k) {
    const T* from = w + k % channels * c.rhs_step[1] + copied.kernel_place(k / channels);
    for (int64_t f = 0; f < width; ++f) {
      kernel[(f / code.columns * depth + k) * code.columns + f % code.columns] =
          f < features ? from[f * c.rhs_step[0]] : T(0);
    }
  }
  // Kernel elements that are consecutive both in the copy and in the kernel.
  const int last_axis = copied.space - 1;
  const bool is_run = c.rhs_dilation[last_axis] == 1 && c.stride[last_axis] == 1;
  const int64_t run = channels * (is_run ? c.rhs_size[last_axis + 2] : 1);
  const int64_t length = c.out_size[last_axis + 2], line = copied.extent[last_axis];
  const int64_t lines = (copied.positions + line - 1) / line, work = length * depth * features;
  return over_blocks(
      call, batch * lines, (kTaskWork + work - 1) / work, [&](int64_t first, int64_t last) {
        const Scratch held(static_cast<size_t>(length * kPackedRow<T>) * sizeof(T));
        if (!held) return 1;
        T* packed = reinterpret_cast<T*>(held.bytes());
        for (int64_t i = first; i < last; ++i) {
          const int64_t start = i % lines * line, item = i / lines;
          int64_t place;
          if (!find_line(copied, start, &place)) continue;
          TileBlock tile{};
          tile.rows = length;
          tile.columns = features;
          tile.a = packed;
          tile.b_row = code.columns;
          tile.b_panel = depth * code.columns;
          tile.c = out + item * c.out_step[0] + place;
          tile.c_row = length == 1 ? features : c.out_step[last_axis + 2];
          for (int64_t k = 0; k < depth; k += tile.depth) {
            tile.depth = std::min(kPackedDepth, run - k % run);
            const T* from = copy + item * image + (start + copied.place(k / channels)) * channels +
                            k % channels;
            code.pack_rows(from, channels, length, tile.depth, packed);
            tile.b = kernel + k * code.columns;
            tile.add = k > 0;
            code.run(tile);
          }
        }
        return 0;
      });
}

}  // namespace

bool is_direct(const Convolution& c) {
  const int last = c.space + 1;
  if (c.space < 1 || c.batch_groups != 1) return false;
  int64_t copied = c.lhs_size[0] * c.lhs_size[1], taps = 1, places = 1, kept = 1;
  for (int d = 0; d < c.space; ++d) {
    if (c.lhs_dilation[d] != 1) return false;
    const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
    const int64_t extent = c.out_size[d + 2] + reach / c.stride[d];
    copied *= extent * std::min(c.stride[d], reach + 1);
    places *= d == 0 ? c.out_size[2] : extent;
    kept *= c.out_size[d + 2];
    taps *= c.rhs_size[d + 2];
  }
  const int64_t features = c.rhs_size[0] / c.feature_groups;
  if (taps == 1 || taps * c.rhs_size[1] < kLeastDepth || copied > kMostCopied) return false;
  if (c.out_step[1] == 1 && c.lhs_step[1] == 1 && c.feature_groups == 1) {
    return features * 4 >= tiles<float>().columns;
  }
  // Only if little of the work is discarded.
  return c.lhs_step[last] == 1 && c.out_step[last] == 1 && kept * 4 >= places * 3;
}

template <typename T>
int32_t convolve_directly(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  const Copied copied(c);
  return c.out_step[1] == 1 && c.lhs_step[1] == 1 && c.feature_groups == 1
             ? by_points(call, copied, x, w, out)
             : by_planes(call, copied, x, w, out);
}

template int32_t convolve_directly<float>(Call*, const Convolution&, const float*, const float*,
                                          float*);
template int32_t convolve_directly<double>(Call*, const Convolution&, const double*, const double*,
                                           double*);

}  // namespace kiln
