// Exported libraries that are linked with OpenBLAS. Its names have the prefix of the package that
// kiln loads; others are given by the linker's --defsym.
#include "linear/blas.h"

#define KILN_ROUTINES(t, gq, ev)                                                            \
  void scipy_##t##gemm_(), scipy_##t##gemv_(), scipy_##t##trsm_(), scipy_##t##potrf_(),     \
      scipy_##t##getrf_(), scipy_##t##geqrf_(), scipy_##t##geqp3_(), scipy_##t##gq##gqr_(), \
      scipy_##t##ev##evd_(), scipy_##t##gesdd_(), scipy_##t##gesvd_(), scipy_##t##geev_();
extern "C" {
KILN_ROUTINES(s, or, sy)
KILN_ROUTINES(d, or, sy)
KILN_ROUTINES(c, un, he)
KILN_ROUTINES(z, un, he)
}

namespace kiln {
namespace {

void* at(void (*routine)()) { return reinterpret_cast<void*>(routine); }

}  // namespace

#define KILN_TABLE(t, gq, ev)                                                                      \
  {at(scipy_##t##gemm_),    at(scipy_##t##gemv_),  at(scipy_##t##trsm_),  at(scipy_##t##potrf_),   \
   at(scipy_##t##getrf_),   at(scipy_##t##geqrf_), at(scipy_##t##geqp3_), at(scipy_##t##gq##gqr_), \
   at(scipy_##t##ev##evd_), at(scipy_##t##gesdd_), at(scipy_##t##gesvd_), at(scipy_##t##geev_)}

Routines all_routines[4] = {KILN_TABLE(s, or, sy), KILN_TABLE(d, or, sy), KILN_TABLE(c, un, he),
                            KILN_TABLE(z, un, he)};
bool has_routines = true;

}  // namespace kiln
