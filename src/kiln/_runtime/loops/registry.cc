#include "loops/registry.h"

#include <string>
#include <unordered_map>

#include "machine/features.h"

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
