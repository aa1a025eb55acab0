// Which instructions the host CPU has.
#pragma once

#include <utility>
#include <vector>

namespace kiln {

// The x86-64 microarchitecture level whose loops run here: 2, 3 or 4; 0 on other architectures.
int processor_level();

// Whether kernels may use instructions beyond level 4: products of bytes (AVX-512 VNNI), and of
// matrices of bytes and bf16 (AMX), whose registers the process may use from the first call on. No
// if KILN_TARGET names a level.
bool has_vnni();
bool has_amx();

// The instruction-set features that the native engine queries, by LLVM's names, and whether the
// host CPU has them; none on other architectures.
std::vector<std::pair<const char*, bool>> processor_features();

}  // namespace kiln
