// Patch matrices (im2col): the contents of windows as a matrix, which makes convolutions products.
#pragma once

#include <cstdint>

namespace kiln {

constexpr int kMaxSpace = 6;  // spatial axes of a convolution
constexpr int kMaxAxes = kMaxSpace + 1;

// An axis of positions or of a kernel: its size, the axis of the operand along which it walks, its
// stride there, and the stride in another array (the kernel, or the result).
struct WalkAxis {
  int64_t size, along, step, other;
};

// Axes that are walked in order, the last one fastest.
struct Walk {
  int count = 0;
  WalkAxis axes[kMaxAxes];

  void add(const WalkAxis& axis);
  int64_t size() const;
  // Orders the axes by their strides in the other array, and drops those of size 1.
  void sort();
  // The length of aligned runs of indices that are evenly strided in the other array, and their
  // stride.
  int64_t run(int64_t* step) const;
  // The offset in the other array.
  int64_t offset(int64_t index) const;
};

// The operand of a convolution. Axis 0 is the batch, 1 the features, the rest space.
struct Operand {
  int axes;
  int64_t size[kMaxAxes + 1];
  int64_t step[kMaxAxes + 1];  // in memory, in elements
  int64_t low[kMaxAxes + 1];   // padding before the first; negative: elements dropped
};

// The cost per element of lines along the last axis of a walk.
double line_cost(const Operand& operand, const Walk& walk);

// Writes the elements at the sum of a row's and a column's position; zeros outside the operand. The
// matrix is dense.
template <typename T>
void write_patches(const Operand& operand, const T* x, const Walk& rows, int64_t first_row,
                   int64_t last_row, const Walk& columns, int64_t first_column, int64_t last_column,
                   T* to);

}  // namespace kiln
