#include "linear/products/blocked.h"

#include <algorithm>

#include "abi/split.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// The least multiplications per task: about ten microseconds.
constexpr int64_t kTaskWork = int64_t{1} << 20;
// Products of a batch with less work than this are not split.
constexpr int64_t kItemWork = int64_t{1} << 22;
// Rows of A that are packed at a time: they fit in the L2 cache.
constexpr int64_t kMostRows = 144;
constexpr int64_t kFewestRows = 48;
// B is read in place with no more rows than these: of a large B, of one that stays in the L2 cache,
// of one that is smaller still. Packing takes longer there than what the tiles gain.
constexpr int64_t kRowsInPlace = 16;
constexpr int64_t kLocalRows = 31;
constexpr int64_t kLocalBytes = 1 << 20;
constexpr int64_t kNearRows = 56;
constexpr int64_t kNearBytes = 1 << 19;
// With up to this many rows, a block of columns packs a few panels of B and multiplies by them
// while they are in the L2 cache: a whole packed B would be written to memory and read from there.
constexpr int64_t kOwnRows = 576;
constexpr int64_t kOwnPanels = 4;
// Rows that are a multiple of this apart collide.
constexpr int64_t kCollidingBytes = 1 << 12;
// A transposed A is read in place if it has no more bytes: a step to the next column is a large
// stride.
constexpr int64_t kTransposedBytes = 1 << 16;
// A B of no more bytes stays in the L2 cache.
constexpr int64_t kHeldBytes = 1 << 21;
// Blocks of columns, if there are few rows.
constexpr int64_t kColumnStep = 256;
constexpr int64_t kFewBlocks = 8;
// A B of no more bytes stays in the L2 cache of each thread, beside other matrices of a loop. Then
// each computes rows, at least so many: it finds what it wrote of the operand in its own cache.
constexpr int64_t kSharedBytes = 1 << 20;
constexpr int64_t kLeastShare = 8;
// The number of tasks of a product, if each has work enough.
constexpr int64_t kTasks = 16;
// A block that an epilogue reads: it is still in the L2 cache.
constexpr int64_t kBlockBytes = 1 << 19;

template <typename T>
const TileLoops& tiles() {
  return tile_loops<T>();
}

// Multiplications that take as long as a product: with few rows, reading B takes as long as with
// `kReadRows`.
constexpr int64_t kReadRows = 16;
constexpr int64_t cost(int64_t m, int64_t n, int64_t k) { return std::max(m, kReadRows) * n * k; }

