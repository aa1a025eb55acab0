// Which of a library's codes the host CPU runs, if there is one for each microarchitecture level.
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace kiln {
namespace {

int32_t found_level() {
  __builtin_cpu_init();
  const int32_t best = __builtin_cpu_supports("x86-64-v4")   ? 4
                       : __builtin_cpu_supports("x86-64-v3") ? 3
                                                             : 2;
  // At most the level that KILN_TARGET names, as in kiln.
  const char* target = std::getenv("KILN_TARGET");
  if (target == nullptr || std::strncmp(target, "x86-64-v", 8) != 0) return best;
  const int32_t named = target[8] - '0';
  return named >= 2 && named < best ? named : best;
}

}  // namespace

extern "C" int32_t kiln_library_level() {
  static int32_t level = 0;  // threads may compute it at once: it is the same
  int32_t found = __atomic_load_n(&level, __ATOMIC_RELAXED);
  if (found == 0) {
    found = found_level();
    __atomic_store_n(&level, found, __ATOMIC_RELAXED);
  }
  return found;
}

}  // namespace kiln
