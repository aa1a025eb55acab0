// Products of packed floats, tile by tile: the accumulators of a tile of C stay in registers.
// Compiled once per microarchitecture level, so nothing here may be shared with other files.
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "linear/levels.h"
#include "machine/vectors.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

#if defined(__AVX512F__)
constexpr int kRows = 12, kThreeRows = 9;
#elif defined(__x86_64__)
constexpr int kRows = 6, kThreeRows = 4;
#else
constexpr int kRows = 12, kThreeRows = 8;
#endif
constexpr int kVectors = 2;  // of a row of a tile
// Up to so many rows have tiles of more vectors, if registers allow it.
constexpr int kFewRows = kBytes == 64 ? 4 : 2, kWide = kBytes == 64 ? 6 : 4;
// The hardware does not prefetch the strides of a B that is read in place: tiles prefetch this many
// rows ahead. Panels that come from beyond the L2 cache need more: they are shorter.
constexpr int64_t kAhead = 16, kPanelAhead = 64;
// So many tiles prefetch a part of the next panel each: the first alone would wait for it.
constexpr int64_t kManyTiles = 4;
#if defined(__AVX512F__)
constexpr bool kIsMasked = true;
#else
constexpr bool kIsMasked = false;
#endif
// Steps along the depth for each addition to the addresses.
constexpr int kUnrolled = 2;

template <typename T>
constexpr int64_t kColumns = kVectors * kLanes<T>;

// The last vector of a row of a tile: which of its lanes are columns. Where loads have no mask, all
// lanes of B can be read.
template <typename T>
struct Edge {
  explicit Edge(int64_t width) : width_(width) {
#if defined(__AVX512F__)
    // Negative if the vector is beyond the last column: there is room for it. Processors count
    // shifts modulo 64, and languages do not.
    mask_ = static_cast<Mask>((uint64_t{1} << (static_cast<uint64_t>(width) & 63)) - 1);
#endif
  }
  Vector<T> load(const T* from) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) return _mm512_maskz_loadu_ps(mask_, from);
    else return _mm512_maskz_loadu_pd(mask_, from);
#else
    return kiln::load(from);
#endif
  }
  void store(T* to, Vector<T> stored) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(to, mask_, stored);
    else _mm512_mask_storeu_pd(to, mask_, stored);
#else
    if (width_ == kLanes<T>) {
      kiln::store(to, stored);
      return;
    }
    for (int64_t j = 0; j < width_; ++j) to[j] = stored[j];
#endif
  }
  void add(T* to, Vector<T> added) const {
#if defined(__AVX512F__)
    store(to, added + load(to));
#else
    if (width_ == kLanes<T>) {
      kiln::store(to, added + kiln::load(to));
      return;
    }
    for (int64_t j = 0; j < width_; ++j) to[j] += added[j];
#endif
  }

 private:
#if defined(__AVX512F__)
  using Mask = std::conditional_t<sizeof(T) == 4, __mmask16, __mmask8>;
  Mask mask_;
#endif
  [[maybe_unused]] int64_t width_;  // of the vector
};

// What a tile is a product of. A tile of three vectors has the third in the next panel of B.
template <typename T>
struct Factors {
  const T* a;
  int64_t a_row, a_column;
  const int64_t* a_places;
  int64_t a_part;
  const T* b;
  int64_t b_row, b_panel;
  int64_t b_ahead;                 // to the elements to prefetch
  int64_t ahead_begin, ahead_end;  // at which depths
  const int64_t* b_rows;
  int64_t depth;
  T* c;
  int64_t c_row, width;
  bool add;

  // Moves to the next columns, `step` elements on in B; returns how many were computed.
  int64_t advance(int64_t step) {
    b += step;
    c += width;
    return width;
  }
};

// How B is read: a mask for the last vector of a row costs an instruction on the ports of the
// multiply-adds, and so do steps that are not constants, `kPanel`'s, with adjacent columns of A.
enum Reading { kPanel, kWhole, kMasked, kAnywhere };

