// Convolutions as products whose rows are the positions of a line of the result, and whose columns
// are features. The operand is read in place if it has features last: positions near an edge are
// products of fewer terms, without those of padding. Else a copy of what a block of lines reads has
// the features of each place together.
#include <algorithm>

#include "abi/split.h"
#include "linear/convolutions/division.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kMostCopied = int64_t{1} << 22;  // elements
constexpr int64_t kFewestFeatures = 8;
constexpr int64_t kLeastDepth = 8;
// With features first the sums are transposed, which takes longer than what lines gain if there are
// fewer positions, features or terms.
constexpr int64_t kFewestPositions = 4;  // of a line
constexpr int64_t kManyFeatures = 28;
constexpr int64_t kManyTerms = 64;

template <typename T>
TransposeLoop transpose() {
  return transpose_loop<sizeof(T) == 8 ? 3 : 2>();
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

// Rows of tiles: positions along an axis, and the part of the kernel that they are multiplied by.
struct Strip {
  int64_t from, from_step, to, to_step, count;  // the first position, in the operand and the result
  Span depth;
  bool is_edge;  // its sums are added to others
};

template <typename T>
bool are_finite(const T* numbers, int64_t count) {
  T zero = 0;
  for (int64_t i = 0; i < count; ++i) zero += numbers[i] * T(0);
  return zero == 0;
}

// Where the sums of a part begin, and their steps.
template <typename T>
struct Sums {
  T* to;
  int64_t item, row;
  bool is_packed;
};

template <typename T>
struct Lines {
  const Convolution& c;
  const Division<T>& of;
  const T *x, *kernel;
  const int64_t *places, *copied_places;  // where each unit reads for the first position
  T* out;
  const Epilogue* after;

  [[nodiscard]] int32_t run(int64_t first, int64_t end) const;

 private:
  // A part of the result: its first group, item, position along the first axis and feature.
  struct Part {
    int64_t group, item, items, begin, many, feature, features, length, lines;
  };
  // How a part is computed. `whole` is the place in the sums of a position that reads no padding.
  struct Strips {
    Strip* all;
    int64_t count = 0, whole = -1;
  };
  Part part(int64_t number) const;
  int64_t place(const Part& part, int64_t line) const;
  int64_t place(const Part& part, const Sums<T>& sums, int64_t line) const;
  Strips find_lines(const Part& part, const Reading& reading, const Sums<T>& sums,
                    Strip* all) const;
  Strips find_strips(const Part& part, const Span& middle, const Sums<T>& sums, Strip* all) const;
  void multiply(const Part& part, const Strips& strips, const Reading& reading, const int64_t* read,
                const T* from, int64_t from_item, const Sums<T>& sums) const;
  void clear_edges(const Part& part, const Span& middle, const Sums<T>& sums) const;
  void compute(const Part& part, const Sums<T>& sums, T* copy, Strip* all) const;
  void write(const Part& part, const T* sums, T* to, int64_t to_row) const;
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

// The place of a line in the result of the part.
template <typename T>
int64_t Lines<T>::place(const Part& part, int64_t line) const {
  int64_t to = 0;
  for (int64_t d = of.last - 1; d >= 0; --d) {
    const int64_t size = d == 0 ? part.many : c.out_size[d + 2];
    to += line % size * c.out_step[d + 2];
    line /= size;
  }
  return to;
}

template <typename T>
int64_t Lines<T>::place(const Part& part, const Sums<T>& sums, int64_t line) const {
  return sums.is_packed ? line * part.length * sums.row : place(part, line);
}

// Whole lines, with all elements of the kernel.
template <typename T>
typename Lines<T>::Strips Lines<T>::find_lines(const Part& part, const Reading& reading,
                                               const Sums<T>& sums, Strip* all) const {
  for (int64_t i = 0; i < part.lines; ++i) {
    int64_t from = 0;
    for (int64_t d = of.last - 1, rest = i; d >= 0; --d) {
      const int64_t size = d == 0 ? part.many : c.out_size[d + 2];
      from += rest % size * c.stride[d] * reading.step[d];
      rest /= size;
    }
    all[i] = {from,
              c.stride[of.last] * reading.step[of.last],
              place(part, sums, i),
              sums.row,
              part.length,
              {0, of.panels.depth},
              false};
  }
  return {all, part.lines, 0};
}

// Lines without their edges, with the elements of the kernel that read no padding, and columns of
// positions at the edges. None if there are positions without terms, or none with all of them.
template <typename T>
typename Lines<T>::Strips Lines<T>::find_strips(const Part& part, const Span& middle,
                                                const Sums<T>& sums, Strip* all) const {
  const int last = of.last;
  const int64_t taps = c.rhs_size[last + 2], others = of.panels.taps / taps;
  const int64_t run = taps * of.panels.channels, start = last == 0 ? part.begin : 0;
  const int64_t from_step = c.stride[last] * c.lhs_step[last + 2];
  const int64_t from_line = last == 0 ? 0 : c.stride[0] * c.lhs_step[2];
  const int64_t to_line = part.lines == 1 ? 0 : place(part, sums, 1);
  Strips strips{all};
  if (middle.size() == 0) return strips;
  for (int64_t i = 0; i < part.lines; ++i) {
    const Span used = last == 0 ? Span{0, 1} : taps_of(c, 0, part.begin + i);
    if (used.size() <= 0) return {all};
    const int64_t to = i * to_line + middle.begin * sums.row;
    all[strips.count++] = {
        i * from_line + middle.begin * from_step, from_step, to, sums.row, middle.size(),
        {used.begin * run, used.end * run},       false};
    if (used.size() == others) strips.whole = to;
  }
  if (strips.whole < 0) return {all};
  for (int64_t edge = 0; edge < part.length - middle.size(); ++edge) {
    const int64_t at = middle.outside(edge);
    const Span used = taps_of(c, last, start + at);
    if (used.size() <= 0) return {all};
    for (int64_t tap = 0; tap < others; ++tap) {
      const Span lines =
          last == 0 ? Span{0, 1} : positions_of(c, 0, tap).within(part.begin, part.many);
      if (lines.size() <= 0) continue;
      const int64_t begin = tap * run;
      all[strips.count++] = {
          lines.begin * from_line + at * from_step,
          from_line,
          lines.begin * to_line + at * sums.row,
          to_line,
          lines.size(),
          {begin + used.begin * of.panels.channels, begin + used.end * of.panels.channels},
          true};
    }
  }
  return strips;
}

template <typename T>
void Lines<T>::multiply(const Part& part, const Strips& strips, const Reading& reading,
                        const int64_t* read, const T* from, int64_t from_item,
                        const Sums<T>& sums) const {
  const int64_t columns = of.code.columns, depth = of.panels.depth;
  TileBlock tile{};
  tile.a_column = 1;
  tile.b_row = columns;
  tile.b_panel = depth * columns;
  for (int64_t column = 0; column < part.features; column += tile.columns) {
    const int64_t left = part.features - column;
    // Tiles of three vectors are as fast as those of two.
    tile.columns = left <= columns / 2 * 3 ? left : columns;
    const bool are_lines = reading.are_lines && left <= columns / 2;
    const int64_t panel = part.group * of.panels.count + (part.feature + column) / columns;
    for (int64_t at = 0, end; at < depth; at = end) {
      end = at + reading.depth(at);
      for (int64_t item = 0; item < part.items; ++item) {
        for (const Strip* strip = strips.all; strip < strips.all + strips.count; ++strip) {
          const int64_t begin = std::max(at, strip->depth.begin), within = begin % reading.unit;
          tile.depth = std::min(end, strip->depth.end) - begin;
          if (tile.depth <= 0) continue;
          tile.rows = strip->count;
          tile.a = from + item * from_item + strip->from + within;
          tile.a_row = strip->from_step;
          tile.a_part = std::min(tile.depth, reading.unit - within);
          tile.a_places = read + begin / reading.unit;
          tile.b = kernel + (panel * depth + begin) * columns;
          tile.c = sums.to + item * sums.item + strip->to + column;
          tile.c_row = strip->to_step;
          tile.add = strip->is_edge || begin > strip->depth.begin;
          if (are_lines && !strip->is_edge) tiles_of_lines<T>()(tile);
          else of.code.run(tile);
        }
      }
    }
  }
}

// The sums at the edges of lines are added to.
template <typename T>
void Lines<T>::clear_edges(const Part& part, const Span& middle, const Sums<T>& sums) const {
  for (int64_t item = 0; item < part.items; ++item) {
    for (int64_t i = 0; i < part.lines; ++i) {
      T* to = sums.to + item * sums.item + place(part, sums, i);
      for (int64_t edge = 0; edge < part.length - middle.size(); ++edge) {
        std::fill_n(to + middle.outside(edge) * sums.row, part.features, T(0));
      }
    }
  }
}

// Writes the sums of a part of one group. `copy` and `all` are scratch memory.
template <typename T>
void Lines<T>::compute(const Part& part, const Sums<T>& sums, T* copy, Strip* all) const {
  const T* from = x + part.item * c.lhs_step[0] + part.group * of.panels.channels * c.lhs_step[1];
  if (of.is_in_place) {
    const T* origin = from + part.begin * c.stride[0] * c.lhs_step[2];
    for (int d = 0; d < c.space; ++d) origin -= c.low[d] * c.lhs_step[d + 2];
    const Span middle =
        whole_positions(c, of.last).within(of.last == 0 ? part.begin : 0, part.length);
    const Strips strips = of.has_padding ? find_strips(part, middle, sums, all)
                                         : find_lines(part, of.in_place, sums, all);
    if (strips.whole >= 0) {
      if (of.has_padding) clear_edges(part, middle, sums);
      multiply(part, strips, of.in_place, places, origin, c.lhs_step[0], sums);
      // A kernel that is not finite gives nan where it is multiplied by padding.
      if (!of.has_padding || are_finite(sums.to + strips.whole, part.features)) return;
    }
  }
  for (int64_t i = 0; i < part.items; ++i) {
    copy_places(c, from + i * c.lhs_step[0], part.begin, part.many, copy + i * of.image);
  }
  multiply(part, find_lines(part, of.copied, sums, all), of.copied, copied_places, copy, of.image,
           sums);
}

// Writes the sums of an item to a result in which features are not last.
template <typename T>
void Lines<T>::write(const Part& part, const T* sums, T* to, int64_t to_row) const {
  if (of.is_dense) {
    transpose<T>()(sums, to, part.lines * part.length, part.features, part.features, to_row);
    return;
  }
  const int64_t every = c.out_step[of.last + 2];
  for (int64_t i = 0; i < part.lines; ++i, sums += part.length * part.features) {
    T* line = to + place(part, i);
    if (every == 1) {
      transpose<T>()(sums, line, part.length, part.features, part.features, to_row);
      continue;
    }
    for (int64_t f = 0; f < part.features; ++f) {
      T* row = line + f * to_row;
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
  const bool is_copied = !of.is_in_place || of.has_padding;
  const auto copied = static_cast<size_t>(is_copied ? of.items * of.image : 0);
  const auto sums_size = static_cast<size_t>(of.is_last ? 0 : of.sums());
  const int64_t held_row = of.is_last ? c.rhs_size[0] : positions;
  const auto held_size = static_cast<size_t>(
      out != nullptr ? 0 : of.items * held_row * (of.is_last ? positions : of.features));
  const auto most_strips = static_cast<size_t>(of.strips());
  Scratch scratch(Scratch::size_of<T>(copied) + Scratch::size_of<T>(sums_size) +
                  Scratch::size_of<T>(held_size) + Scratch::size_of<Strip>(most_strips));
  if (!scratch) return 1;
  T *copy = scratch.take<T>(copied), *sums = scratch.take<T>(sums_size);
  T* held = scratch.take<T>(held_size);
  Strip* strips = scratch.take<Strip>(most_strips);
  for (int64_t number = first; number < end; ++number) {
    Part whole = part(number);
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
      if (of.is_last) {
        T* own = to + group * of.panels.features;
        compute(one, {own, to_item, to_row, out == nullptr}, copy, strips);
        continue;
      }
      const int64_t sums_item = many * whole.features;
      compute(one, {sums, sums_item, whole.features, true}, copy, strips);
      for (int64_t i = 0; i < whole.items; ++i) {
        write(one, sums + i * sums_item, to + i * to_item, to_row);
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
                  2 * Scratch::size_of<int64_t>(static_cast<size_t>(of.panels.taps)));
  if (!scratch) return 1;
  T* packed = scratch.take<T>(size);
  int64_t* places = scratch.take<int64_t>(static_cast<size_t>(of.panels.taps));
  int64_t* copied_places = scratch.take<int64_t>(static_cast<size_t>(of.panels.taps));
  of.in_place.find_places(c, places);
  of.copied.find_places(c, copied_places);
  const int32_t status = is_packed ? 0 : pack_kernel(call, c, w, packed);
  if (status != 0) return status;
  const T* kernel = is_packed ? w : packed;
  const int64_t work = of.work();
  return over_blocks(
      call, of.count(), divided(kTaskWork, work), [&](Call* own, int64_t first, int64_t last) {
        const Epilogue mine = after == nullptr ? Epilogue{} : after->on(own);
        const Lines<T> lines{
            c, of, x, kernel, places, copied_places, out, after == nullptr ? nullptr : &mine};
        return lines.run(first, last);
      });
}

#define KILN_INSTANTIATE(T)                                                             \
  template int32_t convolve_lines<T>(Call*, const Convolution&, const T*, const T*, T*, \
                                     const Epilogue*, bool);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
