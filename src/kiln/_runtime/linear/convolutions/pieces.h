// Positions of the result as columns of a product: the parts of lines that a block consists of.
#pragma once

#include "linear/convolutions/copied.h"

namespace kiln {

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
bool packs_positions(const Copied& copied, int64_t columns, int64_t features);

// Both return the number of pieces. Of positions that are numbered along the copy:
int64_t find_pieces(const Copied& copied, int64_t begin, int64_t end, Piece* pieces);
// Of positions of all images, without those beyond the ends of lines; images are `image` apart in
// the copy, and `to_image` in the result. None crosses the end of a panel of `columns`.
int64_t find_kept(const Copied& copied, int64_t image, int64_t begin, int64_t end, int64_t columns,
                  int64_t to_image, Piece* pieces);

// Writes rows of panels: what each kernel element reads for the positions of a block. Up to
// `kGranule` elements after the last row are overwritten.
template <typename T>
void pack_positions(const T* image, const int64_t* places, int64_t depth, const Piece* pieces,
                    int64_t count, int64_t columns, T* to);

// Writes sums, whose columns are positions, to the result.
template <typename T>
void write_pieces(const Convolution& c, const Piece* pieces, int64_t count, const T* sums,
                  int64_t sums_row, int64_t features, int64_t out_row, T* out);

}  // namespace kiln
