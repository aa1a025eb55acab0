// Convolutions as products whose rows are the positions of a line of the result, and whose columns
// are features. The operand is read in place if it has no padding and features last, else from a
// copy of what a block of lines reads, with the features of each place together.
#include <algorithm>

#include "abi/split.h"
#include "linear/convolutions/convolution.h"
#include "linear/convolutions/panels.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// Elements of a block, of the operand and of sums: they stay in the L2 cache.
constexpr int64_t kBlock = int64_t{1} << 17;
// A larger kernel does not: tasks compute some features of many items.
constexpr int64_t kKernel = int64_t{1} << 18;
constexpr int64_t kTaskWork = int64_t{1} << 19;
constexpr int64_t kFewTasks = 4;
constexpr int64_t kMostCopied = int64_t{1} << 22;  // elements
constexpr int64_t kFewestFeatures = 8;
constexpr int64_t kLeastDepth = 8;
// With features first the sums are transposed, which takes longer than what lines gain if there are
// fewer positions, features or terms.
constexpr int64_t kFewestPositions = 4;  // of a line
constexpr int64_t kManyFeatures = 28;
constexpr int64_t kManyTerms = 64;

constexpr int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

template <typename T>
TransposeLoop transpose() {
  return transpose_loop<sizeof(T) == 8 ? 3 : 2>();
}

// The places between the first and the last that a position reads, and one of both.
int64_t reach(const Convolution& c, int d) { return (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d]; }

// The places that positions along an axis read.
int64_t extent(const Convolution& c, int d, int64_t count) {
  return (count - 1) * c.stride[d] + reach(c, d) + 1;
}

// The parts of a convolution that are computed one after the other. A task is a block of positions
// along the first axis, with all positions along the others, of some items and features.
template <typename T>
struct Division {
  const TileLoops& code = tile_loops<T>();
  const Panels panels;
  const int last;    // axis
  int64_t each = 1;  // positions of the result for each along the first axis
  bool is_in_place;  // whether the operand is not copied
  bool is_last;      // whether features are the last axis of the result
  bool is_dense;     // whether the positions of a feature are contiguous in the result
  int64_t items, item_blocks, block, blocks, features, feature_blocks;
  int64_t together;         // groups of a task
  int64_t step[kMaxSpace];  // of places, in what tiles read
  int64_t image = 0;        // elements of the copy of an item
  // Elements of the kernel that read contiguous operands are a unit. Tiles multiply by several of
  // them, or by a piece of one.
  int64_t unit, units, piece, units_of_tile;
  bool are_lines;  // whether neighbors on a line share what they read

  Division(const Convolution& c, const Epilogue* after);
  int64_t count() const { return panels.groups / together * item_blocks * feature_blocks * blocks; }
  int64_t work() const { return together * items * block * each * features * panels.depth; }
  // Of a task, with all its groups.
  int64_t sums() const { return items * block * each * features * together; }
};