// Each element of C is a chain of sums in the order of `depth`, whatever the tile: it has the same
// bits in all of them.
template <typename T, int R, int V, Reading reading>
void tile(const Factors<T>& f) {
  constexpr int64_t kStep = kLanes<T>;
  // Three rows for each pointer: a register for every row would be too many.
  constexpr int kGroups = (R + 2) / 3;
  const Edge<T> edge(f.width - (V - 1) * kStep);
  const int64_t row = f.a_row, column = reading == kPanel ? 1 : f.a_column, depth = f.depth;
  const int64_t b_row = reading == kPanel ? kColumns<T> : f.b_row;
  const int64_t ahead = f.b_ahead, ahead_begin = f.ahead_begin, ahead_end = f.ahead_end;
  const int64_t *b_rows = f.b_rows, *a_places = f.a_places;
  const T *b = f.b, *third = V == 3 ? f.b + f.b_panel : nullptr;
  Vector<T> sums[R][V] = {};
  if (f.add) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(f.c + r * f.c_row);
      __builtin_prefetch(f.c + r * f.c_row + f.width - 1);
    }
  }
  const T* a[kGroups];
  const auto prefetch = [&](int steps) __attribute__((always_inline)) {
    for (int u = 0; u < steps; ++u) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        __builtin_prefetch((V == 3 && v == 2 ? third : b + v * kStep) + u * b_row + ahead);
      }
    }
  };
  // Column `u` of A times row `u` of B.
  const auto multiply = [&](const T* from, int u) __attribute__((always_inline)) {
    if (reading != kAnywhere) from += u * b_row;
    const T* beyond = V == 3 ? third + u * b_row : nullptr;
    Vector<T> right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const T* at = V == 3 && v == 2 ? beyond : from + v * kStep;
      right[v] = reading == kMasked && v == V - 1 ? edge.load(at) : load(at);
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const T left = a[r / 3][r % 3 * row + u * column];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[r][v] += left * right[v];
    }
  };
  const auto advance = [&](int steps) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) a[g] += steps * column;
    if constexpr (reading != kAnywhere) b += steps * b_row;
    if constexpr (V == 3) third += steps * b_row;
  };
  for (int64_t i = 0; i < depth;) {
    for (int g = 0; g < kGroups; ++g) {
      a[g] = f.a + (a_places == nullptr ? 0 : *a_places) + 3 * g * row;
    }
    if (a_places != nullptr) ++a_places;
    const int64_t end = i + f.a_part;
    if constexpr (reading == kPanel) {
      for (; i + kUnrolled <= end; i += kUnrolled) {
        if (i >= ahead_begin && i < ahead_end) prefetch(kUnrolled);
#pragma GCC unroll 8
        for (int u = 0; u < kUnrolled; ++u) multiply(b, u);
        advance(kUnrolled);
      }
    }
    for (; i < end; ++i) {
      if (reading != kAnywhere && i >= ahead_begin && i < ahead_end) prefetch(1);
      multiply(reading == kAnywhere ? b + b_rows[i] : b, 0);
      advance(1);
    }
  }
  const int64_t c_row = f.c_row;
  T* c = f.c;
  if (f.add) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r, c += c_row) {
#pragma GCC unroll 8
      for (int v = 0; v < V - 1; ++v) store(c + v * kStep, sums[r][v] + load(c + v * kStep));
      edge.add(c + (V - 1) * kStep, sums[r][V - 1]);
    }
  } else {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r, c += c_row) {
#pragma GCC unroll 8
      for (int v = 0; v < V - 1; ++v) store(c + v * kStep, sums[r][v]);
      edge.store(c + (V - 1) * kStep, sums[r][V - 1]);
    }
  }
}

template <typename T>
using Tile = void (*)(const Factors<T>&);

template <typename T, int V, Reading reading, int... row>
Tile<T> tile_of(int64_t rows, std::integer_sequence<int, row...>) {
  static constexpr Tile<T> kTiles[] = {tile<T, row + 1, V, reading>...};
  return kTiles[rows - 1];
}

// The rows of a block in tiles of nearly the same size: one with few rows has too few independent
// sums to hide the latency of one. `run` takes the factors, the rows, and which of how many it is.
template <typename T, typename Run>
void in_tiles(int64_t all, int64_t most, Factors<T> f, const Run& run) {
  const int64_t tiles = (all + most - 1) / most;
  const int64_t each = all / tiles, larger = all % tiles;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t rows = each + (i < larger);
    run(f, rows, i, tiles);
    f.a += rows * f.a_row;
    f.c += rows * f.c_row;
  }
}

