// Convolutions with features last, of a padded copy of the operand. Positions are rows, features
// columns: neighbors in the result are features of one position.
#include <algorithm>

#include "abi/split.h"
#include "linear/convolutions/convolution.h"
#include "linear/convolutions/copied.h"
#include "linear/levels.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kTaskWork = int64_t{1} << 20;

template <typename T>
const TileLoops& tiles() {
  return linear_loops().tiles[sizeof(T) == 8];
}

}  // namespace

template <typename T>
int32_t convolve_by_points(Call* call, const Convolution& c, const T* x, const T* w, T* out,
                           const Epilogue* after) {
  const Copied copied(c);
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
      call, batch * lines, (kTaskWork + work - 1) / work,
      [&](Call* own, int64_t first, int64_t last) {
        const auto packed_size = static_cast<size_t>(length * kPackedRow<T>);
        const auto held_size = static_cast<size_t>(out == nullptr ? length * features : 0);
        Scratch taken(Scratch::size_of<T>(packed_size) + Scratch::size_of<T>(held_size));
        if (!taken) return 1;
        T *packed = taken.take<T>(packed_size), *held = taken.take<T>(held_size);
        for (int64_t i = first; i < last; ++i) {
          const int64_t start = i % lines * line, item = i / lines;
          int64_t place;
          if (!copied.find_line(start, &place)) continue;
          TileBlock tile{};
          tile.rows = length;
          tile.columns = features;
          tile.a = packed;
          tile.b_row = code.columns;
          tile.b_panel = depth * code.columns;
          T* to = out == nullptr ? held : out + item * c.out_step[0] + place;
          tile.c = to;
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
          if (after == nullptr) continue;
          const int64_t row = (item * c.out_step[0] + place) / features;
          const int32_t failed = after->on(own).run(to, row, row + length, 0, features);
          if (failed != 0) return failed;
        }
        return 0;
      });
}

#define KILN_INSTANTIATE(T)                                                                 \
  template int32_t convolve_by_points<T>(Call*, const Convolution&, const T*, const T*, T*, \
                                         const Epilogue*);
KILN_INSTANTIATE(float)
KILN_INSTANTIATE(double)

}  // namespace kiln