template <typename T>
Division<T>::Division(const Convolution& c, const Epilogue* after)
    : panels(Panels::of<T>(c)), last(c.space - 1), is_last(c.out_step[1] == 1), is_dense(true) {
  const int64_t groups = panels.groups, channels = panels.channels, width = panels.features;
  const int64_t depth = panels.depth;
  int64_t dense = 1, line = channels;
  bool has_padding = false;
  for (int d = last; d >= 0; --d) {
    is_dense = is_dense && (c.out_size[d + 2] == 1 || c.out_step[d + 2] == dense);
    dense *= c.out_size[d + 2];
    const int64_t places = extent(c, d, c.out_size[d + 2]);
    has_padding = has_padding || c.low[d] != 0 || places > c.lhs_size[d + 2];
    if (d == 0) continue;
    each *= c.out_size[d + 2];
    line *= places;
  }
  is_in_place = c.lhs_step[1] == 1 && !has_padding;
  const int64_t batch = c.out_size[0], length = c.out_size[2];
  // Few columns are no more than a vector, which epilogues take whole.
  const bool needs_rows = after != nullptr && (after->is_of_rows || after->columns <= code.columns);
  together = needs_rows && is_last ? groups : 1;
  const int64_t parts = needs_rows && is_last ? 1 : divided(depth * width, kKernel);
  features = std::min(width, divided(panels.count, parts) * code.columns);
  feature_blocks = divided(width, features);
  const int64_t per_place = c.stride[0] * line + each * features;
  const int64_t all = batch * groups * length * each * width * depth;
  const int64_t tasks = std::clamp<int64_t>(all / kTaskWork, 1, kFewTasks);
  const int64_t others = batch * groups / together * feature_blocks;
  // An epilogue that needs all positions of a feature has them in one block.
  blocks = needs_rows && !is_last
               ? 1
               : std::max(divided(length * per_place, kBlock), divided(tasks, others));
  block = divided(length, std::min(blocks, length));
  blocks = divided(length, block);
  const int64_t most = blocks > 1 ? 1 : std::clamp<int64_t>(others / tasks, 1, batch);
  items = std::clamp<int64_t>(kBlock / (block * per_place), 1, most);
  item_blocks = divided(batch, items);
  items = divided(batch, item_blocks);
  image = channels;
  for (int d = last; d >= 0; --d) {
    step[d] = is_in_place ? c.lhs_step[d + 2] : image;
    image *= extent(c, d, d == 0 ? block : c.out_size[d + 2]);
  }
  const int64_t run = c.rhs_size[last + 2] * channels;
  const bool is_run = c.rhs_dilation[last] == 1 && step[last] == channels && run <= kPackedDepth;
  unit = is_run ? run : channels;
  units = depth / unit;
  piece = divided(unit, divided(unit, kPackedDepth));
  units_of_tile = divided(units, divided(units, std::max<int64_t>(1, kPackedDepth / unit)));
  const int64_t taps = c.rhs_size[last + 2];
  are_lines = is_run && c.stride[last] == 1 && (taps == 3 || taps == 5);
}

// Copies `count` places of a line, of which the first `low` are padding.
template <typename T>
void copy_line(const Convolution& c, const T* from, int64_t low, int64_t count, T* to) {
  const int64_t channels = c.rhs_size[1], other = c.lhs_step[1], every = c.lhs_step[c.space + 1];
  const int64_t begin = std::clamp<int64_t>(low, 0, count);
  const int64_t end = std::clamp<int64_t>(c.lhs_size[c.space + 1] + low, begin, count);
  std::fill_n(to, begin * channels, T(0));
  std::fill_n(to + end * channels, (count - end) * channels, T(0));
  if (begin == end) return;
  from += (begin - low) * every;
  to += begin * channels;
  count = end - begin;
  if (other == 1 && every == channels) {
    std::copy_n(from, count * channels, to);
  } else if (other == 1) {
    for (int64_t i = 0; i < count; ++i) std::copy_n(from + i * every, channels, to + i * channels);
  } else if (every == 1) {
    transpose<T>()(from, to, channels, count, other, channels);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = 0; k < channels; ++k) to[i * channels + k] = from[i * every + k * other];
    }
  }
}

// Copies what `many` positions along the first axis read, from the position `begin` on.
template <typename T>
void copy_places(const Convolution& c, const T* x, int64_t begin, int64_t many, T* to) {
  const int last = c.space - 1;
  int64_t low[kMaxSpace] = {}, size[kMaxSpace] = {}, lines = 1;
  for (int d = 0; d <= last; ++d) {
    low[d] = c.low[d] - (d == 0 ? begin * c.stride[0] : 0);
    size[d] = extent(c, d, d == 0 ? many : c.out_size[d + 2]);
    if (d < last) lines *= size[d];
  }
  const int64_t length = size[last] * c.rhs_size[1];
  for (int64_t line = 0; line < lines; ++line, to += length) {
    const T* from = x;
    bool is_inside = true;
    for (int64_t d = last - 1, rest = line; d >= 0; rest /= size[d], --d) {
      const int64_t place = rest % size[d] - low[d];
      is_inside = is_inside && place >= 0 && place < c.lhs_size[d + 2];
      from += place * c.lhs_step[d + 2];
    }
    if (is_inside) {
      copy_line(c, from, low[last], size[last], to);
    } else {
      std::fill_n(to, length, T(0));
    }
  }
}

