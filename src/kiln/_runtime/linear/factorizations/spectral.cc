// Eigenvalues and singular values, with their vectors. What they mean: `ops/linear/spectral.py`.
#include "linear/factorizations/lapack.h"

namespace kiln {
namespace {

template <typename T>
int32_t call_eigh(const char* triangle, const int32_t& n, T* columns, Real<T>* values, T* work,
                  const int32_t& work_size, Real<T>* reals, const int32_t& real_size,
                  int32_t* integers, const int32_t& integer_size) {
  int32_t info = 0;
  if constexpr (kIsComplex<T>) {
    fortran(routines<T>().syevd, "V", triangle, &n, columns, &n, values, work, &work_size, reals,
            &real_size, integers, &integer_size, &info, size_t{1}, size_t{1});
  } else {
    (void)reals, (void)real_size;
    fortran(routines<T>().syevd, "V", triangle, &n, columns, &n, values, work, &work_size, integers,
            &integer_size, &info, size_t{1}, size_t{1});
  }
  return info;
}

// kiln_eigh_T: eigenvectors, as columns, and ascending eigenvalues of Hermitian matrices.
//
// Buffers: A and vectors of n x n, values of n (real). Numbers: batch, n, lower (which triangle of
// A is read).
template <typename T>
int32_t eigh(Call* call, void* const* buffers, const int64_t* numbers) {
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], n = numbers[1];
  const char* triangle = numbers[2] != 0 ? "L" : "U";
  const T* a = static_cast<const T*>(buffers[0]);
  T* vectors = static_cast<T*>(buffers[1]);
  Real<T>* values = static_cast<Real<T>*>(buffers[2]);
  if (n == 0) return 0;
  return over_stack(call, batch, 9 * cube(n, n, n), [&](int64_t begin, int64_t end) {
    const int32_t order = static_cast<int32_t>(n), query = -1;
    T size(0);
    Real<T> real_size(0);
    int32_t integers = 0;
    call_eigh<T>(triangle, order, vectors, values, &size, query, &real_size, query, &integers,
                 query);
    const int32_t sizes[] = {reported(size), reported(real_size), std::max(1, integers)};
    const size_t elements = static_cast<size_t>(n * n);
    Scratch scratch(Scratch::size_of<T>(elements) + Scratch::size_of<T>(sizes[0]) +
                    Scratch::size_of<Real<T>>(sizes[1]) + Scratch::size_of<int32_t>(sizes[2]));
    if (!scratch) return kNoMemory;
    T *columns = scratch.take<T>(elements), *work = scratch.take<T>(sizes[0]);
    Real<T>* reals = scratch.take<Real<T>>(sizes[1]);
    int32_t* places = scratch.take<int32_t>(sizes[2]);
    for (int64_t i = begin; i < end; ++i) {
      to_columns(a + i * n * n, columns, n, n);
      const int32_t info = call_eigh<T>(triangle, order, columns, values + i * n, work, sizes[0],
                                        reals, sizes[1], places, sizes[2]);
      if (info == 0) {
        to_rows(columns, vectors + i * n * n, n, n);
      } else {
        std::fill_n(vectors + i * n * n, n * n, not_a_number<T>());
        std::fill_n(values + i * n, n, not_a_number<Real<T>>());
      }
    }
    return 0;
  });
}

// How a call of kiln_svd computes, and in which memory.
template <typename T>
struct Svd {
  bool by_qr;
  const char* job;  // which vectors: all, as many as there are values, or none
  int32_t m, n, left, right;
  T *a, *u, *vt, *work;
  Real<T>*values, *reals;
  int32_t *integers, work_size;

