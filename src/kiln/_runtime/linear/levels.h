// Loops of this folder that are compiled once for each level of the processor.
#pragma once

#include <cstdint>

namespace kiln {

// One matrix product: C = A B, or C += A B. Steps are in elements, from one row to the next and
// from one column to the next; those of C's columns are 1.
struct SmallProduct {
  int64_t m, n, k;
  int64_t a_row, a_column, b_row, b_column, c_row;
  bool accumulate;
};

// The elements that loops are compiled for. Integers wrap around, whatever their sign.
enum Element { kF32, kF64, kC64, kC128, kI8, kI16, kI32, kI64, kBool, kElements };

using ProductLoop = void (*)(const SmallProduct&, const void* a, const void* b, void* c);
// sums[i] += a[i] * b[i]
using MultiplyAddLoop = void (*)(void* sums, const void* a, const void* b, int64_t count);
using ConvertLoop = void (*)(const void* from, void* to, int64_t count);
// Writes the transpose of a matrix of `rows` times `columns`; steps are in elements, between rows
// of either.
using TransposeLoop = void (*)(const void* from, void* to, int64_t rows, int64_t columns,
                               int64_t from_step, int64_t to_step);

// A block of C as a product of packed floats: C = A B, or C += A B. At most `kPackedDepth` columns
// of A, whose rows are `kPackedRow` apart. B lies in panels of as many columns as a tile has; those
// of the last that are not there may be any numbers.
struct TileBlock {
  int64_t rows, columns, depth;
  const void* a;
  const void* b;
  int64_t b_row, b_panel;  // steps, in elements
  // Null, or where each row of B begins: they may lie anywhere, and there is a tile's room after
  // the last column.
  const int64_t* b_rows;
  void* c;
  int64_t c_row;
  bool add;
};
constexpr int64_t kPackedDepth = 256;
// A line more than the depth: rows of a power of two would share few places of the first cache.
template <typename T>
constexpr int64_t kPackedRow = kPackedDepth + 64 / static_cast<int64_t>(sizeof(T));

struct TileLoops {
  int64_t rows, columns;  // of a tile
  void (*run)(const TileBlock&);
  // Rows of B to panels, `columns` apart.
  void (*pack)(const void* from, int64_t from_row, int64_t rows, int64_t columns, void* to,
               int64_t to_panel);
  // Rows of A to rows of the packed block.
  void (*pack_rows)(const void* from, int64_t from_row, int64_t rows, int64_t depth, void* to);
};

// Columns of a matrix that are factored, or rows that are solved, without a product of matrices.
constexpr int64_t kPanel = 16;

// The innermost loops of systems of equations. Steps are in elements.
struct SystemLoops {
  int64_t lanes;
  // L and U of columns that lie apart, each dense, in place.
  void (*factor_panel)(void* a, int64_t rows, int64_t columns, int64_t step, int32_t* pivots);
  // X with L X = B in place of B, for at most kPanel rows: L lies kPanel apart, and each row is
  // scaled by the inverse of its diagonal.
  void (*solve_panel)(const void* lower, const void* scales, int64_t rows, void* b, int64_t b_row,
                      int64_t columns);
  // The same for as many matrices as there are lanes. An element of all of them is a vector; so are
  // pivots.
  void (*factor_lanes)(void* a, int64_t rows, int64_t columns, int32_t* pivots);
  void (*solve_lanes)(const void* a, int64_t a_row, int64_t a_column, bool is_unit, void* b,
                      int64_t b_row, int64_t rows, int64_t columns);
};

struct LinearLoops {
  SystemLoops systems[2];          // of f32, of f64
  TileLoops tiles[2];              // of f32, of f64
  ProductLoop product[kElements];  // any sizes; for floats meant for few elements
  MultiplyAddLoop multiply_add[kElements];
  ConvertLoop bf16_to_f32, f32_to_bf16, f16_to_f32, f32_to_f16;
  TransposeLoop transpose[5];  // by the logarithm of the size of an element
};

// The loops for this processor. Not inline: see `kernels/README.md`.
const LinearLoops& linear_loops();

}  // namespace kiln
