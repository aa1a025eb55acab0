#include "linear/products/gemm.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/blas.h"
#include "linear/products/blocked.h"
#include "linear/vectors.h"

namespace kiln {
namespace {

template <typename T>
constexpr bool kInLibrary = std::is_floating_point_v<T> || kIsComplex<T>;

// Below this size of each side, the library's call overhead equals the product.
constexpr int64_t kSmall = 16;
// Products with less work than this (multiplications) run on one thread, as one block. The library
// uses other algorithms for smaller products, whose bits may differ; blocks must not be that small.
constexpr int64_t kBlockWork = int64_t{1} << 23;
// Blocks of rows start at multiples of this. The library then computes an element with the same
// bits regardless of the number of blocks per call; that is not true of columns.
constexpr int64_t kBlockStep = 48;
// Products with fewer rows than this, and more columns than rows, are split by columns.
constexpr int64_t kFewRows = 192;
// With this many rows a product takes far longer than packing the other matrix.
constexpr int64_t kManyRows = 1024;
// Blocks of a matrix-vector product have at least this many elements of the matrix.
constexpr int64_t kVectorBlock = int64_t{1} << 17;

SmallProduct with_strides(const Product& p) {
  return {p.m,
          p.n,
          p.k,
          p.transpose_a ? 1 : p.a_row,
          p.transpose_a ? p.a_row : 1,
          p.transpose_b ? 1 : p.b_row,
          p.transpose_b ? p.b_row : 1,
          p.c_row,
          p.accumulate};
}

template <typename T>
bool is_small(const Product& p) {
  if (p.m > kSmall || p.n > kSmall || p.k > 2 * kSmall) return false;
  if constexpr (std::is_floating_point_v<T>) {
    // Tiles are faster, except where the rows of C are one vector.
    const size_t row = static_cast<size_t>(p.n) * sizeof(T);
    return !fits_blocks<T>(p) || row == 16 || row == 32 || row == 64;
  }
  return true;
}

bool fits_library(const Product& p) {
  return std::max({p.m, p.n, p.k, p.a_row, p.b_row, p.c_row}) <= INT_MAX;
}

// y = op(A) x, or y += op(A) x, for a row-major `rows` x `columns` matrix.
template <typename T>
void times_vector(bool transpose, int64_t rows, int64_t columns, const T* a, int64_t a_row,
                  const T* x, bool accumulate, T* y) {
  // The library sees the transpose.
  const int32_t m = static_cast<int32_t>(columns), n = static_cast<int32_t>(rows);
  const int32_t step = static_cast<int32_t>(a_row), one = 1;
  const T alpha(1), beta(accumulate ? 1 : 0);
  fortran(routines<T>().gemv, transpose ? "N" : "T", &m, &n, &alpha, a, &step, x, &one, &beta, y,
          &one, size_t{1});
}

template <typename T>
void by_library(const Product& p, const T* a, const T* b, T* c) {
  const T alpha(1), beta(p.accumulate ? 1 : 0);
  const int32_t m = static_cast<int32_t>(p.m), n = static_cast<int32_t>(p.n);
  const int32_t k = static_cast<int32_t>(p.k), a_row = static_cast<int32_t>(p.a_row);
  const int32_t b_row = static_cast<int32_t>(p.b_row), c_row = static_cast<int32_t>(p.c_row);
  fortran(routines<T>().gemm, p.transpose_b ? "T" : "N", p.transpose_a ? "T" : "N", &n, &m, &k,
          &alpha, b, &b_row, a, &a_row, &beta, c, &c_row, size_t{1}, size_t{1});
}

// One product of the batch.
template <typename T>
void multiply_one(const Product& p, const T* a, const T* b, T* c) {
  if (p.k == 0) {
    for (int64_t i = 0; !p.accumulate && i < p.m; ++i) std::fill_n(c + i * p.c_row, p.n, T(0));
    return;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (!is_small<T>(p) && fits_blocks<T>(p) && multiply_in_blocks(nullptr, p, a, b, c) == 0)
      return;
  }
  if constexpr (kInLibrary<T>) {
    if (has_routines && !p.in_order && !is_small<T>(p) && fits_library(p)) {
      by_library(p, a, b, c);
      return;
    }
  }
  product_loops<kElementOf<T>>().product(with_strides(p), a, b, c);
}

// Rows of C that are in blocks, or columns.
template <typename T>
void multiply_part(const Product& p, bool by_rows, int64_t begin, int64_t end, const T* a,
                   const T* b, T* c) {
  Product part = p;
  if (by_rows) {
    part.m = end - begin;
    multiply_one(part, a + begin * (p.transpose_a ? 1 : p.a_row), b, c + begin * p.c_row);
  } else {
    part.n = end - begin;
    multiply_one(part, a, b + begin * (p.transpose_b ? p.b_row : 1), c + begin);
  }
}

// Without the library's routines, products with a vector that are sums over rows of a matrix.
template <typename T>
bool is_vector(const Product& p) {
  const bool column = p.n == 1 && p.c_row == 1 && (p.transpose_b || p.b_row == 1);
  const bool row = p.m == 1 && (!p.transpose_a || p.a_row == 1);
  if (p.k <= 0) return false;
  if (has_routines) return (column || row) && fits_library(p);
  return std::is_floating_point_v<T> && ((column && !p.transpose_a) || (row && p.transpose_b));
}

template <typename T>
void times_rows(int64_t rows, int64_t columns, const T* a, int64_t a_row, const T* x,
                bool accumulate, T* y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!has_routines) return dot_loop<T>()(a, a_row, rows, x, columns, accumulate, y);
  }
  times_vector(false, rows, columns, a, a_row, x, accumulate, y);
}

