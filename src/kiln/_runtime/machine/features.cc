#include "machine/features.h"

#ifdef KILN_X86_64
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <string>

namespace kiln {
namespace {

// Whether KILN_TARGET names a level, whose code runs on every host CPU of it.
[[maybe_unused]] bool names_target() {
  const char* target = std::getenv("KILN_TARGET");
  return target != nullptr && *target != '\0';
}

}  // namespace

// At most the level with which the value of KILN_TARGET begins; it is read once.
int processor_level() {
#ifdef KILN_X86_64
  static const int level = [] {
    __builtin_cpu_init();
    bool third = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("bmi2");
    bool fourth = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    int found = !third ? 2 : fourth ? 4 : 3;
    const char* target = std::getenv("KILN_TARGET");
    const std::string named = std::string(target == nullptr ? "" : target).substr(0, 9);
    if (named == "x86-64-v2") return 2;
    return named == "x86-64-v3" && found > 3 ? 3 : found;
  }();
  return level;
#else
  return 0;
#endif
}

bool has_vnni() {
#ifdef KILN_X86_64
  static const bool found =
      processor_level() == 4 && !names_target() && __builtin_cpu_supports("avx512vnni") != 0;
  return found;
#else
  return false;
#endif
}

bool has_amx() {
#if defined(KILN_X86_64) && defined(__linux__)
  static const bool found = [] {
    if (!has_vnni()) return false;
    unsigned a, b, c, d = 0;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    constexpr unsigned kBrains = 1u << 22, kTiles = 1u << 24, kBytes = 1u << 25;
    constexpr unsigned kNeeded = kBrains | kTiles | kBytes;
    if ((d & kNeeded) != kNeeded) return false;
    // ARCH_REQ_XCOMP_PERM for the data of tiles: refused by kernels that do not save them, and if
    // the signal stack of a thread is too small for them.
    constexpr long kRequest = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  }();
  return found;
#else
  return false;
#endif
}

std::vector<std::pair<const char*, bool>> processor_features() {
#ifdef KILN_X86_64
  unsigned a, b, c = 0, d;
  __get_cpuid(1, &a, &b, &c, &d);
  const unsigned first = c;
  c = 0;
  __get_cpuid(0x80000001, &a, &b, &c, &d);
  __builtin_cpu_init();
  // Features whose registers the operating system must save are queried through the compiler's
  // builtin, which checks that too.
  return {
      {"cx16", (first >> 13 & 1) != 0},
      {"movbe", (first >> 22 & 1) != 0},
      {"f16c", (first >> 29 & 1) != 0 && __builtin_cpu_supports("avx")},
      {"lzcnt", (c >> 5 & 1) != 0},
#define KILN_FEATURE(name) {name, __builtin_cpu_supports(name) != 0}
      KILN_FEATURE("ssse3"),
      KILN_FEATURE("sse4.2"),
      KILN_FEATURE("popcnt"),
      KILN_FEATURE("bmi"),
      KILN_FEATURE("bmi2"),
      KILN_FEATURE("fma"),
      KILN_FEATURE("avx2"),
      KILN_FEATURE("avx512f"),
      KILN_FEATURE("avx512bw"),
      KILN_FEATURE("avx512cd"),
      KILN_FEATURE("avx512dq"),
      KILN_FEATURE("avx512vl"),
#undef KILN_FEATURE
  };
#else
  return {};
#endif
}

}  // namespace kiln
