// Which instructions the host CPU has.
#pragma once

#include <utility>
#include <vector>

namespace kiln {

// The x86-64 microarchitecture level whose loops run here: 2, 3 or 4; 0 on other architectures.
int processor_level();

// The instruction-set features that the native engine queries, by LLVM's names, and whether the
// host CPU has them; none on other architectures.
std::vector<std::pair<const char*, bool>> processor_features();

}  // namespace kiln
