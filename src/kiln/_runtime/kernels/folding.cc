// Sums and products along an axis whose order depends only on the length of the axis: neither on
// how many there are nor on their memory layout. The option `batch_invariant` requests them.
#include "kernels/element_types.h"
#include "kernels/leveled.h"

namespace kiln {
namespace {

// Terms i, i + kLanes, i + 2 kLanes, ... of a part are combined first, then the lanes, half with
// half, then the parts, one after the other.
constexpr int64_t kLanes = 16;
constexpr int64_t kPart = 4096;
// Columns that are reduced together.
constexpr int64_t kColumns = 16;

struct Add {
  template <typename T>
  static constexpr T kIdentity = 0;
  template <typename T>
  static T of(T a, T b) {
    return a + b;
  }
};

struct Multiply {
  template <typename T>
  static constexpr T kIdentity = 1;
  template <typename T>
  static T of(T a, T b) {
    return a * b;
  }
};

// Reduces `columns` columns of `size` terms, with row stride `inner`. A single column is
// contiguous, and its terms fill the vector lanes; otherwise the columns do.
template <typename Op, typename T, int64_t columns>
void fold(const T* in, T* out, int64_t size, int64_t inner) {
  T total[columns];
  for (int64_t j = 0; j < columns; ++j) total[j] = Op::template kIdentity<T>;
  for (int64_t from = 0; from < size; from += kPart) {
    const int64_t end = size - from < kPart ? size : from + kPart;
    T lanes[kLanes][columns];
    for (int64_t i = 0; i < kLanes; ++i) {
      for (int64_t j = 0; j < columns; ++j) lanes[i][j] = Op::template kIdentity<T>;
    }
    int64_t term = from;
    for (; term + kLanes <= end; term += kLanes) {
      for (int64_t i = 0; i < kLanes; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          lanes[i][j] = Op::of(lanes[i][j], in[(term + i) * inner + j]);
        }
      }
    }
    for (int64_t i = 0; term + i < end; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        lanes[i][j] = Op::of(lanes[i][j], in[(term + i) * inner + j]);
      }
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) {
        for (int64_t j = 0; j < columns; ++j) lanes[i][j] = Op::of(lanes[i][j], lanes[i + half][j]);
      }
    }
    for (int64_t j = 0; j < columns; ++j) total[j] = Op::of(total[j], lanes[0][j]);
  }
  for (int64_t j = 0; j < columns; ++j) out[j] = total[j];
}

template <typename Op, typename T>
int32_t fold_all(void* const* buffers, const int64_t* numbers) {
  const int64_t first = numbers[0], end = first + numbers[1];
  const Rows rows{numbers[2], numbers[3]};
  const T* in = static_cast<const T*>(buffers[0]);
  T* out = static_cast<T*>(buffers[1]);
  for (int64_t row = first; row < end;) {
    const T* from = in + rows.start(row);
    if (rows.inner == 1) {
      fold<Op, T, 1>(from, out + row, rows.size, 1);
      ++row;
    } else if (rows.inner - row % rows.inner >= kColumns && end - row >= kColumns) {
      fold<Op, T, kColumns>(from, out + row, rows.size, rows.inner);
      row += kColumns;
    } else {
      fold<Op, T, 1>(from, out + row, rows.size, rows.inner);
      ++row;
    }
  }
  return kDone;
}

template <typename Op>
int32_t fold_any(void* const* buffers, const int64_t* numbers) {
  switch (numbers[5]) {
    case kFloat32: return fold_all<Op, float>(buffers, numbers);
    case kFloat64: return fold_all<Op, double>(buffers, numbers);
    default: return kUnsupported;
  }
}

}  // namespace

namespace KILN_LEVEL {

// folded. Buffers: operand, result. Numbers: first row, rows, size of the axis, inner, operation (0
// sum, 1 product), type.
int32_t folded(Call*, void* const* buffers, const int64_t* numbers) {
  return numbers[4] == 0 ? fold_any<Add>(buffers, numbers) : fold_any<Multiply>(buffers, numbers);
}

}  // namespace KILN_LEVEL
}  // namespace kiln