// A matrix-vector product: the result is computed in blocks.
template <typename T>
int32_t multiply_vector(Call* call, const Product& p, const T* a, const T* b, T* c) {
  const bool column = p.n == 1 && p.c_row == 1 && (p.transpose_b || p.b_row == 1);
  // Whether sums are over the columns of the matrix.
  const bool is_across = column ? p.transpose_a : !p.transpose_b;
  const int64_t length = column ? p.m : p.n, row = column ? p.a_row : p.b_row;
  const Blocks blocks = Blocks::of(length, std::max<int64_t>(1, kVectorBlock / p.k), 64);
  return over_blocks(call, p.batch * blocks.count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t item = i / blocks.count, begin = blocks.begin(i % blocks.count);
      const int64_t size = blocks.end(i % blocks.count) - begin;
      const T *left = a + item * p.a_step, *right = b + item * p.b_step;
      T* out = c + item * p.c_step + begin;
      if (is_across) {
        times_vector(true, p.k, size, (column ? left : right) + begin, row, column ? right : left,
                     p.accumulate, out);
      } else {
        times_rows(size, p.k, (column ? left : right) + begin * row, row, column ? right : left,
                   p.accumulate, out);
      }
    }
    return 0;
  });
}

// The transpose of a product whose result is a column: a row. Not inlined: libraries are small.
[[gnu::noinline]] Product as_row(const Product& p) {
  Product row = p;
  row.m = 1, row.n = p.m;
  row.transpose_a = false, row.a_row = p.k, row.a_step = p.b_step;
  row.transpose_b = !p.transpose_a, row.b_row = p.a_row, row.b_step = p.a_step;
  row.c_row = p.m;
  return row;
}

}  // namespace

Product folded(Product p) {
  const bool dense = p.a_step == p.m * p.a_row && p.c_step == p.m * p.c_row;
  if (p.batch > 1 && p.b_step == 0 && dense && !p.transpose_a) {
    p.m *= p.batch;
    p.batch = 1;
  }
  return p;
}

Product Product::of(const int64_t* numbers) {
  Product p;
  p.batch = numbers[0];
  p.m = numbers[1], p.n = numbers[2], p.k = numbers[3];
  p.transpose_a = numbers[4] != 0, p.transpose_b = numbers[5] != 0;
  p.a_step = numbers[6], p.b_step = numbers[7], p.c_step = numbers[8];
  p.accumulate = (numbers[9] & 1) != 0;
  p.in_order = (numbers[9] & 2) != 0, p.packed_b = (numbers[9] & 4) != 0;
  p.is_repeated = (numbers[9] & 8) != 0;
  p.a_row = std::max<int64_t>(1, p.transpose_a ? p.m : p.k);
  p.b_row = std::max<int64_t>(1, p.transpose_b ? p.k : p.n);
  p.c_row = std::max<int64_t>(1, p.n);
  return p;
}

namespace {

// Rows of C in blocks, by the loops for small products.
template <typename T>
int32_t multiply_by_loops(Call* call, const Product& p, const T* a, const T* b, T* c) {
  const int64_t row_work = p.n * std::max<int64_t>(1, p.k);
  const Blocks rows = Blocks::of(p.m, std::max<int64_t>(1, kBlockWork / 16 / row_work), 8);
  return over_blocks(call, p.batch * rows.count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t item = i / rows.count, block = i % rows.count;
      multiply_part(p, true, rows.begin(block), rows.end(block), a + item * p.a_step,
                    b + item * p.b_step, c + item * p.c_step);
    }
    return 0;
  });
}

}  // namespace