  int32_t run() {
    int32_t info = 0;
    const int32_t u_step = std::max(1, m), vt_step = std::max(1, right);
    const Routines& all = routines<T>();
    if constexpr (kIsComplex<T>) {
      if (by_qr) {
        fortran(all.gesvd, job, job, &m, &n, a, &m, values, u, &u_step, vt, &vt_step, work,
                &work_size, reals, &info, size_t{1}, size_t{1});
      } else {
        fortran(all.gesdd, job, &m, &n, a, &m, values, u, &u_step, vt, &vt_step, work, &work_size,
                reals, integers, &info, size_t{1});
      }
    } else {
      if (by_qr) {
        fortran(all.gesvd, job, job, &m, &n, a, &m, values, u, &u_step, vt, &vt_step, work,
                &work_size, &info, size_t{1}, size_t{1});
      } else {
        fortran(all.gesdd, job, &m, &n, a, &m, values, u, &u_step, vt, &vt_step, work, &work_size,
                integers, &info, size_t{1});
      }
    }
    return info;
  }
};

// kiln_svd_T: descending singular values, and optionally U and V^H; nan for non-finite matrices.
//
// Buffers: A of m x n, values of c = min(m, n) (real), then with vectors U (m x m, or m x c) and
// V^H (n x n, or c x n). Numbers: batch, m, n, full_matrices, compute_uv, 1 for the algorithm QR
// rather than divide and conquer.
template <typename T>
int32_t svd(Call* call, void* const* buffers, const int64_t* numbers) {
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], m = numbers[1], n = numbers[2], count = std::min(m, n);
  const bool full = numbers[3] != 0, wanted = numbers[4] != 0;
  const int64_t left = full ? m : count, right = full ? n : count;
  const T* a = static_cast<const T*>(buffers[0]);
  Real<T>* values = static_cast<Real<T>*>(buffers[1]);
  T* u = wanted ? static_cast<T*>(buffers[2]) : nullptr;
  T* vt = wanted ? static_cast<T*>(buffers[3]) : nullptr;
  if (count == 0) {
    for (int64_t i = 0; wanted && i < batch; ++i) {
      set_identity(u + i * m * left, m, left);
      set_identity(vt + i * right * n, right, n);
    }
    return 0;
  }
  return over_stack(call, batch, 12 * cube(m, n, count), [&](int64_t begin, int64_t end) {
    T size(0);
    Svd<T> one{};
    one.by_qr = numbers[5] != 0;
    one.job = !wanted ? "N" : full ? "A" : "S";
    one.m = static_cast<int32_t>(m), one.n = static_cast<int32_t>(n);
    one.left = static_cast<int32_t>(left), one.right = static_cast<int32_t>(right);
    one.work = &size;
    one.work_size = -1;
    one.run();
    one.work_size = reported(size);
    const size_t large = static_cast<size_t>(std::max(m, n)), few = static_cast<size_t>(count);
    // As LAPACK's documentation says, for complex numbers with vectors.
    const size_t reals =
        kIsComplex<T> ? few * std::max(5 * few + 7, 2 * large + 2 * few + 1) + 5 * few : 0;
    const size_t elements = static_cast<size_t>(m * n);
    const size_t u_size = wanted ? static_cast<size_t>(m * left) : 0;
    const size_t vt_size = wanted ? static_cast<size_t>(right * n) : 0;
    Scratch scratch(Scratch::size_of<T>(elements) + Scratch::size_of<T>(u_size) +
                    Scratch::size_of<T>(vt_size) + Scratch::size_of<T>(one.work_size) +
                    Scratch::size_of<Real<T>>(reals) + Scratch::size_of<int32_t>(8 * few));
    if (!scratch) return kNoMemory;
    one.a = scratch.take<T>(elements);
    one.u = scratch.take<T>(u_size);
    one.vt = scratch.take<T>(vt_size);
    one.work = scratch.take<T>(one.work_size);
    one.reals = scratch.take<Real<T>>(reals);
    one.integers = scratch.take<int32_t>(8 * few);
    for (int64_t i = begin; i < end; ++i) {
      const T* matrix = a + i * m * n;
      one.values = values + i * count;
      // LAPACK may not terminate on non-finite numbers.
      bool failed = !all_finite(matrix, m * n);
      if (!failed) {
        to_columns(matrix, one.a, m, n);
        failed = one.run() != 0;
      }
      if (failed) std::fill_n(one.values, count, not_a_number<Real<T>>());
      if (!wanted) continue;
      if (failed) {
        std::fill_n(u + i * m * left, m * left, not_a_number<T>());
        std::fill_n(vt + i * right * n, right * n, not_a_number<T>());
      } else {
        to_rows(one.u, u + i * m * left, m, left);
        to_rows(one.vt, vt + i * right * n, right, n);
      }
    }
    return 0;
  });
}

// Converts column-major eigenvectors, as LAPACK returns them, to row-major complex ones. For a real
// matrix two columns hold the real and imaginary parts of a pair.
template <typename T>
void write_vectors(const T* columns, const std::complex<Real<T>>* values,
                   std::complex<Real<T>>* out, int64_t n) {
  if constexpr (kIsComplex<T>) {
    (void)values;
    to_rows(columns, out, n, n);
  } else {
    for (int64_t j = 0; j < n; ++j) {
      const T* v = columns + j * n;
      const bool pair = values[j].imag() > 0 && j + 1 < n;
      for (int64_t i = 0; i < n; ++i) {
        out[i * n + j] = {v[i], pair ? v[n + i] : 0};
        if (pair) out[i * n + j + 1] = {v[i], -v[n + i]};
      }
      j += pair;
    }
  }
}

