// Convolutions without a patch matrix. The operand is copied once, with its padding. Positions are
// numbered along the copy: each kernel element then reads it at a fixed offset, and the sums are
// products of matrices of which one is a part of the copy. Results at positions beyond the end of
// an output line are discarded.
#include <algorithm>

#include "abi/split.h"
#include "linear/convolutions/convolution.h"
#include "linear/convolutions/copied.h"
#include "linear/convolutions/pieces.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kMostCopied = int64_t{1} << 24;  // elements
constexpr int64_t kLeastDepth = 8;
// Positions whose sums, for all features, are kept in the L2 cache at a time.
constexpr int64_t kSums = int64_t{1} << 15;
// The same, if an epilogue needs whole rows: what is packed is read by more features.
constexpr int64_t kSumsOfRows = int64_t{1} << 17;
// Positions are divided further if there are fewer tasks, each of at least this work.
constexpr int64_t kFewTasks = 4;
constexpr int64_t kTaskWork = int64_t{1} << 19;

template <typename T>
const TileLoops& tiles() {
  return tile_loops<T>();
}

// The kernel as rows of features, in chunks of `kPackedDepth` of its elements.
template <typename T>
int32_t pack_features(Call* call, const Copied& copied, const T* w, T* to) {
  const Convolution& c = copied.c;
  const TileLoops& code = tiles<T>();
  const int64_t features = c.rhs_size[0], channels = c.rhs_size[1], taps = copied.taps;
  const int64_t depth = channels * taps, chunk = features * kPackedRow<T>;
  bool is_line = true;  // whether the elements of a channel are contiguous
  for (int64_t tap = 0; tap < taps; ++tap) is_line = is_line && copied.kernel_place(tap) == tap;
  const bool is_row = is_line && (channels == 1 || c.rhs_step[1] == taps);
  const Scratch scratch(static_cast<size_t>(taps) * sizeof(int64_t));
  if (!scratch) return 1;
  int64_t* from_places = reinterpret_cast<int64_t*>(scratch.bytes());
  for (int64_t tap = 0; tap < taps; ++tap) from_places[tap] = copied.kernel_place(tap);
  // Few rows at a time: the same elements of all rows lie in few sets of the L1 cache.
  const int64_t rows = code.rows, blocks = (features + rows - 1) / rows;
  return over_blocks(call, blocks, kSums / (rows * depth) + 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * rows, end = std::min(features, begin + rows);
      const T* from = w + begin * c.rhs_step[0];
      T* row = to + begin * kPackedRow<T>;
      for (int64_t k = 0; is_row && k < depth; k += kPackedDepth, row += chunk) {
        code.pack_rows(from + k, c.rhs_step[0], end - begin, std::min(kPackedDepth, depth - k),
                       row);
      }
      for (int64_t k = 0; !is_row && k < depth; k += taps, from += c.rhs_step[1]) {
        T* into = row + k / kPackedDepth * chunk + k % kPackedDepth;
        if (is_line && taps <= kPackedDepth - k % kPackedDepth) {
          code.pack_rows(from, c.rhs_step[0], end - begin, taps, into);
          continue;
        }
        for (int64_t f = 0; f < end - begin; ++f) {
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t at = k + tap;
            row[at / kPackedDepth * chunk + f * kPackedRow<T> + at % kPackedDepth] =
                from[f * c.rhs_step[0] + from_places[tap]];
          }
        }
      }
    }
    return 0;
  });
}

// A convolution whose features are rows, and positions columns: neighbors in the result are
// neighbors in space.
template <typename T>
struct Planes {
  Convolution c;
  const Copied& copied;
  const Epilogue* after;
  const TileLoops& code = tiles<T>();
  int64_t features, channels, depth;  // of a group
  int64_t image = 0, plane = 0;       // steps of the copy
  const T* copy = nullptr;
  const T* kernel = nullptr;
  const int64_t* places = nullptr;
  bool packs;     // positions are copied to panels
  bool by_lines;  // lines of whole tiles are computed in place
  bool is_kept;   // the positions of all images are numbered together, without those discarded
  bool in_place;  // there are no sums to copy
  int64_t items, unit, block, blocks;  // a block is a part of a unit, or several images
  int64_t rows, row_blocks;

