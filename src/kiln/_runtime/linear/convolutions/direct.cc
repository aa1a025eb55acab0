// Convolutions without a patch matrix. The operand is copied once, with its padding. Positions are
// numbered along the copy: each kernel element then reads it at a fixed offset, and the sums are
// products of matrices of which one is a part of the copy. Results at positions beyond the end of
// an output line are discarded.
#include <algorithm>
#include <cstring>

#include "abi/split.h"
#include "linear/convolutions/convolution.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kMostCopied = int64_t{1} << 24;  // elements
constexpr int64_t kLeastDepth = 8;
// Positions whose sums, for all features, are kept in the L2 cache at a time.
constexpr int64_t kSums = int64_t{1} << 15;
constexpr int64_t kTaskWork = int64_t{1} << 20;

// The layout of the copy of one image and one feature. With a stride, elements with the same
// remainder are contiguous, so that neighbors in the result are neighbors there.
struct Copied {
  const Convolution& c;
  int space;
  int64_t remainders = 1, part = 1, taps = 1, positions, kept = 1;
  int64_t extent[kMaxSpace], step[kMaxSpace];  // of the places of a remainder

  explicit Copied(const Convolution& given) : c(given), space(given.space) {
    positions = 1;
    for (int d = space - 1; d >= 0; --d) {
      const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
      extent[d] = c.out_size[d + 2] + reach / c.stride[d];
      step[d] = part;
      positions += (c.out_size[d + 2] - 1) * part;
      part *= extent[d];
      remainders *= std::min(c.stride[d], reach + 1);
      taps *= c.rhs_size[d + 2];
      kept *= c.out_size[d + 2];
    }
  }
  int64_t size() const { return remainders * part; }

  // Whether the positions of a feature are contiguous in the result.
  bool is_dense() const {
    int64_t dense = 1;
    for (int d = space - 1; d >= 0; --d) {
      if (c.out_size[d + 2] != 1 && c.out_step[d + 2] != dense) return false;
      dense *= c.out_size[d + 2];
    }
    return true;
  }

  // The offset that a kernel element reads for the first position.
  int64_t place(int64_t tap) const {
    int64_t remainder = 0, at = 0, all = 1;
    for (int d = space - 1; d >= 0; --d) {
      const int64_t length = c.rhs_size[d + 2], offset = tap % length * c.rhs_dilation[d];
      tap /= length;
      remainder += offset % c.stride[d] * all;
      all *= std::min(c.stride[d], (length - 1) * c.rhs_dilation[d] + 1);
      at += offset / c.stride[d] * step[d];
    }
    return remainder * part + at;
  }
  int64_t kernel_place(int64_t tap) const {
    int64_t at = 0;
    for (int d = space - 1; d >= 0; --d) {
      at += tap % c.rhs_size[d + 2] * c.rhs_step[d + 2];
      tap /= c.rhs_size[d + 2];
    }
    return at;
  }
};

// Lines of the last axis, of `item` elements a place; `step` counts elements.
template <typename T>
void copy_line(const T* from, int64_t size, int64_t step, int64_t first, int64_t stride,
               int64_t count, int64_t item, T* to) {
  const int64_t low =
      std::clamp<int64_t>(first >= 0 ? 0 : (-first + stride - 1) / stride, 0, count);
  const int64_t room = size - first;
  const int64_t high =
      std::clamp<int64_t>(room <= 0 ? 0 : (room + stride - 1) / stride, low, count);
  std::fill_n(to, low * item, T(0));
  const T* start = from + first * step;
  if (stride * step == item) {
    std::copy(start + low * item, start + high * item, to + low * item);
  } else {
    for (int64_t i = low; i < high; ++i) {
      for (int64_t k = 0; k < item; ++k) to[i * item + k] = start[i * stride * step + k];
    }
  }
  std::fill_n(to + high * item, (count - high) * item, T(0));
}

