#include "linear/convolutions/panels.h"

#include <algorithm>

#include "abi/split.h"
#include "abi/symbols.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

constexpr int64_t kTask = int64_t{1} << 15;  // elements

int64_t kernel_place(const Convolution& c, int64_t tap) {
  int64_t at = 0;
  for (int d = c.space - 1; d >= 0; --d) {
    at += tap % c.rhs_size[d + 2] * c.rhs_step[d + 2];
    tap /= c.rhs_size[d + 2];
  }
  return at;
}

// Writes a panel of the kernel, of any group: a row for each element and feature of the operand.
template <typename T>
void pack_panel(const Convolution& c, const Panels& of, const T* w, int64_t panel, T* spare,
                T* to) {
  const TileLoops& code = tile_loops<T>();
  const int64_t columns = of.columns, first = panel % of.count * columns;
  const int64_t many = std::min(columns, of.features - first);
  const T* from = w + (panel / of.count * of.features + first) * c.rhs_step[0];
  bool is_line = of.channels == 1 || c.rhs_step[1] == of.taps;  // the elements of a feature
  for (int64_t tap = 0; tap < of.taps; ++tap) is_line = is_line && kernel_place(c, tap) < of.taps;
  if (many < columns) std::fill_n(to, of.depth * columns, T(0));
  if (is_line)
    transpose_loop<sizeof(T) == 8 ? 3 : 2>()(from, spare, many, of.depth, c.rhs_step[0], columns);
  for (int64_t tap = 0; tap < of.taps; ++tap, to += of.channels * columns) {
    const int64_t place = kernel_place(c, tap);
    if (is_line) {
      code.pack(spare + place * columns, of.taps * columns, of.channels, many, to, 0);
    } else if (c.rhs_step[0] == 1) {
      code.pack(from + place, c.rhs_step[1], of.channels, many, to, 0);
    } else {
      for (int64_t k = 0; k < of.channels; ++k) {
        const T* at = from + place + k * c.rhs_step[1];
        for (int64_t f = 0; f < many; ++f) to[k * columns + f] = at[f * c.rhs_step[0]];
      }
    }
  }
}

}  // namespace

template <typename T>
int32_t pack_kernel(Call* call, const Convolution& c, const T* w, T* to) {
  const Panels of = Panels::of<T>(c);
  const int64_t grain = kTask / of.each() + 1;
  return over_blocks(call, of.groups * of.count, grain, [&](int64_t first, int64_t last) {
    Scratch spare(static_cast<size_t>(of.each()) * sizeof(T));
    if (!spare) return 1;
    for (int64_t i = first; i < last; ++i) {
      pack_panel(c, of, w, i, reinterpret_cast<T*>(spare.bytes()), to + i * of.each());
    }
    return 0;
  });
}

template int32_t pack_kernel<float>(Call*, const Convolution&, const float*, float*);
template int32_t pack_kernel<double>(Call*, const Convolution&, const double*, double*);

namespace {

// kiln_conv_pack_T: the kernel of a convolution, for `kiln_conv_packed_T`.
//
// Buffers: the kernel; the result, with room for panels of any level. Numbers: those of
// `kiln_conv_T`.
template <typename T>
int32_t pack(Call* call, void* const* buffers, const int64_t* numbers) {
  return pack_kernel(call, Convolution::of(numbers), static_cast<const T*>(buffers[0]),
                     static_cast<T*>(buffers[1]));
}

}  // namespace

KILN_KERNEL_SYMBOL("kiln_conv_pack_f32", pack<float>)
KILN_KERNEL_SYMBOL("kiln_conv_pack_f64", pack<double>)
}  // namespace kiln
