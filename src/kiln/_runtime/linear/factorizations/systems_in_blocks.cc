#include <algorithm>

#include "abi/split.h"
#include "linear/factorizations/systems.h"
#include "linear/products/gemm.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// Right-hand sides per task, if there are enough of them.
constexpr int64_t kSides = 64;
constexpr int64_t kLeastWork = int64_t{1} << 21;

template <typename T>
const SystemLoops& loops() {
  return system_loops<T>();
}

template <typename T>
constexpr int kLog = sizeof(T) == 4 ? 2 : 3;

int64_t first_part(int64_t size) { return (size / 2 + kPanel - 1) / kPanel * kPanel; }

// C -= A B, for A as a part of a triangle.
template <typename T>
int32_t subtract_product(Call* call, int64_t m, int64_t n, int64_t k, const T* a, int64_t row,
                         int64_t column, const T* b, int64_t b_row, T* c, int64_t c_row,
                         bool in_order) {
  if (m == 0 || n == 0 || k == 0) return 0;
  const Scratch scratch(static_cast<size_t>(k * n) * sizeof(T));
  if (!scratch) return 1;
  T* negative = reinterpret_cast<T*>(scratch.bytes());
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) negative[i * n + j] = -b[i * b_row + j];
  }
  Product p{};
  p.batch = 1, p.m = m, p.n = n, p.k = k;
  p.transpose_a = column != 1;
  p.a_row = column == 1 ? row : column;
  p.b_row = n;
  p.c_row = c_row;
  p.accumulate = true;
  p.in_order = in_order;
  return multiply(call, p, a, negative, c);
}

template <typename T>
void solve_panel(const Triangle<T>& t, T* b, int64_t b_row, int64_t columns) {
  T lower[kPanel * kPanel], scales[kPanel];
  // Read from the last row backwards, an upper triangle is a lower one.
  const int64_t end = t.size - 1;
  for (int64_t i = 0; i < t.size; ++i) {
    const int64_t from = t.is_upper ? end - i : i;
    for (int64_t k = 0; k < i; ++k) {
      lower[i * kPanel + k] = t.a[from * t.row + (t.is_upper ? end - k : k) * t.column];
    }
    scales[i] = t.is_unit ? T(1) : T(1) / t.a[from * (t.row + t.column)];
  }
  loops<T>().solve_panel(lower, scales, t.size, t.is_upper ? b + end * b_row : b,
                         t.is_upper ? -b_row : b_row, columns);
}

template <typename T>
int32_t solve(Call* call, const Triangle<T>& t, T* b, int64_t b_row, int64_t columns) {
  if (t.size <= kPanel) {
    solve_panel(t, b, b_row, columns);
    return 0;
  }
  const int64_t half = first_part(t.size);
  Triangle<T> above = t, below = t;
  above.size = half;
  below.size = t.size - half;
  below.a += half * (t.row + t.column);
  T* low = b + half * b_row;
  if (!t.is_upper) {
    int32_t status = solve(call, above, b, b_row, columns);
    if (status == 0) {
      status = subtract_product(call, below.size, columns, half, t.a + half * t.row, t.row,
                                t.column, b, b_row, low, b_row, t.in_order);
    }
    return status != 0 ? status : solve(call, below, low, b_row, columns);
  }
  int32_t status = solve(call, below, low, b_row, columns);
  if (status == 0) {
    status = subtract_product(call, half, columns, below.size, t.a + half * t.column, t.row,
                              t.column, low, b_row, b, b_row, t.in_order);
  }
  return status != 0 ? status : solve(call, above, b, b_row, columns);
}

// A few columns from `begin` on: they are copied, because their row stride may collide in few cache
// sets, and because vectors run along a column.
template <typename T>
int32_t factor_panel(T* a, int64_t rows, int64_t width, int64_t begin, int64_t columns,
                     int32_t* pivots) {
  const int64_t height = rows - begin;
  const Scratch scratch(static_cast<size_t>(height * columns) * sizeof(T));
  if (!scratch) return 1;
  T *held = reinterpret_cast<T*>(scratch.bytes()), *corner = a + begin * (width + 1);
  const TransposeLoop transpose = transpose_loop<kLog<T>>();
  transpose(corner, held, height, columns, width, height);
  loops<T>().factor_panel(held, height, columns, height, pivots);
  transpose(held, corner, columns, height, height, width);
  for (int64_t j = 0; j < columns; ++j) {
    pivots[j] += static_cast<int32_t>(begin);
    if (pivots[j] == begin + j) continue;
    T *first = a + (begin + j) * width, *second = a + pivots[j] * width;
    std::swap_ranges(first, first + begin, second);
    std::swap_ranges(first + begin + columns, first + width, second + begin + columns);
  }
  return 0;
}