// Places of one image, `item` features together.
template <typename T>
void copy_image(const Copied& copied, const T* x, int64_t item, T* to) {
  const Convolution& c = copied.c;
  const int last = copied.space - 1;
  for (int64_t remainder = 0; remainder < copied.remainders; ++remainder) {
    int64_t begin[kMaxSpace], rest = remainder;
    for (int d = last; d >= 0; --d) {
      const int64_t reach = (c.rhs_size[d + 2] - 1) * c.rhs_dilation[d];
      const int64_t count = std::min(c.stride[d], reach + 1);
      begin[d] = rest % count - c.low[d];
      rest /= count;
    }
    const int64_t line = copied.extent[last];
    for (int64_t at = 0; at < copied.part; at += line, to += line * item) {
      const T* from = x;
      bool inside = true;
      for (int d = last - 1; d >= 0; --d) {
        const int64_t place = begin[d] + at / copied.step[d] % copied.extent[d] * c.stride[d];
        inside = inside && place >= 0 && place < c.lhs_size[d + 2];
        from += place * c.lhs_step[d + 2];
      }
      if (inside) {
        copy_line(from, c.lhs_size[last + 2], c.lhs_step[last + 2], begin[last], c.stride[last],
                  line, item, to);
      } else {
        std::fill_n(to, line * item, T(0));
      }
    }
  }
}

template <typename T>
const TileLoops& tiles() {
  return linear_loops().tiles[sizeof(T) == 8];
}

