// Products of numbers of at most 32 bits: both operands are packed in words of 32 bits, and sums
// are in 32 bits, f32 or integers that wrap around.
#include <algorithm>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/products/dots.h"
#include "linear/products/gemm.h"
#include "machine/features.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// The least multiplications per task, of f32 or of bytes: about ten microseconds.
constexpr int64_t kTaskWork = int64_t{1} << 20;
// Products of a batch with less work than this are not split.
constexpr int64_t kItemWork = int64_t{1} << 22;
constexpr int64_t kFewBlocks = 8;
// Rows of A that are packed at a time: a multiple of the rows of all tiles.
constexpr int64_t kMostRows = 144;
// Depths that are packed at a time, each of `kPackedDepth` words: with them a block of A fits in
// the L2 cache.
constexpr int64_t kDepths = 4;
// Columns whose sums stay in the L2 cache from one depth to the next.
constexpr int64_t kColumnStep = 512;
// Columns that a task packs for itself, if all rows are one block.
constexpr int64_t kOwnColumns = 256;
// With at most this many rows B is read once, in place, by this many columns a task.
constexpr int64_t kThinRows = 8, kThinColumns = 1024;

// Bits of the last number.
constexpr int64_t kNoMatrices = 4, kNoBytes = 8;

constexpr int64_t rounded(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// How operands are packed and multiplied.
struct Scheme {
  int64_t parts;  // elements of a word
  int64_t step;   // depths are multiples of this many words
  int64_t most_rows, columns;
  RunTiles run;
  WordPacking left, right;
};

constexpr bool is_integer(Narrow type) { return type == kSigned || type == kUnsigned; }

// Instructions beyond the microarchitecture level that a product may use.
struct Allowed {
  bool matrices, bytes;
};

Scheme in_floats(Narrow a, Narrow b) {
  const WordLoops& loops = word_loops();
  return {1,
          1,
          kMostRows,
          tile_loops<float>().columns,
          tile_loops<float>().run,
          loops.packing[kFloatWord][a],
          loops.packing[kFloatWord][b]};
}

Scheme scheme_of(Narrow a, Narrow b, [[maybe_unused]] Allowed allowed) {
  const WordLoops& loops = word_loops();
  const auto of = [&](int64_t parts, Word word, RunTiles run) {
    Scheme scheme = in_floats(a, b);
    scheme.parts = parts;
    scheme.run = run;
    scheme.left = loops.packing[word][a];
    scheme.right = loops.packing[word][b];
    return scheme;
  };
#ifdef KILN_X86_64
  const auto by_matrices = [&](int64_t parts, Word word, RunTiles run) {
    Scheme scheme = of(parts, word, run);
    scheme.step = kMatrixDepth;
    scheme.most_rows = kMostRows / kMatrixRows * kMatrixRows;
    return scheme;
  };
  const bool has_brain = a == kBrain || b == kBrain;
  if (allowed.matrices && has_amx() && has_brain && loops.packing[kBrainWord][a].line != nullptr &&
      loops.packing[kBrainWord][b].line != nullptr) {
    return by_matrices(2, kBrainWord, amx_brain_tiles);
  }
  if (is_integer(a) && is_integer(b) && allowed.matrices && has_amx()) {
    return by_matrices(4, kByteWord, amx_byte_tiles(a == kSigned, b == kSigned));
  }
  if (is_integer(a) && is_integer(b) && allowed.bytes && has_vnni()) {
    const bool shifted_a = a == kSigned, shifted_b = b == kUnsigned;
    Scheme scheme = of(4, kByteWord, vnni_tiles(shifted_a, shifted_b));
    scheme.left = loops.packing[shifted_a ? kShiftedWord : kByteWord][a];
    scheme.right = loops.packing[shifted_b ? kShiftedWord : kByteWord][b];
    return scheme;
  }
#endif
  if (is_integer(a) && is_integer(b)) return of(2, kPairWord, loops.run_pairs);
  return in_floats(a, b);
}

// One product of a batch. Positions along the depth are in words.
struct Factors {
  Product p;
  Scheme scheme;
  const char *a, *b;
  int64_t a_size, b_size;  // of an element
  uint32_t* c;
  RunTiles thin;  // null: B is packed

  int64_t words() const { return rounded((p.k + scheme.parts - 1) / scheme.parts, scheme.step); }
  // How many elements there are from a word on.
  int64_t elements(int64_t from, int64_t depth) const {
    return std::min(depth * scheme.parts, p.k - from * scheme.parts);
  }
  // Words that elements fill, at least in part.
  int64_t filled(int64_t from, int64_t depth) const {
    return (elements(from, depth) + scheme.parts - 1) / scheme.parts;
  }
  int64_t packed_rows(int64_t rows) const {
    return scheme.step == 1 ? rows : rounded(rows, kMatrixRows);
  }
};

// Packs rows of A in rows of words, `kPackedRow` apart.
int32_t pack_left(const Factors& f, int64_t row, int64_t rows, int64_t from, int64_t depth,
                  uint32_t* to) {
  constexpr int64_t kRow = kPackedRow<float>;
  const int64_t count = f.elements(from, depth), filled = f.filled(from, depth);
  const int64_t first = from * f.scheme.parts;
  if (!f.p.transpose_a) {
    const char* line = f.a + (row * f.p.a_row + first) * f.a_size;
    for (int64_t i = 0; i < rows; ++i, line += f.p.a_row * f.a_size) {
      f.scheme.left.line(line, count, to + i * kRow);
    }
  } else {
    const int64_t columns = f.scheme.columns, panel = filled * columns;
    const Scratch scratch(static_cast<size_t>(rounded(rows, columns) * filled) * sizeof(uint32_t));
    if (!scratch) return kOutOfMemory;
    uint32_t* panels = reinterpret_cast<uint32_t*>(scratch.bytes());
    f.scheme.left.panels(f.a + (first * f.p.a_row + row) * f.a_size, f.p.a_row, count, rows, panels,
                         panel);
    for (int64_t i = 0; i < rows; i += columns) {
      transpose_loop<2>()(panels + i / columns * panel, to + i * kRow, filled,
                          std::min(columns, rows - i), columns, kRow);
    }
  }
  for (int64_t i = 0; filled < depth && i < rows; ++i) {
    std::fill_n(to + i * kRow + filled, depth - filled, 0u);
  }
  return kDone;
}

// Packs columns of B in panels as wide as a tile, each of `depth` rows of words.
int32_t pack_right(const Factors& f, int64_t column, int64_t columns, int64_t from, int64_t depth,
                   uint32_t* to) {
  const int64_t count = f.elements(from, depth), filled = f.filled(from, depth);
  const int64_t first = from * f.scheme.parts, width = f.scheme.columns, panel = depth * width;
  if (!f.p.transpose_b) {
    f.scheme.right.panels(f.b + (first * f.p.b_row + column) * f.b_size, f.p.b_row, count, columns,
                          to, panel);
  } else {
    constexpr int64_t kRow = kPackedRow<float>;
    const Scratch scratch(static_cast<size_t>(width * kRow) * sizeof(uint32_t));
    if (!scratch) return kOutOfMemory;
    uint32_t* lines = reinterpret_cast<uint32_t*>(scratch.bytes());
    for (int64_t j = 0; j < columns; j += width) {
      const int64_t some = std::min(width, columns - j);
      const char* line = f.b + ((column + j) * f.p.b_row + first) * f.b_size;
      for (int64_t i = 0; i < some; ++i, line += f.p.b_row * f.b_size) {
        f.scheme.right.line(line, count, lines + i * kRow);
      }
      uint32_t* at = to + j / width * panel;
      if (some < width) std::fill_n(at, panel, 0u);
      transpose_loop<2>()(lines, at, some, filled, kRow, width);
    }
  }
  for (int64_t j = 0; filled < depth && j < columns; j += width) {
    std::fill_n(to + j / width * panel + filled * width, (depth - filled) * width, 0u);
  }
  return kDone;
}

TileBlock block_of(const Factors& f, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   int64_t from, int64_t depth, const uint32_t* a, const uint32_t* b) {
  TileBlock block{};
  block.rows = rows, block.columns = columns, block.depth = depth;
  block.a = a;
  block.b = b;
  block.b_row = f.scheme.columns;
  block.b_panel = depth * f.scheme.columns;
  block.c = f.c + row * f.p.c_row + column;
  block.c_row = f.p.c_row;
  block.add = f.p.accumulate || from > 0;
  return block;
}

// All rows are one block: each task packs its columns of B, which no other task reads.
int32_t multiply_flat(Call* call, const Factors& f) {
  const int64_t words = f.words(), most = std::min(words, kPackedDepth);
  const int64_t step = std::min(kOwnColumns, rounded(f.p.n, f.scheme.columns));
  const int64_t blocks = (f.p.n + step - 1) / step, work = f.p.m * step * f.p.k;
  const size_t a_words = static_cast<size_t>(f.packed_rows(f.p.m) * kPackedRow<float>);
  return over_blocks(
      call, blocks, (kTaskWork / kFewBlocks + work - 1) / work, [&](int64_t first, int64_t last) {
        Scratch scratch(Scratch::size_of<uint32_t>(a_words) +
                        Scratch::size_of<uint32_t>(static_cast<size_t>(most * step)));
        if (!scratch) return int32_t{kOutOfMemory};
        uint32_t* a = scratch.take<uint32_t>(a_words);
        uint32_t* b = scratch.take<uint32_t>(static_cast<size_t>(most * step));
        for (int64_t from = 0; from < words; from += kPackedDepth) {
          const int64_t depth = std::min(kPackedDepth, words - from);
          int32_t status = pack_left(f, 0, f.p.m, from, depth, a);
          for (int64_t i = first; i < last && status == kDone; ++i) {
            const int64_t column = i * step, columns = std::min(step, f.p.n - column);
            status = pack_right(f, column, columns, from, depth, b);
            f.scheme.run(block_of(f, 0, f.p.m, column, columns, from, depth, a, b));
          }
          if (status != kDone) return status;
        }
        return int32_t{kDone};
      });
}

// Few rows: B is not packed.
int32_t multiply_thin(Call* call, const Factors& f, RunTiles run) {
  const int64_t blocks = (f.p.n + kThinColumns - 1) / kThinColumns;
  const int64_t work = f.p.m * std::min(f.p.n, kThinColumns) * f.p.k;
  const size_t size = static_cast<size_t>(f.p.m * kPackedRow<float>) * sizeof(uint32_t);
  return over_blocks(
      call, blocks, (kTaskWork / kFewBlocks + work - 1) / work, [&](int64_t first, int64_t last) {
        const Scratch scratch(size);
        if (!scratch) return int32_t{kOutOfMemory};
        uint32_t* a = reinterpret_cast<uint32_t*>(scratch.bytes());
        const int64_t column = first * kThinColumns;
        const int64_t columns = std::min(f.p.n, last * kThinColumns) - column;
        for (int64_t from = 0; from < f.p.k; from += kPackedDepth) {
          const int64_t depth = std::min(kPackedDepth, f.p.k - from);
          const int32_t status = pack_left(f, 0, f.p.m, from, depth, a);
          if (status != kDone) return status;
          TileBlock block = block_of(f, 0, f.p.m, column, columns, from, depth, a, nullptr);
          block.b = f.b + (from * f.p.b_row + column) * f.b_size;
          block.b_row = f.p.b_row;
          run(block);
        }
        return int32_t{kDone};
      });
}

// The words of several depths of B, packed for all rows.
struct PackedDepths {
  int64_t from, words;
  uint32_t* panels;

  int64_t count() const { return (words + kPackedDepth - 1) / kPackedDepth; }
  int64_t depth(int64_t i) const { return std::min(kPackedDepth, words - i * kPackedDepth); }
};

int32_t pack_depths(Call* call, const Factors& f, const PackedDepths& packed, int64_t width) {
  constexpr int64_t kGroup = 256, kPackedTask = 1 << 15;
  const int64_t groups = (f.p.n + kGroup - 1) / kGroup;
  const int64_t each = std::min(width, kGroup) * std::min(packed.words, kPackedDepth);
  return over_blocks(call, groups * packed.count(), (kPackedTask + each - 1) / each,
                     [&](int64_t first, int64_t last) {
                       int32_t status = kDone;
                       for (int64_t i = first; i < last && status == kDone; ++i) {
                         const int64_t chunk = i % packed.count(), depth = packed.depth(chunk);
                         const int64_t column = i / packed.count() * kGroup;
                         uint32_t* to = packed.panels + chunk * kPackedDepth * width;
                         status = pack_right(f, column, std::min(kGroup, f.p.n - column),
                                             packed.from + chunk * kPackedDepth, depth,
                                             to + column * depth);
                       }
                       return status;
                     });
}

// A block of rows and columns of C, whose rows of A are packed here.
int32_t multiply_block(const Factors& f, const PackedDepths& packed, int64_t width, int64_t row,
                       int64_t rows, int64_t column, int64_t columns) {
  const int64_t a_block = f.packed_rows(rows) * kPackedRow<float>;
  const Scratch scratch(static_cast<size_t>(packed.count() * a_block) * sizeof(uint32_t));
  if (!scratch) return kOutOfMemory;
  uint32_t* a = reinterpret_cast<uint32_t*>(scratch.bytes());
  for (int64_t i = 0; i < packed.count(); ++i) {
    const int64_t from = packed.from + i * kPackedDepth;
    const int32_t status = pack_left(f, row, rows, from, packed.depth(i), a + i * a_block);
    if (status != kDone) return status;
  }
  for (int64_t j = column; j < column + columns; j += kColumnStep) {
    for (int64_t i = 0; i < packed.count(); ++i) {
      const int64_t depth = packed.depth(i);
      const uint32_t* b = packed.panels + i * kPackedDepth * width + j * depth;
      f.scheme.run(block_of(f, row, rows, j, std::min(kColumnStep, column + columns - j),
                            packed.from + i * kPackedDepth, depth, a + i * a_block, b));
    }
  }
  return kDone;
}

int32_t multiply_one(Call* call, const Factors& f) {
  if (f.thin != nullptr) return multiply_thin(call, f, f.thin);
  if (f.p.m <= f.scheme.most_rows) return multiply_flat(call, f);
  const int64_t width = rounded(f.p.n, f.scheme.columns), words = f.words();
  const int64_t most = std::min(words, kDepths * kPackedDepth);
  const Scratch scratch(static_cast<size_t>(most * width) * sizeof(uint32_t));
  if (!scratch) return kOutOfMemory;
  int64_t row_blocks = (f.p.m + f.scheme.most_rows - 1) / f.scheme.most_rows;
  const int64_t rows = rounded((f.p.m + row_blocks - 1) / row_blocks, 16);
  row_blocks = (f.p.m + rows - 1) / rows;
  int64_t columns = f.p.n;
  if (row_blocks < kFewBlocks) {
    columns = std::min(columns, rounded(f.p.n * row_blocks / kFewBlocks + 1, kColumnStep));
  }
  const int64_t column_blocks = (f.p.n + columns - 1) / columns;
  for (int64_t from = 0; from < words; from += most) {
    const PackedDepths packed{from, std::min(most, words - from),
                              reinterpret_cast<uint32_t*>(scratch.bytes())};
    int32_t status = pack_depths(call, f, packed, width);
    if (status != kDone) return status;
    const int64_t work = std::max<int64_t>(1, rows * columns * packed.words);
    status = over_blocks(call, row_blocks * column_blocks, (kTaskWork + work - 1) / work,
                         [&](int64_t first, int64_t last) {
                           int32_t failed = kDone;
                           for (int64_t i = first; i < last && failed == kDone; ++i) {
                             const int64_t row = i / column_blocks * rows;
                             const int64_t column = i % column_blocks * columns;
                             failed =
                                 multiply_block(f, packed, width, row, std::min(rows, f.p.m - row),
                                                column, std::min(columns, f.p.n - column));
                           }
                           return failed;
                         });
    if (status != kDone) return status;
  }
  return kDone;
}

constexpr int64_t size_of(Narrow type) { return type == kSingle ? 4 : is_integer(type) ? 1 : 2; }

// kiln_gemm_A_B: C = op(A) op(B), or C += op(A) op(B), with the numbers of kiln_gemm_f32. A and B
// are of f32, bf16, f16, i8 or u8, in any combination but f32 with f32. C is of i32 if both are
// integers, which wrap around, else of f32: operands are converted, exactly. The last number has 4
// if AMX, and 8 if VNNI may not be used.
template <Narrow kA, Narrow kB>
int32_t gemm_narrow(Call* call, void* const* buffers, const int64_t* numbers) {
  const Product p = folded(Product::of(numbers));
  if (p.batch == 0 || p.m == 0 || p.n == 0) return kDone;
  uint32_t* c = static_cast<uint32_t*>(buffers[2]);
  if (p.k == 0) {
    for (int64_t i = 0; !p.accumulate && i < p.batch; ++i) {
      std::fill_n(c + i * p.c_step, p.m * p.n, 0u);
    }
    return kDone;
  }
  const Allowed allowed{(numbers[9] & kNoMatrices) == 0, (numbers[9] & kNoBytes) == 0};
  Scheme scheme = scheme_of(kA, kB, allowed);
  RunTiles thin = nullptr;
  // AMX adds in another order.
  const bool has_order = !p.in_order || scheme.step == 1;
  if (p.m <= kThinRows && !p.transpose_b && has_order && !(is_integer(kA) && is_integer(kB))) {
    thin = word_loops().run_thin[kB];
    if (thin != nullptr) scheme = in_floats(kA, kB);
  }
  const auto one = [&](Call* inner, int64_t i) {
    const char *a = static_cast<const char*>(buffers[0]), *b = static_cast<const char*>(buffers[1]);
    return multiply_one(inner,
                        {p, scheme, a + i * p.a_step * size_of(kA), b + i * p.b_step * size_of(kB),
                         size_of(kA), size_of(kB), c + i * p.c_step, thin});
  };
  const int64_t work = p.m * p.n * p.k;
  if (p.batch == 1 || (work >= kItemWork && p.batch < kFewBlocks)) {
    Call* shared = work < 2 * kTaskWork ? nullptr : call;
    int32_t status = kDone;
    for (int64_t i = 0; i < p.batch && status == kDone; ++i) status = one(shared, i);
    return status;
  }
  return over_blocks(call, p.batch, (kTaskWork + work - 1) / work,
                     [&](int64_t first, int64_t last) {
                       int32_t status = kDone;
                       for (int64_t i = first; i < last && status == kDone; ++i) {
                         status = one(nullptr, i);
                       }
                       return status;
                     });
}

}  // namespace

