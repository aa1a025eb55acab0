// How a convolution by lines is divided into tasks and tiles.
#pragma once

#include <algorithm>

#include "linear/convolutions/convolution.h"
#include "linear/convolutions/panels.h"
#include "linear/levels.h"

namespace kiln {
namespace {

// Elements of a block, of the operand and of sums: they stay in the L2 cache.
constexpr int64_t kBlock = int64_t{1} << 17;
// A larger kernel does not: tasks compute some features of many items.
constexpr int64_t kKernel = int64_t{1} << 18;
constexpr int64_t kTaskWork = int64_t{1} << 19;
constexpr int64_t kFewTasks = 4;
// An operand with padding is read in place if it has no more axes, and so many positions along the
// last one do not read padding.
constexpr int kMostEdgeAxes = 2;
constexpr int64_t kFewestWhole = 4;

constexpr int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

// The places between the first and the last that a position reads, and one of both.
inline int64_t reach(const Convolution& c, int d) {
  return (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
}

// The places that positions along an axis read.
inline int64_t extent(const Convolution& c, int d, int64_t count) {
  return (count - 1) * c.stride[d] + reach(c, d) + 1;
}

// How tiles read the operand, in place or in a copy.
struct Reading {
  int64_t step[kMaxSpace] = {};  // of places
  // Elements of the kernel that read contiguous operands are a unit. Tiles multiply by several of
  // them, or by a piece of one.
  int64_t unit = 0, units = 0, piece = 0, units_of_tile = 0;
  bool are_lines = false;  // whether neighbors on a line share what they read

  void divide(const Convolution& c) {
    const int last = c.space - 1;
    const int64_t channels = c.rhs_size[1], taps = c.rhs_size[last + 2], run = taps * channels;
    const bool is_run = c.rhs_dilation[last] == 1 && step[last] == channels && run <= kPackedDepth;
    unit = is_run ? run : channels;
    units = is_run ? 1 : taps;
    for (int d = 0; d < last; ++d) units *= c.rhs_size[d + 2];
    piece = divided(unit, divided(unit, kPackedDepth));
    units_of_tile = divided(units, divided(units, std::max<int64_t>(1, kPackedDepth / unit)));
    are_lines = is_run && c.stride[last] == 1 && (taps == 3 || taps == 5);
  }
  // How much of the kernel, from `at` on, tiles multiply by at a time.
  int64_t depth(int64_t at) const {
    return piece < unit ? std::min(piece, unit - at % unit)
                        : unit * std::min(units_of_tile, units - at / unit);
  }
  // Where each unit reads for the first position.
  void find_places(const Convolution& c, int64_t* places) const {
    for (int64_t i = 0; i < units; ++i) {
      places[i] = 0;
      for (int64_t d = c.space - 1, rest = i * (unit / c.rhs_size[1]); d >= 0; --d) {
        places[i] += rest % c.rhs_size[d + 2] * c.rhs_dilation[d] * step[d];
        rest /= c.rhs_size[d + 2];
      }
    }
  }
};

// A half-open range.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  // The part within `count` from `start` on, counted from there.
  Span within(int64_t start, int64_t count) const {
    return {std::clamp<int64_t>(begin - start, 0, count),
            std::clamp<int64_t>(end - start, 0, count)};
  }
  // Number `i` of the numbers from 0 on that are not in it.
  int64_t outside(int64_t i) const { return i < begin ? i : i + size(); }
};

// The positions along an axis for which `tap` reads the operand rather than padding.
inline Span positions_of(const Convolution& c, int d, int64_t tap) {
  const int64_t first = c.low[d] - tap * c.rhs_dilation[d], stride = c.stride[d];
  const int64_t beyond = first + c.lhs_size[d + 2];
  return Span{std::max<int64_t>(0, divided(first, stride)),
              std::max<int64_t>(0, divided(beyond, stride))}
      .within(0, c.out_size[d + 2]);
}

// Those for which all do.
inline Span whole_positions(const Convolution& c, int d) {
  return {positions_of(c, d, 0).begin, positions_of(c, d, c.rhs_size[d + 2] - 1).end};
}

// The kernel elements along an axis that read the operand for a position.
inline Span taps_of(const Convolution& c, int d, int64_t position) {
  Span taps{c.rhs_size[d + 2], 0};
  for (int64_t tap = 0; tap < c.rhs_size[d + 2]; ++tap) {
    const Span positions = positions_of(c, d, tap);
    if (position < positions.begin || position >= positions.end) continue;
    taps = {std::min(taps.begin, tap), tap + 1};
  }
  return taps;
}

// The parts of a convolution that are computed one after the other. A task is a block of positions
// along the first axis, with all positions along the others, of some items and features.
template <typename T>
struct Division {
  const TileLoops& code = tile_loops<T>();
  const Panels panels;
  const int last;    // axis
  int64_t each = 1;  // positions of the result for each along the first axis
  bool is_in_place, has_padding = false;
  bool is_last;   // whether features are the last axis of the result
  bool is_dense;  // whether the positions of a feature are contiguous in the result
  int64_t items, item_blocks, block, blocks, features, feature_blocks;
  int64_t together;   // groups of a task
  int64_t image = 0;  // elements of the copy of an item
  int64_t edge = 0;   // positions along the last axis that read padding
  Reading in_place, copied;

  Division(const Convolution& c, const Epilogue* after);
  int64_t count() const { return panels.groups / together * item_blocks * feature_blocks * blocks; }
  int64_t work() const { return together * items * block * each * features * panels.depth; }
  // Of a task, with all its groups.
  int64_t sums() const { return items * block * each * features * together; }
  // The most strips that a task is computed in.
  int64_t strips() const { return block * each + edge * panels.taps; }
};

template <typename T>
Division<T>::Division(const Convolution& c, const Epilogue* after)
    : panels(Panels::of<T>(c)), last(c.space - 1), is_last(c.out_step[1] == 1), is_dense(true) {
  const int64_t groups = panels.groups, channels = panels.channels, width = panels.features;
  const int64_t depth = panels.depth;
  int64_t dense = 1, line = channels;
  for (int d = last; d >= 0; --d) {
    is_dense = is_dense && (c.out_size[d + 2] == 1 || c.out_step[d + 2] == dense);
    dense *= c.out_size[d + 2];
    has_padding = has_padding || whole_positions(c, d).size() < c.out_size[d + 2];
    if (d == 0) continue;
    each *= c.out_size[d + 2];
    line *= extent(c, d, c.out_size[d + 2]);
  }
  const Span whole = whole_positions(c, last);
  edge = c.out_size[last + 2] - whole.size();
  is_in_place = c.lhs_step[1] == 1 &&
                (!has_padding || (c.space <= kMostEdgeAxes && whole.size() >= kFewestWhole));
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
    in_place.step[d] = c.lhs_step[d + 2];
    copied.step[d] = image;
    image *= extent(c, d, d == 0 ? block : c.out_size[d + 2]);
  }
  in_place.divide(c);
  copied.divide(c);
}

}  // namespace
}  // namespace kiln