  Planes(const Copied& of, const Epilogue* epilogue) : c(of.c), copied(of), after(epilogue) {
    const int64_t columns = code.columns, length = c.out_size[c.space + 1];
    features = c.rhs_size[0] / c.feature_groups, channels = c.rhs_size[1];
    depth = channels * copied.taps;
    const bool is_whole = length % columns == 0 && c.out_step[c.space + 1] == 1;
    packs = packs_positions(copied, columns, features);
    by_lines = !packs && is_whole;
    is_kept = packs || by_lines;
    in_place = by_lines || (packs && copied.is_dense() && copied.kept % columns == 0);
    rows = features;
    const int64_t most = std::max<int64_t>(4, kSums / features / columns) * columns;
    const int64_t batch = c.out_size[0], single = batch * c.feature_groups;
    const int64_t all = batch * copied.kept * c.rhs_size[0] * depth;
    const int64_t tasks = std::clamp<int64_t>(all / kTaskWork, 1, kFewTasks);
    unit = is_kept ? copied.kept : copied.positions;
    items = batch;
    if (epilogue != nullptr && epilogue->is_of_rows) {
      block = unit;
      rows = std::clamp<int64_t>((single < kFewTasks ? kSums : kSumsOfRows) / unit,
                                 std::min(code.rows, features), features);
    } else if (is_kept && unit <= most && single >= tasks) {
      const int64_t least = (tasks + c.feature_groups - 1) / c.feature_groups;
      const int64_t groups = std::max((batch * unit + most - 1) / most, least);
      const int64_t images = (batch + groups - 1) / groups;
      items = (batch + images - 1) / images;
      unit *= images;
      block = unit;
    } else {
      const int64_t parts = std::max((unit + most - 1) / most, (tasks + single - 1) / single);
      block = ((unit + parts - 1) / parts + columns - 1) / columns * columns;
    }
    blocks = (unit + block - 1) / block;
    row_blocks = (features + rows - 1) / rows;
  }
  int64_t count() const { return items * c.feature_groups * blocks * row_blocks; }
  int64_t work() const { return rows * block * depth; }
  // The step of rows of sums: panels are as wide as tiles.
  int64_t sums_row() const { return (block + code.columns - 1) / code.columns * code.columns; }

  [[nodiscard]] int32_t run(T* out, int64_t first, int64_t last) const;

 private:
  void multiply(const Piece* pieces, int64_t count, const T* from, int64_t begin, int64_t end,
                int64_t first_row, int64_t many, T* panels, T* sums, T* to, int64_t to_image,
                int64_t to_row) const;
  [[nodiscard]] int32_t finish(T* to, int64_t to_row, int64_t row, int64_t many, int64_t column,
                               int64_t end) const;
};

// Writes the sums of `many` features at positions `begin` to `end`, which are `pieces`. The first
// feature of the first image is at `to`, with the steps `to_image` and `to_row`; places of pieces
// are relative to it.
template <typename T>
void Planes<T>::multiply(const Piece* pieces, int64_t count, const T* from, int64_t begin,
                         int64_t end, int64_t first_row, int64_t many, T* panels, T* sums, T* to,
                         int64_t to_image, int64_t to_row) const {
  TileBlock tile{};
  tile.rows = many;
  for (int64_t k = 0; k < depth; k += kPackedDepth) {
    tile.depth = std::min(kPackedDepth, depth - k);
    tile.a = kernel + (k / kPackedDepth * c.rhs_size[0] + first_row) * kPackedRow<T>;
    tile.add = k > 0;
    tile.c = sums;
    tile.c_row = sums_row();
    if (by_lines) {
      tile.b_rows = places + k;
      tile.b_panel = code.columns;
      tile.c_row = to_row;
      for (int64_t p = 0; p < count; ++p) {
        tile.columns = pieces[p].count;
        tile.b = from + pieces[p].place;
        tile.c = to + pieces[p].to;
        tiles_at_rows<T>()(tile);
      }
      continue;
    }
    if (!packs) {
      tile.columns = (end - begin + code.columns - 1) / code.columns * code.columns;
      tile.b_rows = places + k;
      tile.b_panel = code.columns;
      tile.b = from + begin;
      tiles_at_rows<T>()(tile);
      continue;
    }
    tile.b_row = code.columns;
    tile.b_panel = tile.depth * code.columns;
    pack_positions(from, places + k, tile.depth, pieces, count, code.columns, panels);
    if (!in_place) {
      tile.columns = end - begin;
      tile.b = panels;
      code.run(tile);
      continue;
    }
    tile.c_row = to_row;
    for (int64_t position = begin; position < end; position += tile.columns) {
      const int64_t at = position % copied.kept;
      tile.columns = std::min(copied.kept - at, end - position);
      tile.b = panels + (position - begin) / code.columns * tile.b_panel;
      tile.c = to + (position / copied.kept - begin / copied.kept) * to_image + at;
      code.run(tile);
    }
  }
  if (!in_place) write_pieces(c, pieces, count, sums, sums_row(), many, to_row, to);
}

