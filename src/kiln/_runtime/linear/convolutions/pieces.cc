#include "linear/convolutions/pieces.h"

#include <algorithm>
#include <cstring>

namespace kiln {
namespace {

// A panel whose pieces are whole granules, each with its own source.
template <typename T, int N>
void pack_granules(const T* const* from, const int64_t* places, int64_t depth, T* to) {
  for (int64_t k = 0; k < depth; ++k, to += N * kGranule<T>) {
    for (int i = 0; i < N; ++i) std::memcpy(to + i * kGranule<T>, from[i] + places[k], 32);
  }
}

}  // namespace

bool packs_positions(const Copied& copied, int64_t columns, int64_t features) {
  constexpr int64_t kCopy = 16;  // what copying costs, in features
  const int64_t all = (copied.positions + columns - 1) / columns;
  const int64_t kept = (copied.kept + columns - 1) / columns;
  return all * features > kept * (features + kCopy);
}

int64_t find_pieces(const Copied& copied, int64_t begin, int64_t end, Piece* pieces) {
  const int64_t line = copied.extent[copied.space - 1];
  const int64_t length = copied.c.out_size[copied.space + 1];
  const int64_t step = copied.c.out_step[copied.space + 1];
  int64_t count = 0;
  for (int64_t start = begin / line * line; start < end; start += line) {
    int64_t to;
    const int64_t from = std::max(start, begin), until = std::min(start + length, end);
    if (from >= until || !copied.find_line(start, &to)) continue;
    pieces[count++] = {from - begin, from, to + (from - start) * step, until - from};
  }
  return count;
}

int64_t find_kept(const Copied& copied, int64_t image, int64_t begin, int64_t end, int64_t columns,
                  int64_t to_image, Piece* pieces) {
  const Convolution& c = copied.c;
  const int last = copied.space - 1;
  const int64_t length = c.out_size[last + 2], first_image = begin / copied.kept;
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
    piece.to += (line - first_image) * to_image;
    position += piece.count;
    pieces[count++] = piece;
  }
  return count;
}

template <typename T>
void pack_positions(const T* image, const int64_t* places, int64_t depth, const Piece* pieces,
                    int64_t count, int64_t columns, T* to) {
  constexpr int64_t kStep = kGranule<T>;
  constexpr int kMost = 4;
  for (int64_t i = 0; i < count;) {
    const int64_t panel = pieces[i].column / columns;
    int64_t next = i;
    bool is_whole = columns == kMost * kStep;
    for (; next < count && pieces[next].column / columns == panel; ++next) {
      is_whole = is_whole && pieces[next].column % kStep == 0;
    }
    T* row = to + panel * depth * columns;
    if (is_whole) {
      const T* from[kMost];
      std::fill_n(from, kMost, image + pieces[i].place);
      for (int64_t p = i; p < next; ++p) {
        for (int64_t j = 0; j < pieces[p].count; j += kStep) {
          from[(pieces[p].column % columns + j) / kStep] = image + pieces[p].place + j;
        }
      }
      pack_granules<T, kMost>(from, places, depth, row);
      i = next;
      continue;
    }
    for (int64_t k = 0; k < depth; ++k, row += columns) {
      for (int64_t p = i; p < next; ++p) {
        const T* from = image + places[k] + pieces[p].place;
        T* into = row + pieces[p].column % columns;
        // What is copied too much is overwritten by the next piece, or by the next row.
        for (int64_t j = 0; j < pieces[p].count; j += kStep) {
          std::memcpy(into + j, from + j, kStep * sizeof(T));
        }
      }
    }
    i = next;
  }
}

template <typename T>
void write_pieces(const Convolution& c, const Piece* pieces, int64_t count, const T* sums,
                  int64_t sums_row, int64_t features, int64_t out_row, T* out) {
  const int64_t step = c.out_step[c.space + 1];
  for (int64_t i = 0; i < count; ++i) {
    const Piece& piece = pieces[i];
    for (int64_t f = 0; f < features; ++f) {
      const T* from = sums + f * sums_row + piece.column;
      T* to = out + piece.to + f * out_row;
      if (step == 1) {
        std::memcpy(to, from, static_cast<size_t>(piece.count) * sizeof(T));
      } else {
        for (int64_t p = 0; p < piece.count; ++p) to[p * step] = from[p];
      }
    }
  }
}

#define KILN_INSTANTIATE(T)                                                                   \
  template void pack_positions<T>(const T*, const int64_t*, int64_t, const Piece*, int64_t,   \
                                  int64_t, T*);                                               \
  template void write_pieces<T>(const Convolution&, const Piece*, int64_t, const T*, int64_t, \
                                int64_t, int64_t, T*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
