// Copies of the operand of a convolution, with its padding.
#pragma once

#include <algorithm>

#include "linear/convolutions/convolution.h"

namespace kiln {

// The layout of the copy of one image and one feature. With a stride, elements with the same
// remainder are contiguous, so that neighbors in the result are neighbors there.
struct Copied {
  const Convolution& c;
  int space;
  int64_t remainders = 1, part = 1, taps = 1, positions, kept = 1;
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
      kept *= c.out_size[d + 2];
    }
  }
  int64_t size() const { return remainders * part; }

  // Whether the positions of a feature are contiguous in the result.
  bool is_dense() const {
    int64_t dense = 1;
    for (int d = space - 1; d >= 0; --d) {
      if (c.out_size[d + 2] != 1 && c.out_step[d + 2] != dense) return false;
      dense *= c.out_size[d + 2];
    }
    return true;
  }

  // The offset in the result of the line of positions that starts at `position`, without its last
  // axis; false if there is no such line.
  bool find_line(int64_t position, int64_t* to) const {
    *to = 0;
    for (int d = 0; d < space - 1; ++d) {
      const int64_t at = position / step[d] % extent[d];
      if (at >= c.out_size[d + 2]) return false;
      *to += at * c.out_step[d + 2];
    }
    return true;
  }

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

// Writes the places of one image and feature.
template <typename T>
void copy_image(const Copied& copied, const T* x, T* to);

}  // namespace kiln
