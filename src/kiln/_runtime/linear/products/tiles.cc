// Products of packed floats, tile by tile: the accumulators of a tile of C stay in registers.
// Compiled once per microarchitecture level, so nothing here may be shared with other files.
#include <cstring>
#include <utility>

#include "linear/levels.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64, kRows = 12;
#elif defined(__AVX__)
constexpr int kBytes = 32, kRows = 6;
#elif defined(__x86_64__)
constexpr int kBytes = 16, kRows = 6;
#else
constexpr int kBytes = 16, kRows = 12;
#endif
constexpr int kVectors = 2;  // of a row of a tile

template <typename T>
struct Lanes;
template <>
struct Lanes<float> {
  typedef float V __attribute__((vector_size(kBytes)));
};
template <>
struct Lanes<double> {
  typedef double V __attribute__((vector_size(kBytes)));
};
template <typename T>
constexpr int64_t kLanes = kBytes / static_cast<int64_t>(sizeof(T));
template <typename T>
constexpr int64_t kColumns = kVectors * kLanes<T>;

template <typename T>
typename Lanes<T>::V load(const T* from) {
  typename Lanes<T>::V loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

template <typename T>
void store(T* to, typename Lanes<T>::V stored) {
  std::memcpy(to, &stored, sizeof stored);
}

// Each element of C is a chain of sums in the order of `depth`, whatever the tile: it has the same
// bits in all of them.
template <typename T, int R, int V, bool kAnywhere = false>
void tile(const T* a, const T* b, int64_t b_row, const int64_t* b_rows, int64_t depth, T* c,
          int64_t c_row, int64_t width, bool add) {
  using Vector = typename Lanes<T>::V;
  constexpr int64_t kStep = kLanes<T>;
  Vector sums[R][V] = {};
  if (add) {
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(c + r * c_row);
      __builtin_prefetch(c + r * c_row + width - 1);
    }
  }
  for (int64_t i = 0; i < depth; ++i, ++a, b += kAnywhere ? 0 : b_row) {
    Vector right[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) right[v] = load(b + (kAnywhere ? b_rows[i] : 0) + v * kStep);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const T left = a[r * kPackedRow<T>];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r, c += c_row) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      if (width >= (v + 1) * kStep) {
        store(c + v * kStep, add ? sums[r][v] + load(c + v * kStep) : sums[r][v]);
      } else {
        T some[kStep];
        store(some, sums[r][v]);
        for (int64_t j = 0; j < width - v * kStep; ++j) {
          T* to = c + v * kStep + j;
          *to = add ? some[j] + *to : some[j];
        }
      }
    }
  }
}

template <typename T>
using Tile = void (*)(const T*, const T*, int64_t, const int64_t*, int64_t, T*, int64_t, int64_t,
                      bool);

template <typename T, int V, bool kAnywhere = false, int... row>
Tile<T> tile_of(int64_t rows, std::integer_sequence<int, row...>) {
  static constexpr Tile<T> kTiles[] = {tile<T, row + 1, V, kAnywhere>...};
  return kTiles[rows - 1];
}

template <typename T>
void run_tiles(const TileBlock& block) {
  using EachRow = std::make_integer_sequence<int, kRows>;
  const T *a = static_cast<const T*>(block.a), *b = static_cast<const T*>(block.b);
  int64_t j = 0;
  // A single row has too few independent sums to hide the latency of one.
  constexpr int kMany = 8;
  for (; block.b_rows != nullptr && block.rows == 1 && j + kMany * kLanes<T> <= block.columns;
       j += kMany * kLanes<T>, b += kMany * kLanes<T>) {
    tile<T, 1, kMany, true>(a, b, 0, block.b_rows, block.depth, static_cast<T*>(block.c) + j, 0,
                            kMany * kLanes<T>, block.add);
  }
  for (; j < block.columns; j += kColumns<T>, b += block.b_panel) {
    const int64_t left = block.columns - j, width = left < kColumns<T> ? left : kColumns<T>;
    for (int64_t i = 0; i < block.rows; i += kRows) {
      const int64_t rows = block.rows - i < kRows ? block.rows - i : kRows;
      const Tile<T> run = block.b_rows != nullptr ? tile_of<T, kVectors, true>(rows, EachRow())
                          : width <= kLanes<T>    ? tile_of<T, 1>(rows, EachRow())
                                                  : tile_of<T, kVectors>(rows, EachRow());
      run(a + i * kPackedRow<T>, b, block.b_row, block.b_rows, block.depth,
          static_cast<T*>(block.c) + i * block.c_row + j, block.c_row, width, block.add);
    }
  }
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
    for (int64_t j = 0; rest > 0 && j < kColumns<T>; ++j) {
      to[whole * to_panel + j] = j < rest ? from[whole * kColumns<T> + j] : T(0);
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

void add_tiles(LinearLoops& loops);
void add_tiles(LinearLoops& loops) {
  loops.tiles[0] = {kRows, kColumns<float>, run_tiles<float>, pack_panels<float>, pack_rows<float>};
  loops.tiles[1] = {kRows, kColumns<double>, run_tiles<double>, pack_panels<double>,
                    pack_rows<double>};
}

}  // namespace KILN_LEVEL
}  // namespace kiln
