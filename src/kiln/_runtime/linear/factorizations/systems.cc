// The innermost loops of linear systems: a few columns of one matrix, or one small matrix per
// vector lane. Compiled once per microarchitecture level, so nothing here may be shared with other
// files.
#include <cstring>
#include <type_traits>

#include "linear/levels.h"
#include "machine/vectors.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

// As wide as the floats.
template <typename T>
using Numbers = Vector<std::conditional_t<sizeof(T) == 8, int64_t, int32_t>>;

template <typename T>
Vector<T> absolute(Vector<T> x) {
  return x < 0 ? -x : x;
}

// The index of the number of largest magnitude, the first if several are equal; nans are ignored.
template <typename T>
int64_t find_largest(const T* x, int64_t count) {
  constexpr int64_t kStep = kLanes<T>;
  T largest = -1;
  int64_t i = 0;
  if (count >= kStep) {
    Vector<T> found = Vector<T>{} - 1;
    for (; i + kStep <= count; i += kStep) {
      const Vector<T> size = absolute<T>(load(x + i));
      found = size > found ? size : found;
    }
    for (int64_t l = 0; l < kStep; ++l) largest = found[l] > largest ? found[l] : largest;
  }
  for (; i < count; ++i) {
    const T size = x[i] < 0 ? -x[i] : x[i];
    if (size > largest) largest = size;
  }
  for (i = 0; i < count; ++i) {
    if (x[i] == largest || -x[i] == largest) return i;
  }
  return 0;
}

template <typename T>
void factor_panel(void* a_, int64_t rows, int64_t columns, int64_t step, int32_t* pivots) {
  T* a = static_cast<T*>(a_);
  const int64_t count = rows < columns ? rows : columns;
  for (int64_t j = 0; j < count; ++j) {
    T* __restrict column = a + j * step;
    const int64_t found = j + find_largest(column + j, rows - j);
    pivots[j] = static_cast<int32_t>(found);
    for (int64_t c = 0; c < columns; ++c) {
      const T kept = a[c * step + j];
      a[c * step + j] = a[c * step + found];
      a[c * step + found] = kept;
    }
    const T pivot = column[j];
    if (pivot == 0) continue;
    for (int64_t i = j + 1; i < rows; ++i) column[i] /= pivot;
    for (int64_t c = j + 1; c < columns; ++c) {
      T* __restrict other = a + c * step;
      const T factor = other[j];
      for (int64_t i = j + 1; i < rows; ++i) other[i] -= factor * column[i];
    }
  }
}

// As many columns as `kVectors` vectors have lanes.
template <typename T, int kVectors>
void solve_strip(const T* lower, const T* scales, int64_t rows, T* b, int64_t b_row) {
  constexpr int64_t kStep = kLanes<T>;
  for (int64_t i = 0; i < rows; ++i) {
    T* row = b + i * b_row;
    Vector<T> x[kVectors];
    for (int v = 0; v < kVectors; ++v) x[v] = load(row + v * kStep);
    for (int64_t k = 0; k < i; ++k) {
      const T factor = lower[i * kPanel + k];
      const T* known = b + k * b_row;
      for (int v = 0; v < kVectors; ++v) x[v] -= factor * load(known + v * kStep);
    }
    for (int v = 0; v < kVectors; ++v) store(row + v * kStep, x[v] * scales[i]);
  }
}

template <typename T>
void solve_panel(const void* lower_, const void* scales_, int64_t rows, void* b_, int64_t b_row,
                 int64_t columns) {
  const T *lower = static_cast<const T*>(lower_), *scales = static_cast<const T*>(scales_);
  T* b = static_cast<T*>(b_);
  constexpr int64_t kStep = kLanes<T>;
  int64_t c = 0;
  for (; c + 4 * kStep <= columns; c += 4 * kStep) {
    solve_strip<T, 4>(lower, scales, rows, b + c, b_row);
  }
  for (; c + kStep <= columns; c += kStep) {
    solve_strip<T, 1>(lower, scales, rows, b + c, b_row);
  }
  if (c == columns) return;
  // The last columns get the same bits as if there were others after them.
  T held[kPanel * kStep] = {};
  const int64_t rest = columns - c;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < rest; ++j) held[i * kStep + j] = b[i * b_row + c + j];
  }
  solve_strip<T, 1>(lower, scales, rows, held, kStep);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < rest; ++j) b[i * b_row + c + j] = held[i * kStep + j];
  }
}