// Columns from `begin` on of a dense matrix; those before are done.
template <typename T>
int32_t factor(Call* call, T* a, int64_t rows, int64_t width, int64_t begin, int64_t columns,
               int32_t* pivots) {
  T* corner = a + begin * (width + 1);
  if (columns <= kPanel) {
    return factor_panel(a, rows, width, begin, columns, pivots + begin);
  }
  const int64_t half = first_part(columns), rest = columns - half;
  int32_t status = factor(call, a, rows, width, begin, half, pivots);
  if (status != 0) return status;
  status = solve_triangle<T>(call, {corner, half, width, 1, false, true, false}, corner + half,
                             width, rest);
  if (status != 0) return status;
  status =
      subtract_product(call, rows - begin - half, rest, half, corner + half * width, width,
                       int64_t{1}, corner + half, width, corner + half * (width + 1), width, false);
  return status != 0 ? status : factor(call, a, rows, width, begin + half, rest, pivots);
}

// Interleaves the elements of several matrices as vectors, and back. Lanes without a matrix are
// zero.
template <typename T>
void to_lanes(const T* from, int64_t count, int64_t size, T* to) {
  const int64_t lanes = loops<T>().lanes;
  if (count < lanes) std::fill_n(to, size * lanes, T(0));
  transpose_loop<kLog<T>>()(from, to, count, size, size, lanes);
}
template <typename T>
void from_lanes(const T* from, int64_t count, int64_t size, T* to) {
  transpose_loop<kLog<T>>()(from, to, size, count, loops<T>().lanes, size);
}

}  // namespace

template <typename T>
int32_t solve_triangle(Call* call, const Triangle<T>& t, T* b, int64_t b_row, int64_t columns) {
  if (columns < 2 * kSides || t.size * t.size * columns < kLeastWork) {
    return solve(call, t, b, b_row, columns);
  }
  const Blocks blocks = Blocks::of(columns, kSides, kSides);
  return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
    const int64_t begin = blocks.begin(first);
    return solve<T>(nullptr, t, b + begin, b_row, blocks.end(last - 1) - begin);
  });
}

template <typename T>
int32_t factor_matrix(Call* call, T* a, int64_t rows, int64_t columns, int32_t* pivots) {
  const int64_t count = std::min(rows, columns);
  const int32_t status = factor(call, a, rows, columns, int64_t{0}, count, pivots);
  if (status != 0 || columns == count) return status;
  return solve_triangle<T>(call, {a, count, columns, 1, false, true, false}, a + count, columns,
                           columns - count);
}

template <typename T>
int32_t factor_stack(const T* a, T* out, int64_t batch, int64_t rows, int64_t columns,
                     int32_t* pivots) {
  const int64_t lanes = loops<T>().lanes, size = rows * columns, count = std::min(rows, columns);
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(size * lanes)) +
                  Scratch::size_of<int32_t>(static_cast<size_t>(count * lanes)));
  if (!scratch) return 1;
  T* held = scratch.take<T>(static_cast<size_t>(size * lanes));
  int32_t* found = scratch.take<int32_t>(static_cast<size_t>(count * lanes));
  for (int64_t i = 0; i < batch; i += lanes) {
    const int64_t here = std::min(lanes, batch - i);
    to_lanes(a + i * size, here, size, held);
    loops<T>().factor_lanes(held, rows, columns, found);
    from_lanes(held, here, size, out + i * size);
    for (int64_t l = 0; l < here; ++l) {
      for (int64_t j = 0; j < count; ++j) pivots[(i + l) * count + j] = found[j * lanes + l];
    }
  }
  return 0;
}

template <typename T>
int32_t solve_stack(const Triangle<T>& first, int64_t batch, const T* b, T* out, int64_t columns) {
  const int64_t lanes = loops<T>().lanes, n = first.size, size = n * n, sides = n * columns;
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(size * lanes)) +
                  Scratch::size_of<T>(static_cast<size_t>(sides * lanes)));
  if (!scratch) return 1;
  T* matrices = scratch.take<T>(static_cast<size_t>(size * lanes));
  T* held = scratch.take<T>(static_cast<size_t>(sides * lanes));
  const int64_t sign = first.is_upper ? -1 : 1;
  const T* a = matrices + (first.is_upper ? (size - 1) * lanes : 0);
  T* x = held + (first.is_upper ? (n - 1) * columns * lanes : 0);
  for (int64_t i = 0; i < batch; i += lanes) {
    const int64_t here = std::min(lanes, batch - i);
    to_lanes(first.a + i * size, here, size, matrices);
    to_lanes(b + i * sides, here, sides, held);
    loops<T>().solve_lanes(a, sign * first.row, sign * first.column, first.is_unit, x,
                           sign * columns, n, columns);
    from_lanes(held, here, sides, out + i * sides);
  }
  return 0;
}

#define KILN_INSTANTIATE(T)                                                            \
  template int32_t solve_triangle<T>(Call*, const Triangle<T>&, T*, int64_t, int64_t); \
  template int32_t factor_matrix<T>(Call*, T*, int64_t, int64_t, int32_t*);            \
  template int32_t factor_stack<T>(const T*, T*, int64_t, int64_t, int64_t, int32_t*); \
  template int32_t solve_stack<T>(const Triangle<T>&, int64_t, const T*, T*, int64_t);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