// The first position of a line: where it reads, and its place in the result.
struct Line {
  int64_t from, to;
};

template <typename T>
struct Lines {
  const Convolution& c;
  const Division<T>& of;
  const T *x, *kernel;
  const int64_t* places;  // where each unit reads for the first position
  T* out;
  const Epilogue* after;

  [[nodiscard]] int32_t run(int64_t first, int64_t end) const;

 private:
  // A part of the result: its first group, item, position along the first axis and feature.
  struct Part {
    int64_t group, item, items, begin, many, feature, features, length, lines;
  };
  Part part(int64_t number) const;
  void find_lines(const Part& part, Line* lines) const;
  void multiply(const Part& part, const Line* lines, const T* from, int64_t from_item, T* to,
                int64_t to_item, int64_t to_row, bool is_packed) const;
  void write(const Part& part, const Line* lines, const T* sums, T* to, int64_t to_row) const;
  [[nodiscard]] int32_t finish(const Part& part, T* to, int64_t to_item, int64_t to_row) const;
};

template <typename T>
typename Lines<T>::Part Lines<T>::part(int64_t number) const {
  Part part;
  part.begin = number % of.blocks * of.block;
  part.many = std::min(of.block, c.out_size[2] - part.begin);
  number /= of.blocks;
  part.item = number % of.item_blocks * of.items;
  part.items = std::min(of.items, c.out_size[0] - part.item);
  number /= of.item_blocks;
  part.feature = number % of.feature_blocks * of.features;
  part.features = std::min(of.features, of.panels.features - part.feature);
  part.group = number / of.feature_blocks * of.together;
  part.length = of.last == 0 ? part.many : c.out_size[of.last + 2];
  part.lines = part.many * of.each / part.length;
  return part;
}

template <typename T>
void Lines<T>::find_lines(const Part& part, Line* lines) const {
  for (int64_t i = 0; i < part.lines; ++i) {
    lines[i] = {0, 0};
    for (int64_t d = of.last - 1, rest = i; d >= 0; --d) {
      const int64_t size = d == 0 ? part.many : c.out_size[d + 2], at = rest % size;
      rest /= size;
      lines[i].from += at * c.stride[d] * of.step[d];
      lines[i].to += at * c.out_step[d + 2];
    }
  }
}

// Writes sums of one group to the result, or packed.
template <typename T>
void Lines<T>::multiply(const Part& part, const Line* lines, const T* from, int64_t from_item,
                        T* to, int64_t to_item, int64_t to_row, bool is_packed) const {
  const int64_t columns = of.code.columns;
  TileBlock tile{};
  tile.rows = part.length;
  tile.a_row = c.stride[of.last] * of.step[of.last];
  tile.a_column = 1;
  tile.b_row = columns;
  tile.b_panel = of.panels.depth * columns;
  tile.c_row = to_row;
  for (int64_t column = 0; column < part.features; column += tile.columns) {
    const int64_t left = part.features - column;
    // Tiles of three vectors are as fast as those of two.
    tile.columns = left <= columns / 2 * 3 ? left : columns;
    const RunTiles run = of.are_lines && left <= columns / 2 ? tiles_of_lines<T>() : of.code.run;
    const int64_t panel = part.group * of.panels.count + (part.feature + column) / columns;
    for (int64_t at = 0; at < of.panels.depth; at += tile.depth) {
      const int64_t number = at / of.unit, within = at % of.unit;
      tile.a_part = std::min(of.piece, of.unit - within);
      tile.depth =
          tile.a_part * (of.piece < of.unit ? 1 : std::min(of.units_of_tile, of.units - number));
      tile.a_places = places + number;
      tile.b = kernel + (panel * of.panels.depth + at) * columns;
      tile.add = at > 0;
      for (int64_t item = 0; item < part.items; ++item) {
        for (int64_t i = 0; i < part.lines; ++i) {
          tile.a = from + item * from_item + lines[i].from + within;
          tile.c =
              to + item * to_item + (is_packed ? i * part.length * to_row : lines[i].to) + column;
          run(tile);
        }
      }
    }
  }
}

