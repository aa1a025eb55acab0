// Tiles of C in 32-bit integers, from packed words of several small integers each. A `Dot` adds to
// each lane the product of two words. Everything here is local to the file that includes it, which
// is compiled for one instruction set.
#pragma once

#include <cstring>
#include <utility>

#include "linear/levels.h"

namespace kiln {
namespace {

// A block of C whose A is packed, or a part of it.
struct WordFactors {
  const uint32_t *a, *b;
  int64_t b_row, depth;
  uint32_t* c;
  int64_t c_row, width;
  bool add;
};

constexpr int kWordVectors = 2;  // of a row of a tile

// An array that memcpy reads as a whole would not be in registers.
template <typename Vector>
Vector load_words(const uint32_t* from) {
  Vector loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}
template <typename Vector>
void store_words(uint32_t* to, Vector stored) {
  std::memcpy(to, &stored, sizeof stored);
}

template <typename Dot, int R>
void word_tile(const WordFactors& f) {
  using Vector = typename Dot::Vector;
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(uint32_t);
  Vector sums[R][kWordVectors] = {};
  const uint32_t *a = f.a, *b = f.b;
  for (int64_t i = 0; i < f.depth; ++i, ++a, b += f.b_row) {
    const Vector first = load_words<Vector>(b), second = load_words<Vector>(b + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const Vector left = Vector{} + a[r * kPackedRow<float>];
      sums[r][0] = Dot::add(sums[r][0], left, first);
      sums[r][1] = Dot::add(sums[r][1], left, second);
    }
  }
  uint32_t* c = f.c;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r, c += f.c_row) {
    if (f.width == kWordVectors * kLanes) {
      if (f.add) {
        sums[r][0] += load_words<Vector>(c);
        sums[r][1] += load_words<Vector>(c + kLanes);
      }
      store_words(c, sums[r][0]);
      store_words(c + kLanes, sums[r][1]);
    } else {
      uint32_t row[kWordVectors * kLanes];
      store_words(row, sums[r][0]);
      store_words(row + kLanes, sums[r][1]);
      for (int64_t j = 0; j < f.width; ++j) c[j] = f.add ? c[j] + row[j] : row[j];
    }
  }
}

template <typename Dot, int... row>
void word_rows(const WordFactors& f, int64_t rows, std::integer_sequence<int, row...>) {
  static constexpr void (*kTiles[])(const WordFactors&) = {word_tile<Dot, row + 1>...};
  kTiles[rows - 1](f);
}

// The rows of a block in tiles of nearly the same size, of at most `kMost` rows.
template <typename Dot, int kMost>
void run_word_tiles(const TileBlock& block) {
  constexpr int64_t kColumns =
      kWordVectors * static_cast<int64_t>(sizeof(typename Dot::Vector) / sizeof(uint32_t));
  const int64_t tiles = (block.rows + kMost - 1) / kMost;
  const int64_t each = block.rows / tiles, larger = block.rows % tiles;
  for (int64_t j = 0; j < block.columns; j += kColumns) {
    WordFactors f{static_cast<const uint32_t*>(block.a),
                  static_cast<const uint32_t*>(block.b) + j / kColumns * block.b_panel,
                  block.b_row,
                  block.depth,
                  static_cast<uint32_t*>(block.c) + j,
                  block.c_row,
                  block.columns - j < kColumns ? block.columns - j : kColumns,
                  block.add};
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t rows = each + (i < larger);
      word_rows<Dot>(f, rows, std::make_integer_sequence<int, kMost>());
      f.a += rows * kPackedRow<float>;
      f.c += rows * f.c_row;
    }
  }
}

}  // namespace
}  // namespace kiln
