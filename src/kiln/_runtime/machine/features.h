// Which instructions the host CPU has.
#pragma once

#include <utility>
#include <vector>

namespace kiln {

// The x86-64 microarchitecture level whose loops run here: 2, 3 or 4; 0 on other architectures.
// There is a static runtime for each level, in which it is constant, so that the loops of the others
// are not linked.
#ifdef KILN_STATIC_RUNTIME
#ifdef KILN_STATIC_LEVEL
constexpr int processor_level() { return KILN_STATIC_LEVEL; }
#endif
#else
int processor_level();
#endif

// Whether kernels may use instructions beyond level 4: products of bytes (AVX-512 VNNI), and of
// matrices of bytes and bf16 (AMX), whose registers the process may use from the first call on. No
// if KILN_TARGET names a level.
#ifdef KILN_STATIC_RUNTIME
constexpr bool has_vnni() { return false; }
constexpr bool has_amx() { return false; }
#else
bool has_vnni();
bool has_amx();
#endif

// The instruction-set features that the native engine queries, by LLVM's names, and whether the
// host CPU has them; none on other architectures.
std::vector<std::pair<const char*, bool>> processor_features();

}  // namespace kiln
