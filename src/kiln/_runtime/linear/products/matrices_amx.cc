// Products of 8-bit integers and of bf16 by AMX: an instruction multiplies 16 rows of A by 16
// columns of B, 16 words deep. Compiled for AVX-512 with AMX.
#include <immintrin.h>

#include <cstring>

#include "linear/products/dots.h"

namespace kiln {
namespace {

enum Kind { kSignedSigned, kSignedUnsigned, kUnsignedSigned, kUnsignedUnsigned, kBrains };

constexpr int64_t kColumns = 32, kSide = 16;

// What _tile_loadconfig reads: each tile has 16 rows of 64 bytes.
struct alignas(64) Shapes {
  uint8_t palette = 1, start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The numbers of tiles are part of the instructions.
#define KILN_DOT(c, a, b)                                                \
  do {                                                                   \
    if constexpr (kind == kSignedSigned) _tile_dpbssd(c, a, b);          \
    else if constexpr (kind == kSignedUnsigned) _tile_dpbsud(c, a, b);   \
    else if constexpr (kind == kUnsignedSigned) _tile_dpbusd(c, a, b);   \
    else if constexpr (kind == kUnsignedUnsigned) _tile_dpbuud(c, a, b); \
    else _tile_dpbf16ps(c, a, b);                                        \
  } while (false)

// 32 columns of C, and 32 rows or, if not `tall`, 16.
template <Kind kind, bool tall>
void tile(const uint32_t* a, const uint32_t* b, int64_t b_row, int64_t depth, uint32_t* c,
          int64_t c_row, bool add) {
  const int64_t a_bytes = 4 * kPackedRow<float>, b_bytes = 4 * b_row, c_bytes = 4 * c_row;
  const uint32_t *below = a + kSide * kPackedRow<float>, *bottom = c + kSide * c_row;
  // The compiler's macros for loads do not say that they read memory.
  asm volatile("" ::: "memory");
  if (add) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + kSide, c_bytes);
    if constexpr (tall) {
      _tile_loadd(2, bottom, c_bytes);
      _tile_loadd(3, bottom + kSide, c_bytes);
    }
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (tall) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  for (int64_t i = 0; i < depth; i += kMatrixDepth, b += kMatrixDepth * b_row) {
    _tile_loadd(6, b, b_bytes);
    _tile_loadd(4, a + i, a_bytes);
    KILN_DOT(0, 4, 6);
    _tile_loadd(7, b + kSide, b_bytes);
    KILN_DOT(1, 4, 7);
    if constexpr (tall) {
      _tile_loadd(5, below + i, a_bytes);
      KILN_DOT(2, 5, 6);
      KILN_DOT(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + kSide, c_bytes);
  if constexpr (tall) {
    _tile_stored(2, bottom, c_bytes);
    _tile_stored(3, bottom + kSide, c_bytes);
  }
}

template <Kind kind>
void run(const TileBlock& block) {
  const Shapes shapes;
  _tile_loadconfig(&shapes);
  alignas(64) uint32_t part[kMatrixRows * kColumns];
  for (int64_t j = 0; j < block.columns; j += kColumns) {
    const uint32_t* b = static_cast<const uint32_t*>(block.b) + j / kColumns * block.b_panel;
    const int64_t width = block.columns - j < kColumns ? block.columns - j : kColumns;
    for (int64_t i = 0; i < block.rows; i += kMatrixRows) {
      const uint32_t* a = static_cast<const uint32_t*>(block.a) + i * kPackedRow<float>;
      uint32_t* c = static_cast<uint32_t*>(block.c) + i * block.c_row + j;
      const int64_t rows = block.rows - i < kMatrixRows ? block.rows - i : kMatrixRows;
      const bool tall = rows > kSide;
      const auto run_tile = tall ? tile<kind, true> : tile<kind, false>;
      if (width == kColumns && (rows == kMatrixRows || rows == kSide)) {
        run_tile(a, b, block.b_row, block.depth, c, block.c_row, block.add);
        continue;
      }
      const size_t bytes = static_cast<size_t>(width) * sizeof(uint32_t);
      for (int64_t r = 0; block.add && r < rows; ++r) {
        std::memcpy(part + r * kColumns, c + r * block.c_row, bytes);
      }
      run_tile(a, b, block.b_row, block.depth, part, kColumns, block.add);
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(c + r * block.c_row, part + r * kColumns, bytes);
      }
    }
  }
  // Tiles in use would be saved on every context switch.
  _tile_release();
}

}  // namespace

RunTiles amx_byte_tiles(bool signed_a, bool signed_b) {
  static constexpr RunTiles kRun[2][2] = {{run<kUnsignedUnsigned>, run<kUnsignedSigned>},
                                          {run<kSignedUnsigned>, run<kSignedSigned>}};
  return kRun[signed_a][signed_b];
}

void amx_brain_tiles(const TileBlock& block) { run<kBrains>(block); }

}  // namespace kiln