// Writes the sums of an item to a result in which features are not last.
template <typename T>
void Lines<T>::write(const Part& part, const Line* lines, const T* sums, T* to,
                     int64_t to_row) const {
  if (of.is_dense) {
    transpose<T>()(sums, to, part.lines * part.length, part.features, part.features, to_row);
    return;
  }
  const int64_t every = c.out_step[of.last + 2];
  for (int64_t i = 0; i < part.lines; ++i, sums += part.length * part.features) {
    if (every == 1) {
      transpose<T>()(sums, to + lines[i].to, part.length, part.features, part.features, to_row);
      continue;
    }
    for (int64_t f = 0; f < part.features; ++f) {
      T* row = to + lines[i].to + f * to_row;
      for (int64_t j = 0; j < part.length; ++j) row[j * every] = sums[j * part.features + f];
    }
  }
}

// Runs the epilogue on a part of the result, of all groups that were computed together.
template <typename T>
int32_t Lines<T>::finish(const Part& part, T* to, int64_t to_item, int64_t to_row) const {
  const int64_t begin = part.begin * of.each, many = part.many * of.each;
  const int64_t first = part.group * of.panels.features + part.feature;
  const int64_t features = of.together > 1 ? of.together * of.panels.features : part.features;
  for (int64_t i = 0; i < part.items; ++i, to += to_item) {
    const int64_t item = part.item + i;
    if (of.is_last) {
      const int64_t row = item * c.out_size[2] * of.each + begin;
      const int32_t status = after->run(to, row, row + many, first, first + features);
      if (status != 0) return status;
      continue;
    }
    // The epilogue takes rows of the whole matrix; those of a block are shorter.
    const int64_t rows = to_row == after->columns ? features : 1;
    for (int64_t f = 0; f < features; f += rows) {
      const int64_t row = item * c.rhs_size[0] + first + f;
      const int32_t status = after->run(to + f * to_row, row, row + rows, begin, begin + many);
      if (status != 0) return status;
    }
  }
  return 0;
}

template <typename T>
int32_t Lines<T>::run(int64_t first, int64_t end) const {
  const int64_t positions = of.block * of.each;
  const auto copied = static_cast<size_t>(of.is_in_place ? 0 : of.items * of.image);
  const auto sums_size = static_cast<size_t>(of.is_last ? 0 : of.sums());
  const int64_t held_row = of.is_last ? c.rhs_size[0] : positions;
  const auto held_size = static_cast<size_t>(
      out != nullptr ? 0 : of.items * held_row * (of.is_last ? positions : of.features));
  Scratch scratch(Scratch::size_of<T>(copied) + Scratch::size_of<T>(sums_size) +
                  Scratch::size_of<T>(held_size) +
                  Scratch::size_of<Line>(static_cast<size_t>(positions)));
  if (!scratch) return 1;
  T *copy = scratch.take<T>(copied), *sums = scratch.take<T>(sums_size);
  T* held = scratch.take<T>(held_size);
  Line* lines = scratch.take<Line>(static_cast<size_t>(positions));
  for (int64_t number = first; number < end; ++number) {
    Part whole = part(number);
    find_lines(whole, lines);
    const int64_t begin = whole.group * of.panels.features + whole.feature;
    const int64_t many = whole.many * of.each;
    // Where the result of the part begins, and its steps.
    int64_t to_item = c.out_step[0], to_row = of.is_last ? c.out_step[of.last + 2] : c.out_step[1];
    T* to = out + whole.item * to_item + whole.begin * c.out_step[2] + begin * c.out_step[1];
    if (out == nullptr) {
      to_row = of.is_last ? held_row : many;
      to_item = of.is_last ? many * held_row : whole.features * many;
      to = held;
    }
    for (int64_t group = 0; group < of.together; ++group) {
      Part one = whole;
      one.group += group;
      const T* from =
          x + whole.item * c.lhs_step[0] + one.group * of.panels.channels * c.lhs_step[1];
      int64_t from_item = c.lhs_step[0];
      if (of.is_in_place) {
        from += whole.begin * c.stride[0] * c.lhs_step[2];
      } else {
        from_item = of.image;
        for (int64_t i = 0; i < whole.items; ++i) {
          copy_places(c, from + i * c.lhs_step[0], whole.begin, whole.many, copy + i * from_item);
        }
        from = copy;
      }
      if (of.is_last) {
        multiply(one, lines, from, from_item, to + group * of.panels.features, to_item, to_row,
                 out == nullptr);
        continue;
      }
      const int64_t sums_item = many * whole.features;
      multiply(one, lines, from, from_item, sums, sums_item, whole.features, true);
      for (int64_t i = 0; i < whole.items; ++i) {
        write(one, lines, sums + i * sums_item, to + i * to_item, to_row);
      }
    }
    if (after == nullptr) continue;
    const int32_t status = finish(whole, to, to_item, to_row);
    if (status != 0) return status;
  }
  return 0;
}

}  // namespace

