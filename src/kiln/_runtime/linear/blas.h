// BLAS and LAPACK from a library that Python loads: a table of addresses, filled once.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace kiln {

using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;

// The failure status of kernels in this folder.
constexpr int32_t kNoMemory = 1;
constexpr int32_t kNoLibrary = 2;  // the table of routines is empty

// The routines for one number type, in Fortran's calling convention: arguments are passed by
// address, and string lengths follow them. Matrices are column-major.
struct Routines {
  void* gemm;
  void* gemv;
  void* trsm;
  void* potrf;
  void* getrf;
  void* geqrf;
  void* geqp3;
  void* orgqr;  // ungqr for complex numbers
  void* syevd;  // heevd
  void* gesdd;
  void* gesvd;
  void* geev;
};

// By type: float, double, complex<float>, complex<double>.
extern Routines all_routines[4];
extern bool has_routines;

// Load a library, which stays loaded, and take the routines from it: their names have a prefix and
// a suffix there. Symbols are bound lazily, because most of its thousands are never used. False,
// with the reason in `failure`, if the library or a routine is missing.
bool load_routines(const std::string& path, const std::string& prefix, const std::string& suffix,
                   std::string& failure);

template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, Complex64> || std::is_same_v<T, Complex128>;
template <typename T>
struct RealOf {
  using type = T;
};
template <typename R>
struct RealOf<std::complex<R>> {
  using type = R;
};
template <typename T>
using Real = typename RealOf<T>::type;

template <typename T>
const Routines& routines() {
  return all_routines[2 * kIsComplex<T> + std::is_same_v<Real<T>, double>];
}

// Calls a routine; the argument types must match exactly.
template <typename... Arguments>
void fortran(void* routine, Arguments... arguments) {
  reinterpret_cast<void (*)(Arguments...)>(routine)(arguments...);
}

}  // namespace kiln