template <typename T>
int32_t multiply(Call* call, const Product& given, const T* a, const T* b, T* c) {
  Product p = folded(given);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return 0;
  if constexpr (std::is_floating_point_v<T>) {
    if (p.packed_b && p.k > 0) return multiply_in_blocks(call, p, a, b, c);
  }
  if (p.in_order) {
    if constexpr (std::is_floating_point_v<T>) {
      if (p.k > 0) return multiply_in_blocks(call, p, a, b, c);
    }
    return multiply_by_loops(call, p, a, b, c);
  }
  if constexpr (std::is_floating_point_v<T>) {
    // Without the library's routines a column is the row of the transpose, if its sums are over
    // columns of the matrix.
    if (!has_routines && p.n == 1 && p.transpose_a && p.c_row == 1 &&
        (p.transpose_b || p.b_row == 1)) {
      p = as_row(p);
      std::swap(a, b);
    }
  }
  const bool small = is_small<T>(p);
  if (!small && is_vector<T>(p)) return multiply_vector(call, p, a, b, c);
  if constexpr (std::is_floating_point_v<T>) {
    // Without the library's routines a row is a block, too.
    const bool is_row = p.m == 1 && !p.transpose_b && p.k > 0;
    const bool fits = fits_blocks<T>(p) || (is_row && !has_routines);
    if (!small && fits) return multiply_in_blocks(call, p, a, b, c);
  }
  const int64_t work = p.m * p.n * std::max<int64_t>(1, p.k);
  if (work < 2 * kBlockWork) {
    const Blocks items = Blocks::of(p.batch, std::max<int64_t>(1, kBlockWork / 8 / work), 1);
    return over_blocks(call, items.count, [&](int64_t first, int64_t last) {
      for (int64_t i = items.begin(first); i < items.end(last - 1); ++i) {
        multiply_one(p, a + i * p.a_step, b + i * p.b_step, c + i * p.c_step);
      }
      return 0;
    });
  }
  const bool by_rows = p.m >= p.n || p.m >= kFewRows;
  const int64_t length = by_rows ? p.m : p.n;
  const Blocks blocks =
      Blocks::of(length, kBlockWork / std::max<int64_t>(1, work / length), kBlockStep);
  // Consecutive blocks of rows are one product: the library packs the other matrix in each call. So
  // each thread takes few ranges of blocks.
  const int64_t threads = threads_in_use(), count = p.batch * blocks.count;
  const int64_t ranges = p.batch * p.m >= threads * kManyRows ? 2 * threads : threads;
  const int64_t grain = by_rows ? (count + ranges - 1) / ranges : 1;
  return over_blocks(call, count, grain, [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t item = first / blocks.count, block = first % blocks.count;
      const int64_t until =
          by_rows ? std::min(last - item * blocks.count, blocks.count) : block + 1;
      multiply_part(p, by_rows, blocks.begin(block), blocks.end(until - 1), a + item * p.a_step,
                    b + item * p.b_step, c + item * p.c_step);
      first = item * blocks.count + until;
    }
    return 0;
  });
}

template <typename T>
void multiply_here(const Product& p, const T* a, const T* b, T* c) {
  for (int64_t i = 0; i < p.batch; ++i) {
    multiply_one(p, a + i * p.a_step, b + i * p.b_step, c + i * p.c_step);
  }
}

