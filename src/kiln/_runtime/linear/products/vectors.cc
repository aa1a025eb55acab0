#include "linear/products/vectors.h"

#include <algorithm>

#include "abi/split.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// The least elements of a matrix per block: about two microseconds.
constexpr int64_t kBlockElements = int64_t{1} << 15;
// Results of a block are a multiple of this: whole cache lines of a row of the matrix, or several
// rows.
constexpr int64_t kCombinedStep = 64, kDottedStep = 16;
// Fewer results than this many steps are not enough for the threads. Runs are, of so many terms.
constexpr int64_t kFewSteps = 8;
constexpr int64_t kCombinedRun = kPackedDepth, kDottedRun = 1 << 12;

// Whether A is a dense vector; whether B is.
bool is_row(const Product& p) { return p.m == 1 && (!p.transpose_a || p.a_row == 1); }
bool is_column(const Product& p) {
  return p.n == 1 && p.c_row == 1 && (p.transpose_b || p.b_row == 1);
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

// y = A x, for a matrix of `length` x `depth`, or the transpose of one whose rows are combined.
struct ByVector {
  int64_t length, depth;
  bool has_column;
  int64_t row;
  bool combines;

  explicit ByVector(const Product& p)
      : length(is_row(p) ? p.n : p.m), depth(p.k), has_column(!is_row(p)) {
    if (is_row(p) && is_column(p)) {
      row = p.k;
      combines = false;
      return;
    }
    row = has_column ? p.a_row : p.b_row;
    combines = has_column ? p.transpose_a : !p.transpose_b;
  }

  int64_t run() const { return combines ? kCombinedRun : kDottedRun; }
  int64_t step() const { return combines ? kCombinedStep : kDottedStep; }

  // Some of the results, of some of the terms.
  template <typename T>
  void compute(const T* matrix, const T* x, int64_t begin, int64_t end, int64_t first, int64_t last,
               bool add, T* y) const {
    if constexpr (kIsComplex<T>) {
      const T* part = combines ? matrix + first * row + begin : matrix + begin * row + first;
      const int64_t terms = last - first, results = end - begin;
      times_vector(combines, combines ? terms : results, combines ? results : terms, part, row,
                   x + first, add, y);
      return;
    } else {
      const VectorLoops& code = vector_loops<T>();
      if (combines) {
        code.combine(x + first, matrix + first * row + begin, row, last - first, end - begin, add,
                     y);
        return;
      }
      for (int64_t from = first; from < last; from += kDottedRun) {
        code.dot(x + from, matrix + begin * row + from, row, end - begin,
                 std::min(kDottedRun, last - from), add || from > first, y);
      }
    }
  }
};

// Few results of many terms: each run of terms has its sums, which are added in order.
template <typename T>
int32_t multiply_in_runs(Call* call, const ByVector& by, const T* matrix, const T* x, bool add,
                         T* y) {
  const int64_t run = by.run(), runs = (by.depth + run - 1) / run;
  const Scratch scratch(static_cast<size_t>(runs * by.length) * sizeof(T));
  if (!scratch) return kNoMemory;
  T* const sums = reinterpret_cast<T*>(scratch.bytes());
  const int64_t grain = std::max<int64_t>(1, kBlockElements / (run * by.length));
  const int32_t status = over_blocks(call, runs, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      by.compute(matrix, x, 0, by.length, i * run, std::min(by.depth, (i + 1) * run), false,
                 sums + i * by.length);
    }
    return 0;
  });
  for (int64_t i = 0; i < runs; ++i) {
    const T* of = sums + i * by.length;
    for (int64_t j = 0; j < by.length; ++j) y[j] = add || i > 0 ? y[j] + of[j] : of[j];
  }
  return status;
}

}  // namespace

template <typename T>
bool is_by_vector(const Product& p) {
  return p.k > 0 && (is_row(p) || is_column(p)) &&
         (!kIsComplex<T> || (has_routines && fits_library(p)));
}

template <typename T>
int32_t multiply_by_vector(Call* call, const Product& p, const T* a, const T* b, T* c) {
  const ByVector by(p);
  const T *matrix = by.has_column ? a : b, *x = by.has_column ? b : a;
  const int64_t matrix_step = by.has_column ? p.a_step : p.b_step;
  const int64_t x_step = by.has_column ? p.b_step : p.a_step;
  if constexpr (!kIsComplex<T>) {
    const bool has_runs = by.depth >= 2 * by.run() && by.length * by.depth >= 2 * kBlockElements;
    if (p.batch == 1 && has_runs && by.length < kFewSteps * by.step() && threads_of(call) > 1) {
      return multiply_in_runs(call, by, matrix, x, p.accumulate, c);
    }
  }
  const Blocks blocks =
      Blocks::of(by.length, std::max<int64_t>(1, kBlockElements / by.depth), by.step());
  // Adjacent blocks are read as one; the library's bits would depend on how many.
  const auto until = [&](int64_t block, int64_t last) {
    return kIsComplex<T> ? block + 1 : std::min(last, blocks.count);
  };
  const int64_t count = p.batch * blocks.count, least = kBlockElements / (blocks.size * by.depth);
  const int64_t grain = std::max<int64_t>({1, least, count / (2 * threads_of(call))});
  return over_blocks(call, count, grain, [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t item = first / blocks.count, before = item * blocks.count;
      const int64_t end = until(first - before, last - before);
      const int64_t begin = blocks.begin(first - before);
      by.compute(matrix + item * matrix_step, x + item * x_step, begin, blocks.end(end - 1), 0,
                 by.depth, p.accumulate, c + item * p.c_step + begin);
      first = before + end;
    }
    return 0;
  });
}

#define KILN_INSTANTIATE(T)                      \
  template bool is_by_vector<T>(const Product&); \
  template int32_t multiply_by_vector<T>(Call*, const Product&, const T*, const T*, T*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)
KILN_INSTANTIATE(Complex64)
KILN_INSTANTIATE(Complex128)

}  // namespace kiln
