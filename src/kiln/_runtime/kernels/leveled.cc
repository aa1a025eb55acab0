#include "kernels/leveled.h"

#include "abi/symbols.h"
#include "machine/features.h"

namespace kiln {
namespace {

#ifdef KILN_X86_64
#define KILN_BEST(name) \
  (processor_level() == 4 ? v4::name : processor_level() == 3 ? v3::name : baseline::name)
#else
#define KILN_BEST(name) baseline::name
#endif
#define KILN_KERNEL(name) Symbol(#name, KILN_BEST(name))
#define KILN_FUNCTION(name) Symbol("kiln_" #name, reinterpret_cast<void*>(KILN_BEST(name)))

const Symbols symbols{KILN_KERNEL(cumulative), KILN_KERNEL(folded),    KILN_KERNEL(top_k),
                      KILN_FUNCTION(sin_f32),  KILN_FUNCTION(cos_f32), KILN_FUNCTION(tan_f32),
                      KILN_FUNCTION(sin_f64),  KILN_FUNCTION(cos_f64), KILN_FUNCTION(tan_f64)};

}  // namespace
}  // namespace kiln