constexpr int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }
constexpr int64_t rounded(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Whether tiles read A in place: packing takes longer than what it gains, unless many rows collide
// in few sets of the L1 cache.
template <typename T>
bool is_left_in_place(const Product& p) {
  const int64_t row = p.a_row * static_cast<int64_t>(sizeof(T));
  if (p.transpose_a) return p.k <= kPackedDepth && p.k * row <= kTransposedBytes;
  return p.m <= kMostRows || row % kCollidingBytes != 0;
}

template <typename T>
void pack_a(const Product& p, const T* a, int64_t rows, int64_t depth, T* to) {
  if (p.transpose_a) {
    transpose_loop<sizeof(T) == 8 ? 3 : 2>()(a, to, depth, rows, p.a_row, kPackedRow<T>);
    return;
  }
  tiles<T>().pack_rows(a, p.a_row, rows, depth, to);
}

// Writes rows of B into panels, `panel` elements apart.
template <typename T>
void pack_b(const Product& p, const T* b, int64_t first_row, int64_t rows, int64_t columns, T* to,
            int64_t panel) {
  const TileLoops& code = tiles<T>();
  if (!p.transpose_b) {
    code.pack(b + first_row * p.b_row, p.b_row, rows, columns, to, panel);
    return;
  }
  for (int64_t j = 0; j < columns; j += code.columns, to += panel) {
    const int64_t width = std::min(code.columns, columns - j);
    if (width < code.columns) std::fill_n(to, rows * code.columns, T(0));
    transpose_loop<sizeof(T) == 8 ? 3 : 2>()(b + j * p.b_row + first_row, to, width, rows, p.b_row,
                                             code.columns);
  }
}

// The location of B: packed, or in place except for the columns that fill no panel. If `unpacked`
// is not null, it is B, and each block of columns packs its part.
template <typename T>
struct Right {
  const T* whole;
  int64_t row, panel;
  const T* last;
  const T* unpacked;
};

// A block of C: `c` is the address of its first element, `row` its first row in the whole batch.
template <typename T>
int32_t multiply_rows(const Product& p, const T* a, const Right<T>& right, T* c, int64_t row,
                      int64_t rows, int64_t first_column, int64_t columns, const Epilogue* after) {
  const TileLoops& code = tiles<T>();
  const bool in_place = is_left_in_place<T>(p);
  const bool packs = right.unpacked != nullptr;
  const int64_t own_step = after == nullptr ? kOwnPanels * code.columns : kColumnStep;
  const size_t packed_rows = in_place ? 0 : static_cast<size_t>(rows * kPackedRow<T>);
  const int64_t widest = std::min(own_step, rounded(columns, code.columns));
  const size_t packed_panels =
      packs ? static_cast<size_t>(widest * std::min(kPackedDepth, p.k)) : 0;
  Scratch scratch(Scratch::size_of<T>(packed_rows) + Scratch::size_of<T>(packed_panels));
  const size_t spread = c == nullptr ? static_cast<size_t>((rows - 1) * p.c_row + columns) : 0;
  const Scratch own(spread * sizeof(T));
  if (!scratch || !own) return kOutOfMemory;
  if (c == nullptr) c = reinterpret_cast<T*>(own.bytes());
  T* const packed = scratch.take<T>(packed_rows);
  T* const panels = scratch.take<T>(packed_panels);
  const int64_t whole = right.last == nullptr
                            ? columns
                            : (first_column + columns) / code.columns * code.columns - first_column;
  for (int64_t from = 0; from < p.k; from += kPackedDepth) {
    TileBlock block{};
    block.rows = rows;
    block.depth = std::min(kPackedDepth, p.k - from);
    block.c_row = p.c_row;
    block.add = p.accumulate || from > 0;
    const T* left = a + from * (p.transpose_a ? p.a_row : 1);
    if (in_place) {
      block.a = left;
      block.a_row = p.transpose_a ? 1 : p.a_row;
      block.a_column = p.transpose_a ? p.a_row : 1;
    } else {
      block.a = packed;
      pack_a(p, left, rows, block.depth, packed);
    }
    const bool is_last = after != nullptr && from + block.depth == p.k;
    const int64_t step = packs ? own_step : is_last && !after->is_of_rows ? kColumnStep : columns;
    for (int64_t column = 0; column < columns; column += step) {
      const int64_t end = std::min(columns, column + step);
      block.columns = std::min(whole, end) - column;
      block.b_row = right.row;
      block.c = c + column;
      if (packs) {
        const int64_t first = first_column + column;
        block.b = panels;
        block.b_panel = block.depth * code.columns;
        pack_b(p, right.unpacked + first * (p.transpose_b ? p.b_row : 1), from, block.depth,
               block.columns, panels, block.b_panel);
      } else {
        block.b =
            right.whole + (first_column + column) / code.columns * right.panel + from * right.row;
        block.b_panel = right.panel;
      }
      if (block.columns > 0) code.run(block);
      if (whole < end) {
        block.columns = end - whole;
        block.b = right.last + from * code.columns;
        block.b_row = code.columns;
        block.c = c + whole;
        code.run(block);
      }
      if (!is_last) continue;
      const int32_t status =
          after->run(c + column, row, row + rows, first_column + column, first_column + end);
      if (status != kDone) return status;
    }
  }
  return kDone;
}

// One matrix of the batch, whose first row is number `first_row` of all.
template <typename T>
int32_t multiply_one(Call* call, const Product& p, const T* a, const T* b, T* c, int64_t first_row,
                     const Epilogue* after) {
  const TileLoops& code = tiles<T>();
  const int64_t panel = p.k * code.columns, panels = (p.n + code.columns - 1) / code.columns;
  const int64_t b_bytes = p.k * p.b_row * static_cast<int64_t>(sizeof(T));
  const int64_t most_in_place = b_bytes <= kNearBytes    ? kNearRows
                                : b_bytes <= kLocalBytes ? kLocalRows
                                                         : kRowsInPlace;
  const bool in_place = !p.packed_b && !p.transpose_b && p.m <= most_in_place;
  const bool has_rest = !code.is_masked && p.n % code.columns != 0;
  if (call == nullptr && after == nullptr && in_place && !has_rest && p.m <= kMostRows &&
      p.k <= kPackedDepth && is_left_in_place<T>(p)) {
    // Nothing to pack: scratch memory and blocks would take as long as a small product.
    TileBlock block{};
    block.rows = p.m, block.columns = p.n, block.depth = p.k;
    block.a = a;
    block.a_row = p.transpose_a ? 1 : p.a_row;
    block.a_column = p.transpose_a ? p.a_row : 1;
    block.b = b;
    block.b_row = p.b_row;
    block.b_panel = code.columns;
    block.c = c;
    block.c_row = p.c_row;
    block.add = p.accumulate;
    code.run(block);
    return kDone;
  }
  const bool is_whole = after != nullptr && after->is_of_rows;
  // Fewer columns are not enough blocks for the threads.
  const bool by_columns =
      !in_place && p.m <= kOwnRows && !is_whole && (call == nullptr || p.n >= kColumnStep);
  const bool packs_own = by_columns && !p.packed_b;
  const int64_t packed_panels = in_place ? has_rest : packs_own || p.packed_b ? 0 : panels;
  const Scratch scratch(static_cast<size_t>(packed_panels * panel) * sizeof(T));
  if (!scratch) return 1;
  T* packed = reinterpret_cast<T*>(scratch.bytes());
  Right<T> right{packed, code.columns, panel, nullptr, packs_own ? b : nullptr};
  if (in_place) {
    right = {b, p.b_row, code.columns, has_rest ? packed : nullptr, nullptr};
    const int64_t rest = p.n % code.columns;
    if (has_rest) pack_b(p, b + p.n - rest, 0, p.k, rest, packed, panel);
  } else if (p.packed_b) {
    right.whole = b;
  } else if (!packs_own) {
    const int32_t status = pack_matrix(call, p, b, packed);
    if (status != kDone) return status;
  }
  // Packed rows stream from the L2 cache for each panel of B: they are few if B is there too.
  const bool is_streamed = p.k * p.n * static_cast<int64_t>(sizeof(T)) > kHeldBytes;
  const int64_t most_rows = by_columns                              ? kOwnRows
                            : is_streamed || is_left_in_place<T>(p) ? kMostRows
                                                                    : kFewestRows;
  int64_t row_blocks = (p.m + most_rows - 1) / most_rows;
  // An even number, so that threads have equal shares; a multiple of four if blocks are large or
  // many.
  if (row_blocks > 2 && call != nullptr)
    row_blocks = rounded(row_blocks, most_rows == kMostRows || row_blocks > kFewBlocks ? 4 : 2);
  int64_t rows = (p.m + row_blocks - 1) / row_blocks;
  if (is_whole) {
    const int64_t fit = kBlockBytes / (p.n * static_cast<int64_t>(sizeof(T)));
    const int64_t each = call == nullptr ? kMostRows : p.m / kFewBlocks;
    rows = std::clamp(std::min({rows, fit, each}) / code.rows * code.rows, kFewestRows, kMostRows);
    rows = std::min(rows, p.m);
    // An even number, so that threads have equal shares.
    if (call != nullptr && p.m > rows) rows = divided(p.m, rounded(divided(p.m, rows), 2));
  }
  const bool by_rows = p.is_repeated && call != nullptr && !is_whole && p.m >= 2 * kLeastShare &&
                       p.k * p.n * static_cast<int64_t>(sizeof(T)) <= kSharedBytes;
  if (by_rows) {
    // A power of two of blocks: threads have equal shares, of rows that they know.
    int64_t shares = 2;
    while (shares < kFewBlocks && 2 * shares * kLeastShare <= p.m) shares *= 2;
    rows = std::min(rows, divided(p.m, shares));
  }
  row_blocks = (p.m + rows - 1) / rows;
  int64_t columns = p.n;
  if (row_blocks < kFewBlocks && call != nullptr && !is_whole && !by_rows) {
    const int64_t tasks = std::min(kTasks, cost(p.m, p.n, p.k) / kTaskWork);
    const bool is_narrow = p.n < 4 * kColumnStep;
    const int64_t least = is_narrow || is_left_in_place<T>(p) ? kColumnStep / 2 : kColumnStep;
    int64_t blocks = std::clamp<int64_t>(p.n / least, 1, std::max<int64_t>(1, tasks / row_blocks));
    if (blocks > 2) blocks -= blocks % (blocks < 4 ? 2 : 4);
    columns = std::min(rounded((p.n + blocks - 1) / blocks, code.columns), p.n);
  }
  if (after != nullptr && !is_whole) {
    const int64_t most = kBlockBytes / (rows * static_cast<int64_t>(sizeof(T)));
    columns = std::min(columns, std::max(kColumnStep, most / kColumnStep * kColumnStep));
  }
  const int64_t column_blocks = (p.n + columns - 1) / columns;
  const int64_t work = std::max<int64_t>(1, cost(rows, columns, p.k));
  return over_blocks(call, row_blocks * column_blocks, (kTaskWork + work - 1) / work,
                     [&](Call* own, int64_t first, int64_t last) {
                       const Epilogue mine = after == nullptr ? Epilogue{} : after->on(own);
                       for (int64_t i = first; i < last; ++i) {
                         const int64_t row = i / column_blocks * rows,
                                       column = i % column_blocks * columns;
                         T* at = c == nullptr ? nullptr : c + row * p.c_row + column;
                         const int32_t status = multiply_rows(
                             p, a + row * (p.transpose_a ? 1 : p.a_row), right, at, first_row + row,
                             std::min(rows, p.m - row), column, std::min(columns, p.n - column),
                             after == nullptr ? nullptr : &mine);
                         if (status != kDone) return status;
                       }
                       return int32_t{kDone};
                     });
}

}  // namespace