template <typename T>
void factor_lanes(void* a_, int64_t rows, int64_t columns, int32_t* pivots) {
  T* a = static_cast<T*>(a_);
  constexpr int64_t kStep = kLanes<T>;
  using Index = std::decay_t<decltype(Numbers<T>()[0])>;
  const auto at = [&](int64_t i, int64_t j) { return a + (i * columns + j) * kStep; };
  const int64_t count = rows < columns ? rows : columns;
  for (int64_t j = 0; j < count; ++j) {
    Vector<T> largest = absolute<T>(load(at(j, j)));
    Numbers<T> found = Numbers<T>{} + static_cast<Index>(j);
    for (int64_t i = j + 1; i < rows; ++i) {
      const Vector<T> size = absolute<T>(load(at(i, j)));
      const Numbers<T> is_larger = size > largest;
      largest = is_larger ? size : largest;
      found = is_larger ? Numbers<T>{} + static_cast<Index>(i) : found;
    }
    for (int64_t l = 0; l < kStep; ++l) pivots[j * kStep + l] = static_cast<int32_t>(found[l]);
    for (int64_t c = 0; c < columns; ++c) {
      const Vector<T> first = load(at(j, c));
      Vector<T> pivot = first;
      for (int64_t i = j + 1; i < rows; ++i) {
        const Vector<T> x = load(at(i, c));
        const Numbers<T> is_pivot = found == static_cast<Index>(i);
        pivot = is_pivot ? x : pivot;
        store(at(i, c), is_pivot ? first : x);
      }
      store(at(j, c), pivot);
    }
    const Vector<T> pivot = load(at(j, j));
    const Numbers<T> is_zero = pivot == 0;
    for (int64_t i = j + 1; i < rows; ++i) {
      const Vector<T> x = load(at(i, j)), factor = is_zero ? x : x / pivot;
      store(at(i, j), factor);
      for (int64_t c = j + 1; c < columns; ++c) {
        store(at(i, c), load(at(i, c)) - factor * load(at(j, c)));
      }
    }
  }
}

template <typename T>
void solve_lanes(const void* a_, int64_t a_row, int64_t a_column, bool is_unit, void* b_,
                 int64_t b_row, int64_t rows, int64_t columns) {
  const T* a = static_cast<const T*>(a_);
  T* b = static_cast<T*>(b_);
  constexpr int64_t kStep = kLanes<T>;
  for (int64_t i = 0; i < rows; ++i) {
    const Vector<T> diagonal = load(a + i * (a_row + a_column) * kStep);
    for (int64_t c = 0; c < columns; ++c) {
      Vector<T> x = load(b + (i * b_row + c) * kStep);
      for (int64_t k = 0; k < i; ++k) {
        x -= load(a + (i * a_row + k * a_column) * kStep) * load(b + (k * b_row + c) * kStep);
      }
      store(b + (i * b_row + c) * kStep, is_unit ? x : x / diagonal);
    }
  }
}

template <typename T>
constexpr SystemLoops kLoops{kLanes<T>, factor_panel<T>, solve_panel<T>, factor_lanes<T>,
                             solve_lanes<T>};

}  // namespace

namespace KILN_LEVEL {

const SystemLoops systems_of_f32 = kLoops<float>;
const SystemLoops systems_of_f64 = kLoops<double>;

}  // namespace KILN_LEVEL
}  // namespace kiln
