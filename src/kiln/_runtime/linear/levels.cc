#include "linear/levels.h"

#include "machine/features.h"

namespace kiln {

#define KILN_DECLARE_LOOPS(level)                 \
  namespace level {                               \
  void add_products(LinearLoops& loops);          \
  void add_systems(LinearLoops& loops);           \
  void add_tiles(LinearLoops& loops);             \
  void add_words(LinearLoops& loops);             \
  void add_moves_of_matrices(LinearLoops& loops); \
  }
KILN_DECLARE_LOOPS(baseline)
#ifdef KILN_X86_64
KILN_DECLARE_LOOPS(v3)
KILN_DECLARE_LOOPS(v4)
#endif

const LinearLoops& linear_loops() {
  static const LinearLoops made = [] {
    LinearLoops loops{};
    switch (processor_level()) {
#ifdef KILN_X86_64
      case 4:
        v4::add_products(loops);
        v4::add_tiles(loops);
        v4::add_words(loops);
        v4::add_systems(loops);
        v4::add_moves_of_matrices(loops);
        break;
      case 3:
        v3::add_products(loops);
        v3::add_tiles(loops);
        v3::add_words(loops);
        v3::add_systems(loops);
        v3::add_moves_of_matrices(loops);
        break;
#endif
      default:
        baseline::add_products(loops);
        baseline::add_tiles(loops);
        baseline::add_words(loops);
        baseline::add_systems(loops);
        baseline::add_moves_of_matrices(loops);
    }
    return loops;
  }();
  return made;
}

}  // namespace kiln
