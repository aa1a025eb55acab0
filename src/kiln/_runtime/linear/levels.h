// Loops on matrices that are compiled once per microarchitecture level.
#pragma once

#include <cstdint>

namespace kiln {

// One matrix product: C = A B, or C += A B. Row and column strides are in elements; C's column
// stride is 1.
struct SmallProduct {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column, c_row;
  bool accumulate;
};

// The element types of the loops. Integers wrap around, signed or not.
enum Element { kF32, kF64, kC64, kC128, kI8, kI16, kI32, kI64, kBool, kElements };

using ProductLoop = void (*)(const SmallProduct&, const void* a, const void* b, void* c);
// sums[i] += a[i] * b[i]
using MultiplyAddLoop = void (*)(void* sums, const void* a, const void* b, int64_t count);
using ConvertLoop = void (*)(const void* from, void* to, int64_t count);
// Writes the transpose of a `rows` x `columns` matrix; row strides of both are in elements.
using TransposeLoop = void (*)(const void* from, void* to, int64_t rows, int64_t columns,
                               int64_t from_step, int64_t to_step);

// A block of C as a product of floats: C = A B, or C += A B. At most `kPackedDepth` columns of A.
// B is packed in panels as wide as a tile, or in place; if `TileLoops::is_masked`, no element after
// the last column is read, or else they are undefined up to the width of a tile.
struct TileBlock {
  int64_t rows, columns, depth;
  const void* a;
  int64_t a_row, a_column;  // strides in elements; if 0, A is packed with row stride `kPackedRow`
  // Null, or where each part of A begins: `a_part` columns.
  const int64_t* a_places;
  int64_t a_part;
  const void* b;
  int64_t b_row, b_panel;  // steps, in elements
  // The address of each row of B, for `tiles_at_rows`: rows may be anywhere, with room for a tile
  // after the last column.
  const int64_t* b_rows;
  void* c;
  int64_t c_row;
  bool add;
};
constexpr int64_t kPackedDepth = 256;
// One cache line more than the depth: rows with a power-of-two stride would collide in few sets of
// the L1 cache.
template <typename T>
constexpr int64_t kPackedRow = kPackedDepth + 64 / static_cast<int64_t>(sizeof(T));

using RunTiles = void (*)(const TileBlock&);

struct TileLoops {
  int64_t rows, columns;  // of a tile
  bool is_masked;         // whether B is read by vectors under a mask
  RunTiles run;
  // Packs rows of B into panels, `columns` apart.
  void (*pack)(const void* from, int64_t from_row, int64_t rows, int64_t columns, void* to,
               int64_t to_panel);
  // Packs rows of A into rows of the block.
  void (*pack_rows)(const void* from, int64_t from_row, int64_t rows, int64_t depth, void* to);
};

// Numbers of at most 32 bits: f32, bf16, f16, i8, u8.
enum Narrow { kSingle, kBrain, kHalf, kSigned, kUnsigned, kNarrows };
// What a word of 32 bits holds: an f32; two bf16; two 16-bit integers; four bytes; four bytes whose
// upper bit is flipped.
enum Word { kFloatWord, kBrainWord, kPairWord, kByteWord, kShiftedWord, kWords };

// Packs narrow numbers in words along the depth of a product. Elements after the last are zero.
struct WordPacking {
  // Words of consecutive elements.
  void (*line)(const void* from, int64_t count, void* to);
  // Words of consecutive rows, in panels as wide as a tile of f32. The step between panels is in
  // words, that between rows in elements.
  void (*panels)(const void* from, int64_t from_row, int64_t rows, int64_t columns, void* to,
                 int64_t to_panel);
};

// Columns that are factored, or rows that are solved, without a matrix product.
constexpr int64_t kPanel = 16;

// The innermost loops of linear systems. Strides are in elements.
struct SystemLoops {
  int64_t lanes;
  // LU factorization of separate dense columns, in place.
  void (*factor_panel)(void* a, int64_t rows, int64_t columns, int64_t step, int32_t* pivots);
  // X with L X = B in place of B, for at most kPanel rows: L has row stride kPanel, and each row is
  // scaled by the inverse of its diagonal element.
  void (*solve_panel)(const void* lower, const void* scales, int64_t rows, void* b, int64_t b_row,
                      int64_t columns);
  // The same for as many matrices as there are lanes. A vector holds one element of all of them; so
  // do pivots.
  void (*factor_lanes)(void* a, int64_t rows, int64_t columns, int32_t* pivots);
  void (*solve_lanes)(const void* a, int64_t a_row, int64_t a_column, bool is_unit, void* b,
                      int64_t b_row, int64_t rows, int64_t columns);
};

// Products of one type, of any sizes; for floats meant for small ones.
struct ProductLoops {
  ProductLoop product;
  MultiplyAddLoop multiply_add;
};

// y = x A, and y = A x, or y += ..., for a row-major `rows` x `columns` matrix.
struct VectorLoops {
  using Loop = void (*)(const void* x, const void* a, int64_t a_row, int64_t rows, int64_t columns,
                        bool add, void* y);
  Loop combine;  // in the order of tiles: runs of `kPackedDepth` rows
  Loop dot;
};

struct WordLoops {
  RunTiles run_pairs;  // words of two 16-bit integers, in tiles as wide as those of f32
  WordPacking packing[kWords][kNarrows];
  // Packed f32 by narrow numbers in place, whose type is the index: for few rows. Null: by packing.
  RunTiles run_thin[kNarrows];
};

struct ConversionLoops {
  ConvertLoop bf16_to_f32, f32_to_bf16, f16_to_f32, f32_to_f16;
};

// One object for each type, so that the static runtime links only those that are used. Each level
// defines all of them.
#define KILN_DECLARE_LOOPS(level)                                                                \
  namespace level {                                                                              \
  extern const TileLoops tiles_of_f32, tiles_of_f64;                                             \
  extern const SystemLoops systems_of_f32, systems_of_f64;                                       \
  extern const VectorLoops vectors_of_f32, vectors_of_f64;                                       \
  extern const ProductLoops products_of_f32, products_of_f64, products_of_c64, products_of_c128, \
      products_of_i8, products_of_i16, products_of_i32, products_of_i64, products_of_bool;       \
  extern const WordLoops words;                                                                  \
  extern const ConversionLoops conversions;                                                      \
  extern const TransposeLoop transpose_of_1, transpose_of_2, transpose_of_4, transpose_of_8,     \
      transpose_of_16;                                                                           \
  extern const RunTiles tiles_at_rows_of_f32, tiles_at_rows_of_f64, tiles_of_lines_of_f32,       \
      tiles_of_lines_of_f64;                                                                     \
  }
KILN_DECLARE_LOOPS(baseline)
KILN_DECLARE_LOOPS(v3)
KILN_DECLARE_LOOPS(v4)

// The loops for the host CPU. Not inline: see `loops/README.md`.
template <typename T>
const TileLoops& tile_loops();
template <typename T>
const SystemLoops& system_loops();
template <typename T>
const VectorLoops& vector_loops();
template <Element type>
const ProductLoops& product_loops();
const WordLoops& word_loops();
const ConversionLoops& conversion_loops();
// By the logarithm of the size of an element.
template <int log_size>
TransposeLoop transpose_loop();
// The tiles of a block whose rows of B are anywhere.
template <typename T>
RunTiles tiles_at_rows();
// Tiles of at most a vector of columns: rows are adjacent positions of a line, of `a_row` channels;
// each part of A is those of 3 or 5 positions.
template <typename T>
RunTiles tiles_of_lines();

#define KILN_DECLARE_ACCESS(T)          \
  template <>                           \
  const TileLoops& tile_loops<T>();     \
  template <>                           \
  const SystemLoops& system_loops<T>(); \
  template <>                           \
  const VectorLoops& vector_loops<T>();
KILN_DECLARE_ACCESS(float)
KILN_DECLARE_ACCESS(double)
#undef KILN_DECLARE_ACCESS
#define KILN_DECLARE_ACCESS(type) \
  template <>                     \
  const ProductLoops& product_loops<type>();
KILN_DECLARE_ACCESS(kF32)
KILN_DECLARE_ACCESS(kF64)
KILN_DECLARE_ACCESS(kC64)
KILN_DECLARE_ACCESS(kC128)
KILN_DECLARE_ACCESS(kI8)
KILN_DECLARE_ACCESS(kI16)
KILN_DECLARE_ACCESS(kI32)
KILN_DECLARE_ACCESS(kI64)
KILN_DECLARE_ACCESS(kBool)
#undef KILN_DECLARE_ACCESS

#define KILN_DECLARE_ACCESS(log_size) \
  template <>                         \
  TransposeLoop transpose_loop<log_size>();
KILN_DECLARE_ACCESS(0)
KILN_DECLARE_ACCESS(1)
KILN_DECLARE_ACCESS(2)
KILN_DECLARE_ACCESS(3)
KILN_DECLARE_ACCESS(4)
#undef KILN_DECLARE_ACCESS

}  // namespace kiln