// The offset in the result of the line of positions that starts at `position`, without its last
// axis; false if there is no such line.
bool find_line(const Copied& copied, int64_t position, int64_t* to) {
  *to = 0;
  for (int d = 0; d < copied.space - 1; ++d) {
    const int64_t at = position / copied.step[d] % copied.extent[d];
    if (at >= copied.c.out_size[d + 2]) return false;
    *to += at * copied.c.out_step[d + 2];
  }
  return true;
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

// Positions of one line that are columns of a block: the first of them, its place in the copy
// without the kernel's, and its offset in the result of a feature.
struct Piece {
  int64_t column, place, to, count;
};

// The elements of 32 bytes, which are copied at a time.
template <typename T>
constexpr int64_t kGranule = 32 / static_cast<int64_t>(sizeof(T));

// Whether positions are copied to panels of their own, rather than computed with those beyond the
// ends of lines.
bool packs_positions(const Copied& copied, int64_t columns, int64_t features) {
  constexpr int64_t kCopy = 16;  // what copying costs, in features
  const int64_t all = (copied.positions + columns - 1) / columns;
  const int64_t kept = (copied.kept + columns - 1) / columns;
  return all * features > kept * (features + kCopy);
}

// The pieces of positions that are numbered along the copy.
int64_t find_pieces(const Copied& copied, int64_t begin, int64_t end, Piece* pieces) {
  const int64_t line = copied.extent[copied.space - 1];
  const int64_t length = copied.c.out_size[copied.space + 1];
  const int64_t step = copied.c.out_step[copied.space + 1];
  int64_t count = 0;
  for (int64_t start = begin / line * line; start < end; start += line) {
    int64_t to;
    const int64_t from = std::max(start, begin), until = std::min(start + length, end);
    if (from >= until || !find_line(copied, start, &to)) continue;
    pieces[count++] = {from - begin, from, to + (from - start) * step, until - from};
  }
  return count;
}

// The pieces of positions without those beyond the ends of lines. None crosses the end of a panel.
int64_t find_kept(const Copied& copied, int64_t image, int64_t begin, int64_t end, int64_t columns,
                  Piece* pieces) {
  const Convolution& c = copied.c;
  const int last = copied.space - 1;
  const int64_t length = c.out_size[last + 2];
  int64_t count = 0;
  for (int64_t position = begin; position < end;) {
    const int64_t column = position - begin, at = position % length;
    Piece piece{column, at, at * c.out_step[last + 2],
                std::min({length - at, end - position, columns - column % columns})};
    int64_t line = position / length;
    for (int d = last - 1; d >= 0; --d) {
      piece.place += line % c.out_size[d + 2] * copied.step[d];
      piece.to += line % c.out_size[d + 2] * c.out_step[d + 2];
      line /= c.out_size[d + 2];
    }
    piece.place += line * image;
    piece.to += line * c.out_step[0];
    position += piece.count;
    pieces[count++] = piece;
  }
  return count;
}

// Rows of panels: what each kernel element reads for the positions of the block.
template <typename T>
void pack_positions(const T* image, const int64_t* places, int64_t depth, const Piece* pieces,
                    int64_t count, int64_t columns, T* to) {
  for (int64_t i = 0; i < count;) {
    const int64_t panel = pieces[i].column / columns;
    int64_t next = i;
    while (next < count && pieces[next].column / columns == panel) ++next;
    T* row = to + panel * depth * columns;
    for (int64_t k = 0; k < depth; ++k, row += columns) {
      for (int64_t p = i; p < next; ++p) {
        const T* from = image + places[k] + pieces[p].place;
        T* into = row + pieces[p].column % columns;
        // What is copied too much is overwritten by the next piece, or by the next row.
        for (int64_t j = 0; j < pieces[p].count; j += kGranule<T>) {
          std::memcpy(into + j, from + j, kGranule<T> * sizeof(T));
        }
      }
    }
    i = next;
  }
}

template <typename T>
void write_pieces(const Convolution& c, const Piece* pieces, int64_t count, const T* sums,
                  int64_t sums_row, int64_t features, T* out) {
  const int64_t step = c.out_step[c.space + 1];
  for (int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces[i];
    for (int64_t f = 0; f < features; ++f) {
      const T* from = sums + f * sums_row + piece.column;
      T* to = out + piece.to + f * c.out_step[1];
      if (step == 1) {
        std::memcpy(to, from, static_cast<size_t>(piece.count) * sizeof(T));
      } else {
        for (int64_t p = 0; p < piece.count; ++p) to[p * step] = from[p];
      }
    }
  }
}

// Features are rows, positions columns: neighbors in the result are neighbors in space.
template <typename T>
int32_t by_planes(Call* call, const Copied& copied, const T* x, const T* w, T* out) {
  const Convolution& c = copied.c;
  const TileLoops& code = tiles<T>();
  const int64_t groups = c.feature_groups, channels = c.rhs_size[1];
  const int64_t features = c.rhs_size[0] / groups, depth = channels * copied.taps;
  const int64_t plane = copied.size(), batch = c.out_size[0];
  const int64_t chunks = (depth + kPackedDepth - 1) / kPackedDepth;
  const int64_t image = c.lhs_size[1] * plane, slack = 2 * code.columns;
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(batch * image + slack)) +
                  Scratch::size_of<T>(static_cast<size_t>(c.rhs_size[0] * chunks * kPackedRow<T>)) +
                  Scratch::size_of<int64_t>(static_cast<size_t>(depth)));
  if (!scratch) return 1;
  T* copy = scratch.take<T>(static_cast<size_t>(batch * image + slack));
  T* kernel = scratch.take<T>(static_cast<size_t>(c.rhs_size[0] * chunks * kPackedRow<T>));
  int64_t* places = scratch.take<int64_t>(static_cast<size_t>(depth));
  std::fill_n(copy + batch * image, slack, T(0));
  int32_t status =
      over_blocks(call, batch * c.lhs_size[1], kSums / plane + 1, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const int64_t item = i / c.lhs_size[1], channel = i % c.lhs_size[1];
          copy_image(copied, x + item * c.lhs_step[0] + channel * c.lhs_step[1], 1,
                     copy + i * plane);
        }
        return 0;
      });
  if (status != 0) return status;
  status = pack_features(call, copied, w, kernel);
  if (status != 0) return status;
  for (int64_t k = 0; k < depth; ++k) {
    places[k] = k / copied.taps * plane + copied.place(k % copied.taps);
  }
  const bool packs = packs_positions(copied, code.columns, features);
  // Lines of whole tiles are written in place.
  const int64_t length = c.out_size[copied.space + 1];
  const bool by_lines = !packs && length % code.columns == 0 && c.out_step[copied.space + 1] == 1;
  // Then, and if positions are copied to panels, those of all items are numbered together.
  const bool is_kept = packs || by_lines;
  const int64_t positions = is_kept ? batch * copied.kept : copied.positions;
  const int64_t items = is_kept ? 1 : batch;
  const int64_t step = by_lines ? length : code.columns;
  const int64_t most = std::max<int64_t>(4, kSums / features / code.columns) * code.columns;
  const int64_t blocks = (positions + most - 1) / most;
  const int64_t block = ((positions + blocks - 1) / blocks + step - 1) / step * step;
  const int64_t work = features * block * depth;
  const bool in_place = by_lines || (packs && copied.is_dense() && copied.kept % block == 0);
  const auto sums_size = static_cast<size_t>(in_place ? 0 : features * block);
  // Copies of 32 bytes exceed the last row.
  const auto panels_size = static_cast<size_t>(packs ? kPackedDepth * block + kGranule<T> : 0);
  return over_blocks(
      call, items * groups * blocks, (kTaskWork + work - 1) / work,
      [&](int64_t first, int64_t last) {
        Scratch held(Scratch::size_of<T>(sums_size) + Scratch::size_of<T>(panels_size) +
                     Scratch::size_of<Piece>(static_cast<size_t>(block)));
        if (!held) return 1;
        T *sums = held.take<T>(sums_size), *panels = held.take<T>(panels_size);
        Piece* pieces = held.take<Piece>(static_cast<size_t>(block));
        for (int64_t i = first; i < last; ++i) {
          const int64_t begin = i % blocks * block, group = i / blocks % groups;
          const int64_t item = i / blocks / groups;
          const int64_t end = std::min(positions, begin + block);
          if (begin >= end) continue;
          const int64_t count = is_kept ? find_kept(copied, image, begin, end, step, pieces)
                                        : find_pieces(copied, begin, end, pieces);
          const T* image_at = copy + item * image + group * channels * plane;
          T* to = out + item * c.out_step[0] + group * features * c.out_step[1];
          TileBlock tile{};
          tile.rows = features;
          tile.columns =
              packs ? end - begin : (end - begin + code.columns - 1) / code.columns * code.columns;
          tile.c = in_place ? to + pieces[0].to : sums;
          tile.c_row = in_place ? c.out_step[1] : block;
          for (int64_t k = 0; k < depth; k += kPackedDepth) {
            tile.depth = std::min(kPackedDepth, depth - k);
            tile.a = kernel + (k / kPackedDepth * c.rhs_size[0] + group * features) * kPackedRow<T>;
            tile.add = k > 0;
            if (packs) {
              pack_positions(image_at, places + k, tile.depth, pieces, count, code.columns, panels);
              tile.b = panels;
              tile.b_row = code.columns;
              tile.b_panel = tile.depth * code.columns;
              code.run(tile);
              continue;
            }
            tile.b_rows = places + k;
            tile.b_panel = code.columns;
            tile.b = image_at + begin;
            if (!by_lines) code.run(tile);
            for (int64_t p = 0; by_lines && p < count; ++p) {
              tile.columns = length;
              tile.b = image_at + pieces[p].place;
              tile.c = to + pieces[p].to;
              code.run(tile);
            }
          }
          if (!in_place) write_pieces(c, pieces, count, sums, block, features, to);
        }
        return 0;
      });
}

