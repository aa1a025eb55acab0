#include "kernels/leveled.h"

#include "abi/symbols.h"
#include "kernels/vector_sort.h"
#include "machine/features.h"

namespace kiln {

#ifdef KILN_X86_64
#define KILN_BEST(name) \
  (processor_level() == 4 ? v4::name : processor_level() == 3 ? v3::name : baseline::name)
#else
#define KILN_BEST(name) baseline::name
#endif

KILN_KERNEL_SYMBOL("cumulative", KILN_BEST(cumulative))
KILN_KERNEL_SYMBOL("folded", KILN_BEST(folded))
KILN_KERNEL_SYMBOL("top_k", KILN_BEST(top_k))

// Forwarded, because a pointer to the best one would be no function that a linker finds.
#define KILN_FUNCTION(name, T)                                                           \
  extern "C" void kiln_##name(T* x, int64_t count) { return KILN_BEST(name)(x, count); } \
  KILN_FUNCTION_SYMBOL(kiln_##name)
KILN_FUNCTION(sin_f32, float)
KILN_FUNCTION(cos_f32, float)
KILN_FUNCTION(tan_f32, float)
KILN_FUNCTION(sin_f64, double)
KILN_FUNCTION(cos_f64, double)
KILN_FUNCTION(tan_f64, double)

const VectorSorts& vector_sorts() {
  static const VectorSorts& sorts = KILN_BEST(vector_sorts);
  return sorts;
}

}  // namespace kiln
