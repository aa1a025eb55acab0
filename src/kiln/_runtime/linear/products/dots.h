// Tiles of packed words by instructions beyond the microarchitecture levels. `machine/features.h`
// says whether the host CPU has them.
#pragma once

#include "linear/levels.h"

namespace kiln {

// Tiles of 32 columns, of four 8-bit integers a word. Signed numbers of A have 128 added, unsigned
// ones of B have 128 subtracted.
RunTiles vnni_tiles(bool shifted_a, bool shifted_b);

// Tiles of 32 columns; the depth is a multiple of `kMatrixDepth` words, and after the rows of A
// there is room for another `kMatrixRows`.
constexpr int64_t kMatrixDepth = 16, kMatrixRows = 32;
RunTiles amx_byte_tiles(bool signed_a, bool signed_b);
// Pairs of bf16. Subnormal operands and sums are zero.
void amx_brain_tiles(const TileBlock& block);

}  // namespace kiln