bool has_lines(const Convolution& c) {
  if (c.space < 1 || c.batch_groups != 1) return false;
  const int last = c.space - 1;
  int64_t taps = 1, line = c.rhs_size[1];
  for (int d = 0; d <= last; ++d) {
    taps *= c.rhs_size[d + 2];
    line *= extent(c, d, d == 0 ? 1 : c.out_size[d + 2]);
  }
  const int64_t features = c.rhs_size[0] / c.feature_groups, terms = taps * c.rhs_size[1];
  if (taps == 1 || terms < kLeastDepth || features < kFewestFeatures || line > kMostCopied) {
    return false;
  }
  const bool is_first = c.out_step[1] != 1 && c.lhs_step[1] != 1;
  return !is_first || (c.out_size[last + 2] >= kFewestPositions && features >= kManyFeatures &&
                       terms >= kManyTerms);
}

template <typename T>
int32_t convolve_lines(Call* call, const Convolution& c, const T* x, const T* w, T* out,
                       const Epilogue* after, bool is_packed) {
  const Division<T> of(c, after);
  const auto size = static_cast<size_t>(is_packed ? 0 : of.panels.size());
  Scratch scratch(Scratch::size_of<T>(size) +
                  Scratch::size_of<int64_t>(static_cast<size_t>(of.units)));
  if (!scratch) return 1;
  T* packed = scratch.take<T>(size);
  int64_t* places = scratch.take<int64_t>(static_cast<size_t>(of.units));
  for (int64_t i = 0; i < of.units; ++i) {
    places[i] = 0;
    for (int64_t d = of.last, rest = i * (of.panels.taps / of.units); d >= 0; --d) {
      places[i] += rest % c.rhs_size[d + 2] * c.rhs_dilation[d] * of.step[d];
      rest /= c.rhs_size[d + 2];
    }
  }
  const int32_t status = is_packed ? 0 : pack_kernel(call, c, w, packed);
  if (status != 0) return status;
  const T* kernel = is_packed ? w : packed;
  const int64_t work = of.work();
  return over_blocks(
      call, of.count(), divided(kTaskWork, work), [&](Call* own, int64_t first, int64_t last) {
        const Epilogue mine = after == nullptr ? Epilogue{} : after->on(own);
        const Lines<T> lines{c, of, x, kernel, places, out, after == nullptr ? nullptr : &mine};
        return lines.run(first, last);
      });
}

#define KILN_INSTANTIATE(T)                                                             \
  template int32_t convolve_lines<T>(Call*, const Convolution&, const T*, const T*, T*, \
                                     const Epilogue*, bool);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