// Runs the epilogue on a part of the rows and columns of the result, whose first element is at
// `to`.
template <typename T>
int32_t Planes<T>::finish(T* to, int64_t to_row, int64_t row, int64_t many, int64_t column,
                          int64_t end) const {
  if (to_row == after->columns) return after->run(to, row, row + many, column, end);
  for (int64_t i = 0; i < many; ++i) {
    const int32_t status = after->run(to + i * to_row, row + i, row + i + 1, column, end);
    if (status != 0) return status;
  }
  return 0;
}

// Computes some blocks. If the result is null, the blocks are scratch memory, which the epilogue
// reads.
template <typename T>
int32_t Planes<T>::run(T* out, int64_t first, int64_t last) const {
  const int64_t images = std::max<int64_t>(1, block / copied.kept);
  // A block of whole images has the rows of the result; else they end with the block.
  const int64_t held_row = block < unit ? block : copied.kept, held_image = rows * held_row;
  const auto sums_size = static_cast<size_t>(in_place ? 0 : rows * sums_row());
  const auto held_size = static_cast<size_t>(out == nullptr ? images * held_image : 0);
  // Copies of 32 bytes exceed the last row.
  const auto panels_size = static_cast<size_t>(packs ? kPackedDepth * sums_row() + kGranule<T> : 0);
  const auto most_pieces = static_cast<size_t>(block + 1);
  Scratch scratch(Scratch::size_of<T>(sums_size) + Scratch::size_of<T>(held_size) +
                  Scratch::size_of<T>(panels_size) + Scratch::size_of<Piece>(most_pieces));
  if (!scratch) return 1;
  T *sums = scratch.take<T>(sums_size), *held = scratch.take<T>(held_size);
  T* panels = scratch.take<T>(panels_size);
  Piece* pieces = scratch.take<Piece>(most_pieces);
  for (int64_t i = first; i < last; ++i) {
    const int64_t part = i % row_blocks * rows, many = std::min(rows, features - part);
    const int64_t group = i / row_blocks / blocks % c.feature_groups;
    const int64_t item = i / row_blocks / blocks / c.feature_groups;
    const int64_t start = i / row_blocks % blocks * block;
    int64_t begin = start, end = std::min(unit, start + block), at_image = item;
    if (is_kept) {
      begin += item * unit;
      end = std::min(end + item * unit, c.out_size[0] * copied.kept);
      at_image = begin / copied.kept;
    }
    if (begin >= end) continue;
    // The kept positions of all images are numbered together.
    const T* from = copy + (is_kept ? 0 : item * image) + group * channels * plane;
    const int64_t columns = by_lines ? block : code.columns;
    const int64_t to_image = out == nullptr ? held_image : c.out_step[0];
    const int64_t to_row = out == nullptr ? held_row : c.out_step[1];
    const int64_t count = is_kept ? find_kept(copied, image, begin, end, columns, to_image, pieces)
                                  : find_pieces(copied, begin, end, pieces);
    if (count == 0) continue;
    // The columns of the first image, and all of them.
    int64_t column = is_kept ? begin % copied.kept : pieces[0].to;
    const Piece& end_piece = pieces[count - 1];
    const int64_t left = is_kept ? end - begin : end_piece.to + end_piece.count - column;
    const int64_t row = group * features + part;
    T* to = out == nullptr ? held - (block < unit ? column : 0)
                           : out + at_image * to_image + row * to_row;
    multiply(pieces, count, from, begin, end, row, many, panels, sums, to, to_image, to_row);
    for (int64_t done = 0; after != nullptr && done < left; ++at_image, to += to_image) {
      const int64_t until = std::min(copied.kept, column + left - done);
      const int64_t of_result = at_image * c.rhs_size[0] + row;
      const int32_t status = finish(to + column, to_row, of_result, many, column, until);
      if (status != 0) return status;
      done += until - column;
      column = 0;
    }
  }
  return 0;
}

}  // namespace

