#include "linear/convolutions/copied.h"

#include <cstring>

namespace kiln {
namespace {

// Copies of 32 bytes: calls of memcpy for short lines would take longer than the copies.
template <typename T>
void copy_run(const T* from, int64_t count, T* to) {
  constexpr int64_t kStep = 32 / static_cast<int64_t>(sizeof(T));
  if (count < kStep) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + kStep <= count; i += kStep) std::memcpy(to + i, from + i, 32);
  if (count % kStep != 0) std::memcpy(to + count - kStep, from + count - kStep, 32);
}

// Every second element.
template <typename T>
void copy_even(const T* __restrict from, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
}

// How lines along the last axis are copied: the places `low` to `high` are elements of the operand,
// the others padding.
struct Line {
  int64_t low, high, count, first, stride, step;

  Line(const Copied& copied, int64_t begin) : first(begin) {
    const int last = copied.space - 1;
    const Convolution& c = copied.c;
    count = copied.extent[last];
    stride = c.stride[last];
    step = c.lhs_step[last + 2];
    const int64_t room = c.lhs_size[last + 2] - first;
    low = std::clamp<int64_t>(first >= 0 ? 0 : (-first + stride - 1) / stride, 0, count);
    high = std::clamp<int64_t>(room <= 0 ? 0 : (room + stride - 1) / stride, low, count);
  }

  template <typename T>
  void copy(const T* from, T* to) const {
    for (int64_t i = 0; i < low; ++i) to[i] = T(0);
    const int64_t every = stride * step, many = high - low;
    if (many > 0) {
      from += (first + low * stride) * step;
      if (every == 1) {
        copy_run(from, many, to + low);
      } else if (every == 2) {
        copy_even(from, many, to + low);
      } else {
        for (int64_t i = 0; i < many; ++i) to[low + i] = from[i * every];
      }
    }
    for (int64_t i = high; i < count; ++i) to[i] = T(0);
  }
};

}  // namespace

template <typename T>
void copy_image(const Copied& copied, const T* x, T* to) {
  const Convolution& c = copied.c;
  const int last = copied.space - 1;
  const int64_t length = copied.extent[last], lines = copied.part / copied.extent[last];
  for (int64_t remainder = 0; remainder < copied.remainders; ++remainder) {
    int64_t begin[kMaxSpace], at[kMaxSpace] = {}, rest = remainder;
    for (int d = last; d >= 0; --d) {
      const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
      const int64_t count = std::min(c.stride[d], reach + 1);
      begin[d] = rest % count - c.low[d];
      rest /= count;
    }
    const Line line(copied, begin[last]);
    for (int64_t i = 0; i < lines; ++i, to += length) {
      const T* from = x;
      bool inside = true;
      for (int d = 0; d < last; ++d) {
        const int64_t place = begin[d] + at[d] * c.stride[d];
        inside = inside && place >= 0 && place < c.lhs_size[d + 2];
        from += place * c.lhs_step[d + 2];
      }
      if (inside) {
        line.copy(from, to);
      } else {
        std::fill_n(to, length, T(0));
      }
      for (int d = last - 1; d >= 0 && ++at[d] == copied.extent[d]; --d) at[d] = 0;
    }
  }
}

template void copy_image<float>(const Copied&, const float*, float*);
template void copy_image<double>(const Copied&, const double*, double*);

}  // namespace kiln
