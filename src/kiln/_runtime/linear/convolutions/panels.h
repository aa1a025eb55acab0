// The kernel of a convolution in panels of features.
#pragma once

#include "linear/convolutions/convolution.h"
#include "linear/levels.h"

namespace kiln {

// Panels of one group after another. A row has the factors of one place of the operand, for as many
// features as a tile has columns.
struct Panels {
  int64_t columns;
  int64_t groups, channels, features;  // the latter of a group
  int64_t taps = 1, depth, count;      // `count`: panels of a group

  template <typename T>
  static Panels of(const Convolution& c) {
    Panels panels{tile_loops<T>().columns, c.feature_groups, c.rhs_size[1],
                  c.rhs_size[0] / c.feature_groups};
    for (int d = 0; d < c.space; ++d) panels.taps *= c.rhs_size[d + 2];
    panels.depth = panels.taps * panels.channels;
    panels.count = (panels.features + panels.columns - 1) / panels.columns;
    return panels;
  }
  int64_t each() const { return depth * columns; }
  int64_t size() const { return groups * count * each(); }
};

template <typename T>
[[nodiscard]] int32_t pack_kernel(Call* call, const Convolution& convolution, const T* w, T* to);

}  // namespace kiln
