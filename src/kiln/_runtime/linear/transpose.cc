// Transposes arrays in memory.
#include <algorithm>
#include <cstring>
#include <utility>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/levels.h"

namespace kiln {
namespace {

TransposeLoop loop_for(int64_t log_size) {
  switch (log_size) {
    case 0: return transpose_loop<0>();
    case 1: return transpose_loop<1>();
    case 2: return transpose_loop<2>();
    case 3: return transpose_loop<3>();
    default: return transpose_loop<4>();
  }
}

constexpr int kMaxRank = 32;
// A block copies at least this many bytes.
constexpr int64_t kBlockBytes = int64_t{1} << 18;
// Columns read together fill whole cache lines, if there are enough for all threads.
constexpr int64_t kColumns = 64, kManyColumns = 512;

// An axis of the result: its size, and its strides in both arrays, in elements.
struct Axis {
  int64_t size, from, to;
};

// The axes of the result, outermost first, without those of size 1; axes that are adjacent in both
// arrays are merged.
int axes_of(const int64_t* sizes, const int64_t* order, int rank, Axis* axes) {
  int64_t from_steps[kMaxRank], step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    from_steps[i] = step;
    step *= sizes[i];
  }
  int count = 0;
  for (int i = 0; i < rank; ++i) {
    const int64_t size = sizes[order[i]], from = from_steps[order[i]];
    if (size == 1) continue;
    if (count > 0 && axes[count - 1].from == size * from) {
      axes[count - 1] = {axes[count - 1].size * size, from, 0};
    } else {
      axes[count++] = {size, from, 0};
    }
  }
  step = 1;
  for (int i = count - 1; i >= 0; --i) {
    axes[i].to = step;
    step *= axes[i].size;
  }
  return count;
}

void copy_rows(const char* from, char* to, int64_t rows, int64_t bytes, int64_t from_step) {
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * bytes, from + i * from_step, bytes);
}

// The result may be in place of the operand.
int32_t copy(Call* call, const char* from, char* to, int64_t bytes) {
  if (from == to) return 0;
  const int64_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  return over_blocks(call, blocks, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kBlockBytes, end = std::min(bytes, last * kBlockBytes);
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    return 0;
  });
}

// kiln_transpose: an array with its axes in another order; of one axis, a copy.
//
// Buffers: the operand, the result. Numbers: the logarithm of the size of an element (0 to 4), the
// rank, the operand's sizes, and for each axis of the result the operand's axis that it is.
int32_t transpose(Call* call, void* const* buffers, const int64_t* numbers) {
  const int64_t log_size = numbers[0], item = int64_t{1} << log_size;
  const int rank = static_cast<int>(numbers[1]);
  const char* from = static_cast<const char*>(buffers[0]);
  char* to = static_cast<char*>(buffers[1]);
  int64_t total = item;
  for (int i = 0; i < rank; ++i) total *= numbers[2 + i];
  if (total == 0) return 0;
  Axis axes[kMaxRank];
  const int count = axes_of(numbers + 2, numbers + 2 + rank, rank, axes);
  if (count <= 1) return copy(call, from, to, total);
  // Each block spans two axes: the last of the result and the last of the operand. If they are the
  // same, rows are copied, and the second axis is the result's last but one.
  const bool by_rows = axes[count - 1].from == 1;
  int read = count - 2;
  for (int i = 0; !by_rows && i < count; ++i) {
    if (axes[i].from == 1) read = i;
  }
  const Axis inner = axes[count - 1], other = axes[read];
  Axis outer[kMaxRank];
  int outer_count = 0;
  for (int i = 0; i + 1 < count; ++i) {
    if (i != read) outer[outer_count++] = axes[i];
  }
  // A block consists of rows of the result (columns of the operand), for one index of the outer
  // axes.
  const int64_t plane = inner.size * other.size * item;
  const Blocks columns =
      Blocks::of(other.size, std::max<int64_t>(1, kBlockBytes / (inner.size * item)),
                 other.size < kManyColumns ? 16 : kColumns);
  const int64_t planes = total / plane;
  const Blocks groups = Blocks::of(planes, std::max<int64_t>(1, kBlockBytes / plane), 1);
  const TransposeLoop loop = loop_for(log_size);
  return over_blocks(call, groups.count * columns.count, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t group = block / columns.count, begin = columns.begin(block % columns.count);
      const int64_t width = columns.end(block % columns.count) - begin;
      for (int64_t i = groups.begin(group); i < groups.end(group); ++i) {
        int64_t read_at = begin * other.from, write_at = begin * other.to, rest = i;
        for (int axis = outer_count - 1; axis >= 0; --axis) {
          const int64_t index = rest % outer[axis].size;
          rest /= outer[axis].size;
          read_at += index * outer[axis].from;
          write_at += index * outer[axis].to;
        }
        const char* source = from + read_at * item;
        char* target = to + write_at * item;
        if (by_rows) {
          copy_rows(source, target, width, inner.size * item, other.from * item);
        } else {
          loop(source, target, inner.size, width, inner.from, other.to);
        }
      }
    }
    return 0;
  });
}

}  // namespace

KILN_KERNEL_SYMBOL("kiln_transpose", transpose)
}  // namespace kiln