namespace {

// kiln_gemm_T: C = op(A) op(B), or C += op(A) op(B), for a batch of matrices.
//
// Buffers: A of m x k (k x m if trans_a), B of k x n (n x k if trans_b), C of m x n.
// Numbers: batch, m, n, k, trans_a, trans_b, the batch strides of A, B and C in elements (0: one
// matrix for all), 1 to accumulate plus 2 for an order that depends on k alone plus 4 if B is what
// `kiln_gemm_pack_T` wrote.
template <typename T>
int32_t gemm(Call* call, void* const* buffers, const int64_t* numbers) {
  return multiply(call, Product::of(numbers), static_cast<const T*>(buffers[0]),
                  static_cast<const T*>(buffers[1]), static_cast<T*>(buffers[2]));
}

// kiln_gemm_pack_T: op(B) as products read it, in panels; n is rounded up to 32 columns, which suits
// every microarchitecture level.
//
// Buffers: B of k x n (n x k if trans_b), the panels.
// Numbers: n, k, trans_b.
template <typename T>
int32_t gemm_pack(Call* call, void* const* buffers, const int64_t* numbers) {
  Product p{};
  p.n = numbers[0], p.k = numbers[1], p.transpose_b = numbers[2] != 0;
  p.b_row = p.transpose_b ? p.k : p.n;
  return pack_matrix(call, p, static_cast<const T*>(buffers[0]), static_cast<T*>(buffers[1]));
}

// kiln_gemm_strip_T: C = op(A) op(B), or C += op(A) op(B), for matrices that are parts of larger
// ones.
//
// Buffers: A, B, C once more if it is accumulated, C.
// Numbers: m, n, k, trans_a, trans_b, the row strides of A, B and C in elements, 1 to accumulate.
template <typename T>
int32_t gemm_strip(Call* call, void* const* buffers, const int64_t* numbers) {
  Product p{};
  p.batch = 1;
  p.m = numbers[0], p.n = numbers[1], p.k = numbers[2];
  p.transpose_a = numbers[3] != 0, p.transpose_b = numbers[4] != 0;
  p.a_row = numbers[5], p.b_row = numbers[6], p.c_row = numbers[7];
  p.accumulate = numbers[8] != 0;
  p.in_order = true;  // bits must not depend on whether the library is loaded
  return multiply(call, p, static_cast<const T*>(buffers[0]), static_cast<const T*>(buffers[1]),
                  static_cast<T*>(buffers[p.accumulate ? 3 : 2]));
}

// The same for integers, which wrap around, and for truth values, whose sum is `or`.
template <typename T>
int32_t gemm_by_loops(Call* call, void* const* buffers, const int64_t* numbers) {
  const Product p = Product::of(numbers);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return 0;
  return multiply_by_loops(call, p, static_cast<const T*>(buffers[0]),
                           static_cast<const T*>(buffers[1]), static_cast<T*>(buffers[2]));
}

}  // namespace

KILN_KERNEL_SYMBOL("kiln_gemm_f32", gemm<float>)
KILN_KERNEL_SYMBOL("kiln_gemm_f64", gemm<double>)
KILN_KERNEL_SYMBOL("kiln_gemm_c64", gemm<Complex64>)
KILN_KERNEL_SYMBOL("kiln_gemm_pack_f32", gemm_pack<float>)
KILN_KERNEL_SYMBOL("kiln_gemm_pack_f64", gemm_pack<double>)
KILN_KERNEL_SYMBOL("kiln_gemm_strip_f32", gemm_strip<float>)
KILN_KERNEL_SYMBOL("kiln_gemm_strip_f64", gemm_strip<double>)
KILN_KERNEL_SYMBOL("kiln_gemm_c128", gemm<Complex128>)
KILN_KERNEL_SYMBOL("kiln_gemm_i16", gemm_by_loops<uint16_t>)
KILN_KERNEL_SYMBOL("kiln_gemm_i32", gemm_by_loops<uint32_t>)
KILN_KERNEL_SYMBOL("kiln_gemm_i64", gemm_by_loops<uint64_t>)
KILN_KERNEL_SYMBOL("kiln_gemm_u16", gemm_by_loops<uint16_t>)
KILN_KERNEL_SYMBOL("kiln_gemm_u32", gemm_by_loops<uint32_t>)
KILN_KERNEL_SYMBOL("kiln_gemm_u64", gemm_by_loops<uint64_t>)
KILN_KERNEL_SYMBOL("kiln_gemm_bool", gemm_by_loops<bool>)

#define KILN_INSTANTIATE(T) \
  template int32_t multiply<T>(Call*, const Product&, const T*, const T*, T*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)
KILN_INSTANTIATE(Complex64)
KILN_INSTANTIATE(Complex128)
#define KILN_INSTANTIATE_HERE(T) \
  template void multiply_here<T>(const Product&, const T*, const T*, T*);
KILN_INSTANTIATE_HERE(float)
KILN_INSTANTIATE_HERE(double)
KILN_INSTANTIATE_HERE(Complex64)
KILN_INSTANTIATE_HERE(Complex128)
KILN_INSTANTIATE_HERE(uint8_t)
KILN_INSTANTIATE_HERE(uint16_t)
KILN_INSTANTIATE_HERE(uint32_t)
KILN_INSTANTIATE_HERE(uint64_t)
KILN_INSTANTIATE_HERE(bool)

}  // namespace kiln
