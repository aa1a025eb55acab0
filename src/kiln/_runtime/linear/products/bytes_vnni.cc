// Products of 8-bit integers by vpdpbusd, whose left operand is unsigned and whose right one is
// signed. A signed A is stored with 128 added, an unsigned B with 128 subtracted (`kShiftedWord`):
// with A = A' - s and B = B' + t, a sum of A B is that of A' B', plus t times the row sum of A',
// minus s times the column sum of B, all modulo 2^32. Compiled for AVX-512 with VNNI.
#include <immintrin.h>

#include "linear/products/dots.h"
#include "linear/products/word_tiles.h"

namespace kiln {
namespace {

struct ByteDot {
  typedef uint32_t Vector __attribute__((vector_size(64)));
  static Vector add(Vector sums, Vector a, Vector b) {
    return reinterpret_cast<Vector>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums),
                                                        reinterpret_cast<__m512i>(a),
                                                        reinterpret_cast<__m512i>(b)));
  }
};
constexpr int64_t kColumns = 32, kRows = 12;

// Adds what the shifts of A and B leave out to the sums of a block.
void correct(const TileBlock& block, bool shifted_a, bool shifted_b) {
  const __m512i ones = _mm512_set1_epi8(1);
  const uint32_t terms = static_cast<uint32_t>(4 * block.depth);
  for (int64_t j = 0; j < block.columns; j += kColumns) {
    const uint32_t* b = static_cast<const uint32_t*>(block.b) + j / kColumns * block.b_panel;
    const int64_t width = block.columns - j < kColumns ? block.columns - j : kColumns;
    uint32_t of_columns[kColumns] = {};
    if (shifted_a) {
      __m512i low = _mm512_setzero_si512(), high = low;
      for (int64_t i = 0; i < block.depth; ++i, b += block.b_row) {
        low = _mm512_dpbusd_epi32(low, ones, _mm512_loadu_si512(b));
        high = _mm512_dpbusd_epi32(high, ones, _mm512_loadu_si512(b + 16));
      }
      _mm512_storeu_si512(of_columns, low);
      _mm512_storeu_si512(of_columns + 16, high);
      for (uint32_t& sum : of_columns) sum = 0 - 128 * (sum + (shifted_b ? 128 * terms : 0));
    }
    for (int64_t i = 0; i < block.rows; ++i) {
      uint32_t of_row = 0;
      if (shifted_b) {
        const uint32_t* a = static_cast<const uint32_t*>(block.a) + i * kPackedRow<float>;
        __m512i sums = _mm512_setzero_si512();
        int64_t word = 0;
        for (; word + 16 <= block.depth; word += 16) {
          sums = _mm512_dpbusd_epi32(sums, _mm512_loadu_si512(a + word), ones);
        }
        const __mmask16 rest = static_cast<__mmask16>((1u << (block.depth - word)) - 1);
        sums = _mm512_dpbusd_epi32(sums, _mm512_maskz_loadu_epi32(rest, a + word), ones);
        uint32_t each[16];
        _mm512_storeu_si512(each, sums);
        for (const uint32_t sum : each) of_row += 128 * sum;
      }
      uint32_t* c = static_cast<uint32_t*>(block.c) + i * block.c_row + j;
      for (int64_t k = 0; k < width; ++k) c[k] += of_columns[k] + of_row;
    }
  }
}

template <bool kShiftedA, bool kShiftedB>
void run(const TileBlock& block) {
  run_word_tiles<ByteDot, kRows>(block);
  if (kShiftedA || kShiftedB) correct(block, kShiftedA, kShiftedB);
}

}  // namespace

RunTiles vnni_tiles(bool shifted_a, bool shifted_b) {
  static constexpr RunTiles kRun[2][2] = {{run<false, false>, run<false, true>},
                                          {run<true, false>, run<true, true>}};
  return kRun[shifted_a][shifted_b];
}

}  // namespace kiln