template <typename T, int V, Reading reading>
void run_rows(const TileBlock& block, const Factors<T>& of) {
  constexpr int kMost = V == 3 ? kThreeRows : kRows;
  in_tiles(block.rows, kMost, of, [](Factors<T>& f, int64_t rows, int64_t i, int64_t tiles) {
    if (reading == kPanel && tiles >= kManyTiles) {
      f.b_ahead = f.b_panel;
      f.ahead_begin = i * f.depth / tiles;
      f.ahead_end = (i + 1) * f.depth / tiles;
    }
    tile_of<T, V, reading>(rows, std::make_integer_sequence<int, kMost>())(f);
    // The first tile has brought the panel to the L1 cache.
    if (reading == kPanel) f.ahead_end = 0;
  });
}

// `f.width` columns, at most as many as V vectors.
template <typename T, int V>
void run_columns(const TileBlock& block, const Factors<T>& f) {
  if constexpr (V == kVectors) {
    if (f.b_row == kColumns<T> && f.a_column == 1) return run_rows<T, V, kPanel>(block, f);
  }
  if (kIsMasked && (V == 1 || f.width < V * kLanes<T>)) {
    run_rows<T, V, kIsMasked ? kMasked : kWhole>(block, f);
  } else {
    run_rows<T, V, V == 1 && kIsMasked ? kMasked : kWhole>(block, f);
  }
}

template <typename T>
Factors<T> factors_of(const TileBlock& block) {
  return {static_cast<const T*>(block.a),
          block.a_row == 0 ? kPackedRow<T> : block.a_row,
          block.a_row == 0 ? 1 : block.a_column,
          block.a_places,
          block.a_places == nullptr ? block.depth : block.a_part,
          static_cast<const T*>(block.b),
          block.b_row,
          block.b_panel,
          (block.b_row == kColumns<T> ? kPanelAhead : kAhead) * block.b_row,
          0,
          block.depth,
          block.b_rows,
          block.depth,
          static_cast<T*>(block.c),
          block.c_row,
          0,
          block.add};
}

template <typename T>
void run_tiles(const TileBlock& block) {
  Factors<T> f = factors_of<T>(block);
  int64_t j = 0;
  // Few rows by a large matrix take as long as reading it, which is fastest in long pieces.
  const bool is_read_once = block.b_panel == kColumns<T>;
  while (is_read_once && block.rows <= kFewRows && j + kWide * kLanes<T> <= block.columns) {
    f.width = kWide * kLanes<T>;
    tile_of<T, kWide, kWhole>(block.rows, std::make_integer_sequence<int, kFewRows>())(f);
    j += f.advance(f.width);
  }
  while (is_read_once && block.rows <= kThreeRows && j + 3 * kLanes<T> <= block.columns) {
    f.width = 3 * kLanes<T>;
    run_rows<T, 3, kWhole>(block, f);
    j += f.advance(f.width);
  }
  while (j < block.columns) {
    const int64_t left = block.columns - j;
    f.width = left;
    if (left <= kLanes<T>) {
      run_columns<T, 1>(block, f);
    } else if (left == 3 * kLanes<T>) {
      run_rows<T, 3, kWhole>(block, f);
      break;
    } else {
      f.width = left < kColumns<T> ? left : kColumns<T>;
      run_columns<T, kVectors>(block, f);
    }
    j += f.advance(block.b_panel);
  }
}

// Rows of B that are anywhere.
template <typename T>
void run_tiles_at_rows(const TileBlock& block) {
  Factors<T> f = factors_of<T>(block);
  int64_t j = 0;
  // A single row has too few independent sums to hide the latency of one.
  constexpr int kMany = 8;
  while (block.rows == 1 && j + kMany * kLanes<T> <= block.columns) {
    f.width = kMany * kLanes<T>;
    tile<T, 1, kMany, kAnywhere>(f);
    j += f.advance(f.width);
  }
  while (j < block.columns) {
    const int64_t left = block.columns - j;
    f.width = left < kColumns<T> ? left : kColumns<T>;
    run_rows<T, kVectors, kAnywhere>(block, f);
    j += f.advance(block.b_panel);
  }
}

