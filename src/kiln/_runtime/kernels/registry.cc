#include "registry.h"

#include <cstdlib>
#include <string>
#include <unordered_map>

namespace kiln {

// Each family, at each level.
#define KILN_DECLARE_FAMILIES(level)  \
  namespace level {                   \
  void add_arithmetic(Registry& all); \
  void add_moving(Registry& all);     \
  }
KILN_DECLARE_FAMILIES(baseline)
#ifdef KILN_X86_64
KILN_DECLARE_FAMILIES(v3)
KILN_DECLARE_FAMILIES(v4)
#endif

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
    const std::string level = std::string(target == nullptr ? "" : target).substr(0, 9);
    if (level == "x86-64-v2") return 2;
    return level == "x86-64-v3" && found > 3 ? 3 : found;
  }();
  return level;
#else
  return 0;
#endif
}

namespace {

void add_families(Registry& all) {
  switch (processor_level()) {
#ifdef KILN_X86_64
    case 4:
      v4::add_arithmetic(all);
      v4::add_moving(all);
      break;
    case 3:
      v3::add_arithmetic(all);
      v3::add_moving(all);
      break;
#endif
    default: baseline::add_arithmetic(all); baseline::add_moving(all);
  }
}

}  // namespace

// By name and types: "max", "fff" is under "max fff".
struct Registry::Entries {
  std::unordered_map<std::string, StridedLoop> loops;
};

Registry::Registry(Entries* entries) : entries_(entries) {}

void Registry::add(const char* name, std::initializer_list<char> types, StridedLoop loop) {
  entries_->loops.emplace((std::string(name) + ' ').append(types), loop);
}

StridedLoop Registry::find(const char* name, const char* types) const {
  auto found = entries_->loops.find((std::string(name) + ' ').append(types));
  return found == entries_->loops.end() ? nullptr : found->second;
}

const Registry& Registry::here() {
  static const Registry made = [] {
    Registry all(new Entries);
    add_families(all);
    return all;
  }();
  return made;
}

}  // namespace kiln