template <typename T>
int32_t call_eig(const char* left_job, const char* right_job, const int32_t& n, T* columns,
                 std::complex<Real<T>>* values, T* left, T* right, T* work,
                 const int32_t& work_size, Real<T>* reals) {
  int32_t info = 0;
  if constexpr (kIsComplex<T>) {
    fortran(routines<T>().geev, left_job, right_job, &n, columns, &n, values, left, &n, right, &n,
            work, &work_size, reals, &info, size_t{1}, size_t{1});
  } else {
    fortran(routines<T>().geev, left_job, right_job, &n, columns, &n, reals, reals + n, left, &n,
            right, &n, work, &work_size, &info, size_t{1}, size_t{1});
    for (int32_t i = 0; work_size >= 0 && i < n; ++i) values[i] = {reals[i], reals[n + i]};
  }
  return info;
}

// kiln_eig_T: eigenvalues of general matrices, and optionally left and right eigenvectors, as
// columns; all complex; nan for non-finite matrices.
//
// Buffers: A of n x n, values of n, then the requested left and right vectors (n x n).
// Numbers: batch, n, whether left and right vectors are requested.
template <typename T>
int32_t eig(Call* call, void* const* buffers, const int64_t* numbers) {
  using Complex = std::complex<Real<T>>;
  if (!has_routines) return kNoLibrary;
  const int64_t batch = numbers[0], n = numbers[1];
  const bool wanted[] = {numbers[2] != 0, numbers[3] != 0};
  const T* a = static_cast<const T*>(buffers[0]);
  Complex* values = static_cast<Complex*>(buffers[1]);
  Complex* vectors[] = {
      wanted[0] ? static_cast<Complex*>(buffers[2]) : nullptr,
      wanted[1] ? static_cast<Complex*>(buffers[wanted[0] ? 3 : 2]) : nullptr,
  };
  if (n == 0) return 0;
  return over_stack(call, batch, 25 * cube(n, n, n), [&](int64_t begin, int64_t end) {
    const char *left_job = wanted[0] ? "V" : "N", *right_job = wanted[1] ? "V" : "N";
    const int32_t order = static_cast<int32_t>(n);
    const size_t elements = static_cast<size_t>(n * n), reals = static_cast<size_t>(2 * n);
    T size(0), unused(0);
    Complex value;
    Real<T> real(0);
    // A workspace query neither reads nor writes a matrix.
    int32_t info = 0;
    const int32_t query = -1;
    if constexpr (kIsComplex<T>) {
      fortran(routines<T>().geev, left_job, right_job, &order, &unused, &order, &value, &unused,
              &order, &unused, &order, &size, &query, &real, &info, size_t{1}, size_t{1});
    } else {
      fortran(routines<T>().geev, left_job, right_job, &order, &unused, &order, &real, &real,
              &unused, &order, &unused, &order, &size, &query, &info, size_t{1}, size_t{1});
    }
    const int32_t work_size = reported(size);
    Scratch scratch(3 * Scratch::size_of<T>(elements) + Scratch::size_of<T>(work_size) +
                    Scratch::size_of<Real<T>>(reals));
    if (!scratch) return kNoMemory;
    T* columns = scratch.take<T>(elements);
    T* found[] = {scratch.take<T>(elements), scratch.take<T>(elements)};
    T* work = scratch.take<T>(work_size);
    Real<T>* parts = scratch.take<Real<T>>(reals);
    for (int64_t i = begin; i < end; ++i) {
      bool failed = !all_finite(a + i * n * n, n * n);
      if (!failed) {
        to_columns(a + i * n * n, columns, n, n);
        failed = call_eig<T>(left_job, right_job, order, columns, values + i * n, found[0],
                             found[1], work, work_size, parts) != 0;
      }
      if (failed) std::fill_n(values + i * n, n, not_a_number<Complex>());
      for (int side = 0; side < 2; ++side) {
        if (!wanted[side]) continue;
        Complex* out = vectors[side] + i * n * n;
        if (failed) std::fill_n(out, n * n, not_a_number<Complex>());
        else write_vectors<T>(found[side], values + i * n, out, n);
      }
    }
    return 0;
  });
}

}  // namespace

KILN_FOR_TYPES("kiln_eigh", eigh)
KILN_FOR_TYPES("kiln_svd", svd)
KILN_FOR_TYPES("kiln_eig", eig)
}  // namespace kiln