template <typename T>
int32_t convolve_planes(Call* call, const Convolution& c, const T* x, const T* w, T* out,
                        const Epilogue* after) {
  const Copied copied(c);
  Planes<T> planes(copied, after);
  const int64_t batch = c.out_size[0], depth = planes.depth;
  const int64_t plane = copied.size(), image = c.lhs_size[1] * plane;
  const int64_t chunks = (depth + kPackedDepth - 1) / kPackedDepth;
  const auto kernel_size = static_cast<size_t>(c.rhs_size[0] * chunks * kPackedRow<T>);
  const int64_t slack = 2 * planes.code.columns;
  const auto copy_size = static_cast<size_t>(batch * image + slack);
  Scratch scratch(Scratch::size_of<T>(copy_size) + Scratch::size_of<T>(kernel_size) +
                  Scratch::size_of<int64_t>(static_cast<size_t>(depth)));
  if (!scratch) return 1;
  T *copy = scratch.take<T>(copy_size), *kernel = scratch.take<T>(kernel_size);
  int64_t* places = scratch.take<int64_t>(static_cast<size_t>(depth));
  planes.copy = copy;
  planes.plane = plane;
  planes.image = image;
  std::fill_n(copy + batch * image, slack, T(0));
  int32_t status =
      over_blocks(call, batch * c.lhs_size[1], kSums / plane + 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t item = i / c.lhs_size[1], channel = i % c.lhs_size[1];
          copy_image(copied, x + item * c.lhs_step[0] + channel * c.lhs_step[1], copy + i * plane);
        }
        return 0;
      });
  if (status != 0) return status;
  status = pack_features(call, copied, w, kernel);
  if (status != 0) return status;
  for (int64_t k = 0; k < depth; ++k) {
    places[k] = k / copied.taps * planes.plane + copied.place(k % copied.taps);
  }
  planes.kernel = kernel;
  planes.places = places;
  const int64_t work = planes.work();
  return over_blocks(call, planes.count(), (kTaskWork + work - 1) / work,
                     [&](Call* own, int64_t first, int64_t last) {
                       if (after == nullptr) return planes.run(out, first, last);
                       const Epilogue mine = after->on(own);
                       Planes<T> of_thread = planes;
                       of_thread.after = &mine;
                       return of_thread.run(out, first, last);
                     });
}

bool has_planes(const Convolution& c) {
  const int last = c.space + 1;
  if (c.space < 1 || c.batch_groups != 1) return false;
  int64_t copied = c.lhs_size[0] * c.lhs_size[1], taps = 1, places = 1, kept = 1;
  for (int d = 0; d < c.space; ++d) {
    const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
    const int64_t extent = c.out_size[d + 2] + reach / c.stride[d];
    copied *= extent * std::min(c.stride[d], reach + 1);
    places *= d == 0 ? c.out_size[2] : extent;
    kept *= c.out_size[d + 2];
    taps *= c.rhs_size[d + 2];
  }
  // By a kernel of one element the operand is a matrix in place.
  if (taps == 1 || taps * c.rhs_size[1] < kLeastDepth || copied > kMostCopied) return false;
  // Only if little of the work is discarded.
  const bool is_first = c.out_step[last] == 1 || c.out_step[last] < c.out_step[1];
  return c.lhs_step[last] == 1 && is_first && kept * 4 >= places * 3;
}

#define KILN_INSTANTIATE(T)                                                              \
  template int32_t convolve_planes<T>(Call*, const Convolution&, const T*, const T*, T*, \
                                      const Epilogue*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