// Positions are rows, features columns: neighbors in the result are features of one position.
template <typename T>
int32_t by_points(Call* call, const Copied& copied, const T* x, const T* w, T* out) {
  const Convolution& c = copied.c;
  const TileLoops& code = tiles<T>();
  const int64_t channels = c.rhs_size[1], features = c.rhs_size[0], batch = c.out_size[0];
  const int64_t depth = copied.taps * channels, image = copied.size() * channels;
  const int64_t panels = (features + code.columns - 1) / code.columns;
  const int64_t width = panels * code.columns;
  Scratch scratch(Scratch::size_of<T>(static_cast<size_t>(batch * image)) +
                  Scratch::size_of<T>(static_cast<size_t>(depth * width)));
  if (!scratch) return 1;
  T* copy = scratch.take<T>(static_cast<size_t>(batch * image));
  T* kernel = scratch.take<T>(static_cast<size_t>(depth * width));
  const int32_t status = over_blocks(call, batch, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      copy_image(copied, x + i * c.lhs_step[0], channels, copy + i * image);
    }
    return 0;
  });
  if (status != 0) return status;
  for (int64_t k = 0; k < depth; ++k) {
    const T* from = w + k % channels * c.rhs_step[1] + copied.kernel_place(k / channels);
    for (int64_t f = 0; f < width; ++f) {
      kernel[(f / code.columns * depth + k) * code.columns + f % code.columns] =
          f < features ? from[f * c.rhs_step[0]] : T(0);
    }
  }
  // Kernel elements that are consecutive both in the copy and in the kernel.
  const int last_axis = copied.space - 1;
  const bool is_run = c.rhs_dilation[last_axis] == 1 && c.stride[last_axis] == 1;
  const int64_t run = channels * (is_run ? c.rhs_size[last_axis + 2] : 1);
  const int64_t length = c.out_size[last_axis + 2], line = copied.extent[last_axis];
  const int64_t lines = (copied.positions + line - 1) / line, work = length * depth * features;
  return over_blocks(
      call, batch * lines, (kTaskWork + work - 1) / work, [&](int64_t first, int64_t last) {
        const Scratch held(static_cast<size_t>(length * kPackedRow<T>) * sizeof(T));
        if (!held) return 1;
        T* packed = reinterpret_cast<T*>(held.bytes());
        for (int64_t i = first; i < last; ++i) {
          const int64_t start = i % lines * line, item = i / lines;
          int64_t place;
          if (!find_line(copied, start, &place)) continue;
          TileBlock tile{};
          tile.rows = length;
          tile.columns = features;
          tile.a = packed;
          tile.b_row = code.columns;
          tile.b_panel = depth * code.columns;
          tile.c = out + item * c.out_step[0] + place;
          tile.c_row = length == 1 ? features : c.out_step[last_axis + 2];
          for (int64_t k = 0; k < depth; k += tile.depth) {
            tile.depth = std::min(kPackedDepth, run - k % run);
            const T* from = copy + item * image + (start + copied.place(k / channels)) * channels +
                            k % channels;
            code.pack_rows(from, channels, length, tile.depth, packed);
            tile.b = kernel + k * code.columns;
            tile.add = k > 0;
            code.run(tile);
          }
        }
        return 0;
      });
}

}  // namespace

bool is_direct(const Convolution& c) {
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
  const int64_t features = c.rhs_size[0] / c.feature_groups;
  if (taps == 1 || taps * c.rhs_size[1] < kLeastDepth || copied > kMostCopied) return false;
  if (c.out_step[1] == 1 && c.lhs_step[1] == 1 && c.feature_groups == 1) {
    return features * 4 >= tiles<float>().columns;
  }
  // Only if little of the work is discarded.
  const bool by_planes = c.out_step[last] == 1 || c.out_step[last] < c.out_step[1];
  return c.lhs_step[last] == 1 && by_planes && kept * 4 >= places * 3;
}

template <typename T>
int32_t convolve_directly(Call* call, const Convolution& c, const T* x, const T* w, T* out) {
  const Copied copied(c);
  return c.out_step[1] == 1 && c.lhs_step[1] == 1 && c.feature_groups == 1
             ? by_points(call, copied, x, w, out)
             : by_planes(call, copied, x, w, out);
}

template int32_t convolve_directly<float>(Call*, const Convolution&, const float*, const float*,
                                          float*);
template int32_t convolve_directly<double>(Call*, const Convolution&, const double*, const double*,
                                           double*);

}  // namespace kiln
