#include "leveled.h"

#include "../symbols.h"
#include "registry.h"

namespace kiln {
namespace {

#ifdef KILN_X86_64
#define KILN_BEST(name)                             \
  Symbol(#name, processor_level() == 4   ? v4::name \
                : processor_level() == 3 ? v3::name \
                                         : baseline::name)
#else
#define KILN_BEST(name) Symbol(#name, baseline::name)
#endif

const Symbols symbols{KILN_BEST(cumulative), KILN_BEST(top_k)};

}  // namespace
}  // namespace kiln
