// How many processors this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

// The number of processors in the process's affinity mask, limited by the quota of its control
// groups, rounded up. Determined once.
int32_t processors();

// The quota given by the files under a root, in processors; 0: none.
int32_t processor_quota(const std::string& root);

}  // namespace kiln
