// Exported libraries that are not linked with a BLAS: all products are by our own loops.
#include "linear/blas.h"

namespace kiln {

Routines all_routines[4];
bool has_routines = false;

}  // namespace kiln