template <typename T>
bool fits_blocks(const Product& p) {
  const int64_t columns = tiles<T>().columns;
  return p.k >= 4 && p.m >= 2 && 4 * p.n >= columns;
}

template <typename T>
int32_t pack_matrix(Call* call, const Product& p, const T* b, T* packed) {
  if (p.k == 0 || p.n == 0) return kDone;
  constexpr int64_t kPanels = 8, kPackedTask = 1 << 15;
  const int64_t width = tiles<T>().columns, panels = (p.n + width - 1) / width;
  const int64_t groups = (panels + kPanels - 1) / kPanels;
  const int64_t depths = (p.k + kPackedDepth - 1) / kPackedDepth;
  const int64_t each = std::min(panels, kPanels) * width * std::min(p.k, kPackedDepth);
  return over_blocks(
      call, groups * depths, (kPackedTask + each - 1) / each, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t from = i % depths * kPackedDepth, column = i / depths * kPanels * width;
          pack_b(p, b + column * (p.transpose_b ? p.b_row : 1), from,
                 std::min(kPackedDepth, p.k - from), std::min(kPanels * width, p.n - column),
                 packed + column * p.k + from * width, p.k * width);
        }
        return int32_t{kDone};
      });
}

template <typename T>
int32_t multiply_in_blocks(Call* call, const Product& p, const T* a, const T* b, T* c,
                           const Epilogue* after) {
  const int64_t work = cost(p.m, p.n, p.k);
  const auto one = [&](Call* inner, int64_t i, const Epilogue* mine) {
    T* at = c == nullptr ? nullptr : c + i * p.c_step;
    return multiply_one(inner, p, a + i * p.a_step, b + i * p.b_step, at, i * p.m, mine);
  };
  int32_t status = 0;
  // Threads that compute whole items find what they made of them before in their own caches.
  const bool is_even = p.batch >= kFewBlocks || p.batch % threads_of(call) == 0;
  if (p.batch == 1 || (work >= kItemWork && !is_even)) {
    Call* shared = work < 2 * kTaskWork ? nullptr : call;
    for (int64_t i = 0; i < p.batch && status == 0; ++i) status = one(shared, i, after);
    return status;
  }
  return over_blocks(call, p.batch, (kTaskWork + work - 1) / work,
                     [&](Call* own, int64_t first, int64_t last) {
                       const Epilogue mine = after == nullptr ? Epilogue{} : after->on(own);
                       int32_t failed = 0;
                       for (int64_t i = first; i < last && failed == 0; ++i) {
                         failed = one(nullptr, i, after == nullptr ? nullptr : &mine);
                       }
                       return failed;
                     });
}

#define KILN_INSTANTIATE(T)                                                             \
  template bool fits_blocks<T>(const Product&);                                         \
  template int32_t pack_matrix<T>(Call*, const Product&, const T*, T*);                 \
  template int32_t multiply_in_blocks<T>(Call*, const Product&, const T*, const T*, T*, \
                                         const Epilogue*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