#define KILN_WITH(A, a)                                              \
  KILN_KERNEL_SYMBOL("kiln_gemm_" a "_bf16", gemm_narrow<A, kBrain>) \
  KILN_KERNEL_SYMBOL("kiln_gemm_" a "_f16", gemm_narrow<A, kHalf>)   \
  KILN_KERNEL_SYMBOL("kiln_gemm_" a "_i8", gemm_narrow<A, kSigned>)  \
  KILN_KERNEL_SYMBOL("kiln_gemm_" a "_u8", gemm_narrow<A, kUnsigned>)

KILN_WITH(kSingle, "f32")
KILN_WITH(kBrain, "bf16")
KILN_WITH(kHalf, "f16")
KILN_WITH(kSigned, "i8")
KILN_WITH(kUnsigned, "u8")
KILN_KERNEL_SYMBOL("kiln_gemm_bf16_f32", gemm_narrow<kBrain, kSingle>)
KILN_KERNEL_SYMBOL("kiln_gemm_f16_f32", gemm_narrow<kHalf, kSingle>)
KILN_KERNEL_SYMBOL("kiln_gemm_i8_f32", gemm_narrow<kSigned, kSingle>)
KILN_KERNEL_SYMBOL("kiln_gemm_u8_f32", gemm_narrow<kUnsigned, kSingle>)

}  // namespace kiln