// Positions of a line by at most a vector of features: the elements of A that a position reads are
// `K` adjacent rows, of which it shares all but one with its neighbor. So each is loaded once for K
// additions; tiles of one vector, with a load for each, wait for loads.
template <typename T, int R, int K>
void line_tile(const Factors<T>& f) {
  constexpr int kPlaces = R + K - 1, kGroups = (kPlaces + 2) / 3;
  const Edge<T> edge(f.width);
  const int64_t row = f.a_row, tap = row * f.b_row;
  const int64_t* a_places = f.a_places;
  const T* b = f.b;
  Vector<T> sums[R] = {};
  for (int64_t i = 0; i < f.depth; i += f.a_part, b += (K - 1) * tap) {
    const T* a[kGroups];
    for (int g = 0; g < kGroups; ++g) a[g] = f.a + *a_places + 3 * g * row;
    ++a_places;
    for (int64_t channel = 0; channel < row; ++channel, b += f.b_row) {
      Vector<T> right[K];
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) right[k] = edge.load(b + k * tap);
#pragma GCC unroll 24
      for (int p = 0; p < kPlaces; ++p) {
        const T left = a[p / 3][p % 3 * row];
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) {
          if (p >= k && p - k < R) sums[p - k] += left * right[k];
        }
      }
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g) ++a[g];
    }
  }
  T* c = f.c;
  const bool add = f.add;
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r, c += f.c_row) {
    if (add) edge.add(c, sums[r]);
    else edge.store(c, sums[r]);
  }
}

template <typename T, int K, int... row>
Tile<T> line_tile_of(int64_t rows, std::integer_sequence<int, row...>) {
  static constexpr Tile<T> kTiles[] = {line_tile<T, row + 1, K>...};
  return kTiles[rows - 1];
}

template <typename T, int K>
void run_line(const TileBlock& block) {
  Factors<T> f = factors_of<T>(block);
  f.width = block.columns;
  in_tiles(block.rows, kRows, f, [](const Factors<T>& part, int64_t rows, int64_t, int64_t) {
    line_tile_of<T, K>(rows, std::make_integer_sequence<int, kRows>())(part);
  });
}

template <typename T>
void run_lines(const TileBlock& block) {
  if (block.a_part == 3 * block.a_row) run_line<T, 3>(block);
  else run_line<T, 5>(block);
}

template <typename T>
void pack_panels(const void* from_, int64_t from_row, int64_t rows, int64_t columns, void* to_,
                 int64_t to_panel) {
  const T* from = static_cast<const T*>(from_);
  T* to = static_cast<T*>(to_);
  const int64_t whole = columns / kColumns<T>, rest = columns % kColumns<T>;
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += kColumns<T>) {
    for (int64_t p = 0; p < whole; ++p) {
      std::memcpy(to + p * to_panel, from + p * kColumns<T>, kColumns<T> * sizeof(T));
    }
    if (rest == 0) continue;
    const T* some = from + whole * kColumns<T>;
    T* last = to + whole * to_panel;
    if constexpr (kIsMasked) {
      const int64_t second = rest < kLanes<T> ? 0 : rest - kLanes<T>;
      store(last, Edge<T>(rest - second).load(some));
      store(last + kLanes<T>, Edge<T>(second).load(some + kLanes<T>));
    } else {
      for (int64_t j = 0; j < kColumns<T>; ++j) last[j] = j < rest ? some[j] : T(0);
    }
  }
}

// Packs rows of A, of at most `kPackedDepth` elements. A memcpy call for each would take longer
// than the copy.
template <typename T>
void pack_rows(const void* from_, int64_t from_row, int64_t rows, int64_t depth, void* to_) {
  const T* from = static_cast<const T*>(from_);
  T* to = static_cast<T*>(to_);
  constexpr int64_t kStep = kLanes<T>;
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += kPackedRow<T>) {
    int64_t j = 0;
    for (; j + kStep <= depth; j += kStep) store(to + j, load(from + j));
    if (j == depth) continue;
    if (depth >= kStep) store(to + depth - kStep, load(from + depth - kStep));
    else
      for (; j < depth; ++j) to[j] = from[j];
  }
}

}  // namespace

namespace KILN_LEVEL {

const TileLoops tiles_of_f32{
    kRows, kColumns<float>, kIsMasked, run_tiles<float>, pack_panels<float>, pack_rows<float>};
const TileLoops tiles_of_f64{
    kRows, kColumns<double>, kIsMasked, run_tiles<double>, pack_panels<double>, pack_rows<double>};
const RunTiles tiles_at_rows_of_f32 = run_tiles_at_rows<float>;
const RunTiles tiles_at_rows_of_f64 = run_tiles_at_rows<double>;
const RunTiles tiles_of_lines_of_f32 = run_lines<float>;
const RunTiles tiles_of_lines_of_f64 = run_lines<double>;

}  // namespace KILN_LEVEL
}  // namespace kiln
