#include "linear/convolutions/patches.h"

#include <algorithm>
#include <complex>
#include <cstring>

namespace kiln {
namespace {

// A position in a walk, and its coordinates along the axes of the operand.
struct Place {
  int64_t at[kMaxAxes];

  Place(const Walk& walk, int64_t index) {
    for (int i = walk.count - 1; i >= 0; --i) {
      at[i] = index % walk.axes[i].size;
      index /= walk.axes[i].size;
    }
  }
  void add_to(const Walk& walk, int64_t* places) const {
    for (int i = 0; i < walk.count; ++i) places[walk.axes[i].along] += at[i] * walk.axes[i].step;
  }
};

int64_t divided_up(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

// Elements with stride `step`, from a position along one axis of the operand.
template <typename T>
void write_line(const T* x, int64_t size, int64_t memory_step, int64_t place, int64_t step,
                int64_t count, T* to) {
  const int64_t low =
      place >= 0 ? 0 : std::min(count, step == 1 ? -place : divided_up(-place, step));
  const int64_t room = size - place;
  const int64_t high = std::max(low, std::min(count, step == 1 ? room : divided_up(room, step)));
  for (int64_t i = 0; i < low; ++i) to[i] = T(0);
  const int64_t stride = step * memory_step;
  const T* from = x + place * memory_step;
  if (stride == 1) {
    if (high > low) std::memcpy(to + low, from + low, static_cast<size_t>(high - low) * sizeof(T));
  } else {
    for (int64_t i = low; i < high; ++i) to[i] = from[i * stride];
  }
  for (int64_t i = high; i < count; ++i) to[i] = T(0);
}

}  // namespace

void Walk::add(const WalkAxis& axis) { axes[count++] = axis; }

int64_t Walk::size() const {
  int64_t product = 1;
  for (int i = 0; i < count; ++i) product *= axes[i].size;
  return product;
}

void Walk::sort() {
  WalkAxis* end = std::remove_if(axes, axes + count, [](const WalkAxis& a) { return a.size == 1; });
  const WalkAxis first = axes[0];
  count = static_cast<int>(end - axes);
  // Of a few axes: `std::stable_sort` would allocate memory.
  const auto is_before = [](const WalkAxis& a, const WalkAxis& b) { return a.other > b.other; };
  for (int i = 1; i < count; ++i) {
    WalkAxis* const place = std::upper_bound(axes, axes + i, axes[i], is_before);
    std::rotate(place, axes + i, axes + i + 1);
  }
  // There is always an axis to walk along.
  if (count == 0) {
    axes[0] = first;
    axes[0].size = 1;
    axes[0].other = 1;
    count = 1;
  }
}

int64_t Walk::run(int64_t* step) const {
  int i = count - 1;
  *step = axes[i].other;
  int64_t length = axes[i].size;
  for (--i; i >= 0 && axes[i].other == length * *step; --i) length *= axes[i].size;
  return length;
}

int64_t Walk::offset(int64_t index) const {
  int64_t sum = 0;
  for (int i = count - 1; i >= 0; --i) {
    sum += index % axes[i].size * axes[i].other;
    index /= axes[i].size;
  }
  return sum;
}

double line_cost(const Operand& operand, const Walk& walk) {
  const WalkAxis& inner = walk.axes[walk.count - 1];
  const bool is_dense = inner.step * operand.step[inner.along] == 1;
  constexpr double kLine = 24;  // the cost of starting a line, in copied elements
  return (is_dense ? 1 : 4) + kLine / static_cast<double>(inner.size);
}

template <typename T>
void write_patches(const Operand& operand, const T* x, const Walk& rows, int64_t first_row,
                   int64_t last_row, const Walk& columns, int64_t first_column, int64_t last_column,
                   T* to) {
  const WalkAxis& inner = columns.axes[columns.count - 1];
  const int64_t along = inner.along;
  const Place first(columns, first_column);
  for (int64_t row = first_row; row < last_row; ++row) {
    int64_t places[kMaxAxes + 1];
    for (int d = 0; d < operand.axes; ++d) places[d] = -operand.low[d];
    Place(rows, row).add_to(rows, places);
    first.add_to(columns, places);
    Place place = first;
    for (int64_t column = first_column; column < last_column;) {
      const int64_t start = place.at[columns.count - 1];
      const int64_t length = std::min(inner.size - start, last_column - column);
      bool inside = true;
      const T* line = x;
      for (int d = 0; d < operand.axes; ++d) {
        if (d == along) continue;
        inside = inside && places[d] >= 0 && places[d] < operand.size[d];
        line += places[d] * operand.step[d];
      }
      if (inside) {
        write_line(line, operand.size[along], operand.step[along], places[along], inner.step,
                   length, to);
      } else {
        std::fill_n(to, length, T(0));
      }
      to += length;
      column += length;
      places[along] -= start * inner.step;
      place.at[columns.count - 1] = 0;
      for (int i = columns.count - 2; i >= 0; --i) {
        const WalkAxis& axis = columns.axes[i];
        places[axis.along] += axis.step;
        if (++place.at[i] < axis.size) break;
        places[axis.along] -= axis.size * axis.step;
        place.at[i] = 0;
      }
    }
  }
}

#define KILN_INSTANTIATE(T)                                                               \
  template void write_patches<T>(const Operand&, const T*, const Walk&, int64_t, int64_t, \
                                 const Walk&, int64_t, int64_t, T*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)
KILN_INSTANTIATE(std::complex<float>)
KILN_INSTANTIATE(std::complex<double>)
KILN_INSTANTIATE(uint8_t)
KILN_INSTANTIATE(uint16_t)
KILN_INSTANTIATE(uint32_t)
KILN_INSTANTIATE(uint64_t)
KILN_INSTANTIATE(bool)

}  // namespace kiln
