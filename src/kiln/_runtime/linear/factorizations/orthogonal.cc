// Householder reflections and their products. What they mean: `ops/linear/orthogonal.py`.
#include "linear/factorizations/lapack.h"

namespace kiln {
namespace {

// kiln_geqrf_T: R, with the reflection vectors below it, and the scalar factors of the reflections.
//
// Buffers: A and R of m x n, factors of min(m, n). Numbers: batch, m, n.
template <typename T>
int32_t geqrf(Call* call, void* const* buffers, const int64_t* numbers) {
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], m = numbers[1], n = numbers[2], count = std::min(m, n);
  const T* a = static_cast<const T*>(buffers[0]);
  T *out = static_cast<T*>(buffers[1]), *taus = static_cast<T*>(buffers[2]);
  if (count == 0) return 0;
  return over_stack(call, batch, cube(m, n, count), [&](int64_t begin, int64_t end) {
    const int32_t rows = static_cast<int32_t>(m), width = static_cast<int32_t>(n);
    int32_t info = 0, query = -1;
    T size(0);
    fortran(routines<T>().geqrf, &rows, &width, out, &rows, taus, &size, &query, &info);
    const int32_t work_size = reported(size);
    const size_t elements = static_cast<size_t>(m * n), work_elements = work_size;
    Scratch scratch(Scratch::size_of<T>(elements) + Scratch::size_of<T>(work_elements));
    if (!scratch) return kNoMemory;
    T *columns = scratch.take<T>(elements), *work = scratch.take<T>(work_elements);
    for (int64_t i = begin; i < end; ++i) {
      to_columns(a + i * m * n, columns, m, n);
      fortran(routines<T>().geqrf, &rows, &width, columns, &rows, taus + i * count, work,
              &work_size, &info);
      to_rows(columns, out + i * m * n, m, n);
    }
    return 0;
  });
}

template <typename T>
void call_geqp3(const int32_t& rows, const int32_t& width, T* columns, int32_t* order, T* taus,
                T* work, const int32_t& work_size, Real<T>* reals) {
  int32_t info = 0;
  if constexpr (kIsComplex<T>) {
    fortran(routines<T>().geqp3, &rows, &width, columns, &rows, order, taus, work, &work_size,
            reals, &info);
  } else {
    (void)reals;
    fortran(routines<T>().geqp3, &rows, &width, columns, &rows, order, taus, work, &work_size,
            &info);
  }
}

// kiln_geqp3_T: like kiln_geqrf, with the columns permuted so that the diagonal of R decreases.
//
// Buffers: A and R of m x n, the order of the columns (n 32-bit integers), factors of min(m, n).
// Numbers: batch, m, n.
template <typename T>
int32_t geqp3(Call* call, void* const* buffers, const int64_t* numbers) {
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], m = numbers[1], n = numbers[2], count = std::min(m, n);
  const T* a = static_cast<const T*>(buffers[0]);
  T *out = static_cast<T*>(buffers[1]), *taus = static_cast<T*>(buffers[3]);
  int32_t* order = static_cast<int32_t*>(buffers[2]);
  if (count == 0) {
    for (int64_t i = 0; i < batch * n; ++i) order[i] = static_cast<int32_t>(i % n);
    return 0;
  }
  return over_stack(call, batch, cube(m, n, count), [&](int64_t begin, int64_t end) {
    const int32_t rows = static_cast<int32_t>(m), width = static_cast<int32_t>(n);
    const int32_t query = -1;
    T size(0);
    Real<T> unused(0);
    int32_t no_order = 0;
    call_geqp3<T>(rows, width, out, &no_order, taus, &size, query, &unused);
    const int32_t work_size = reported(size);
    const size_t elements = static_cast<size_t>(m * n), work_elements = work_size;
    const size_t reals = static_cast<size_t>(2 * n);
    Scratch scratch(Scratch::size_of<T>(elements) + Scratch::size_of<T>(work_elements) +
                    Scratch::size_of<Real<T>>(reals));
    if (!scratch) return kNoMemory;
    T *columns = scratch.take<T>(elements), *work = scratch.take<T>(work_elements);
    Real<T>* norms = scratch.take<Real<T>>(reals);
    for (int64_t i = begin; i < end; ++i) {
      int32_t* found = order + i * n;
      // Zero: the column may be permuted.
      std::fill_n(found, n, 0);
      to_columns(a + i * m * n, columns, m, n);
      call_geqp3<T>(rows, width, columns, found, taus + i * count, work, work_size, norms);
      to_rows(columns, out + i * m * n, m, n);
      for (int64_t j = 0; j < n; ++j) --found[j];
    }
    return 0;
  });
}

// kiln_householder_product_T: the leading columns of the product of reflections.
//
// Buffers: A of m x n (the vectors below its diagonal), k factors, Q of m x n. Numbers: batch, m,
// n, k.
template <typename T>
int32_t householder_product(Call* call, void* const* buffers, const int64_t* numbers) {
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], m = numbers[1], n = numbers[2], count = numbers[3];
  const T *a = static_cast<const T*>(buffers[0]), *taus = static_cast<const T*>(buffers[1]);
  T* out = static_cast<T*>(buffers[2]);
  if (m * n == 0) return 0;
  if (count == 0) {
    for (int64_t i = 0; i < batch; ++i) set_identity(out + i * m * n, m, n);
    return 0;
  }
  return over_stack(call, batch, cube(m, n, count), [&](int64_t begin, int64_t end) {
    const int32_t rows = static_cast<int32_t>(m), width = static_cast<int32_t>(n);
    const int32_t depth = static_cast<int32_t>(count);
    int32_t info = 0, query = -1;
    T size(0);
    fortran(routines<T>().orgqr, &rows, &width, &depth, out, &rows, taus, &size, &query, &info);
    const int32_t work_size = reported(size);
    const size_t elements = static_cast<size_t>(m * n), work_elements = work_size;
    Scratch scratch(Scratch::size_of<T>(elements) + Scratch::size_of<T>(work_elements));
    if (!scratch) return kNoMemory;
    T *columns = scratch.take<T>(elements), *work = scratch.take<T>(work_elements);
    for (int64_t i = begin; i < end; ++i) {
      to_columns(a + i * m * n, columns, m, n);
      fortran(routines<T>().orgqr, &rows, &width, &depth, columns, &rows, taus + i * count, work,
              &work_size, &info);
      to_rows(columns, out + i * m * n, m, n);
    }
    return 0;
  });
}

}  // namespace

KILN_FOR_TYPES("kiln_geqrf", geqrf)
KILN_FOR_TYPES("kiln_geqp3", geqp3)
KILN_FOR_TYPES("kiln_householder_product", householder_product)
}  // namespace kiln
