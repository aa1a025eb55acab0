// How many processors this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

// The processors that the process may run on, and no more than the quota of its control groups
// pays for, rounded up. Found out once.
int32_t processors();

// The quota that the files under a root say, in processors; 0: none.
int32_t processor_quota(const std::string& root);

}  // namespace kiln
