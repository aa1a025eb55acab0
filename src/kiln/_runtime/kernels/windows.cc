// What wins sliding windows of many elements. ops/reductions/window.py and
// ops/reductions/window_geometry.py define what each kernel computes.
#include <algorithm>
#include <type_traits>

#include "abi/symbols.h"
#include "kernels/element_types.h"

namespace kiln {
namespace {

constexpr int64_t kMostAxes = 16;

// How windows slide along one axis, from the kernel's numbers.
struct Axis {
  int64_t size, count, window, stride, low, base_dilation, dilation;

  // Where element `k` of window `at` lies in the operand, or -1 for padding and holes.
  int64_t place(int64_t at, int64_t k) const {
    const int64_t spread = at * stride + k * dilation - low;
    if (spread < 0 || spread % base_dilation != 0) return -1;
    const int64_t found = spread / base_dilation;
    return found < size ? found : -1;
  }
};

constexpr int64_t kNumbersOfAxis = 7;

// Numbers: first row, rows, type, a choice, axes, then seven numbers for each axis.
struct Geometry {
  explicit Geometry(const int64_t* numbers) : rank(numbers[4]) {
    for (int64_t a = 0; a < rank; ++a) {
      const int64_t* given = numbers + 5 + a * kNumbersOfAxis;
      axes[a] = {given[0], given[1], given[2], given[3], given[4], given[5], given[6]};
    }
  }

  int64_t rank;
  Axis axes[kMostAxes];
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t a = 0; a < rank; ++a) product *= axes[a].size;
    return product;
  }
  // Rows of windows, each along the last axis.
  int64_t lines() const {
    int64_t product = 1;
    for (int64_t a = 0; a < rank - 1; ++a) product *= axes[a].count;
    return product;
  }
};

// A row-major counter.
template <typename Limit>
bool advance(int64_t* at, int64_t rank, Limit limit) {
  for (int64_t a = rank - 1; a >= 0; --a) {
    if (++at[a] < limit(a)) return true;
    at[a] = 0;
  }
  return false;
}

template <typename T>
struct Pair {
  T real, imag;
};

// What elements are computed as.
inline float wide(Half x) { return widen(x); }
inline float wide(Brain x) { return widen(x); }
template <typename T>
T wide(T x) {
  return x;
}
template <typename W, typename T>
void put(W value, T& out) {
  if constexpr (std::is_same_v<W, T>) out = value;
  else narrow(value, out);
}

template <typename T>
bool at_least(T a, T b) {
  return a >= b;
}
template <typename T>
bool at_least(Pair<T> a, Pair<T> b) {
  return (a.real > b.real && a.imag == a.imag && b.imag == b.imag) ||
         (a.real == b.real && a.imag >= b.imag);
}

struct Sum {
  template <typename W>
  static W of(W a, W b) {
    if constexpr (std::is_integral_v<W>) {
      return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
  template <typename T>
  static Pair<T> of(Pair<T> a, Pair<T> b) {
    return {a.real + b.real, a.imag + b.imag};
  }
};
// The winner is the first of equal numbers, and the element after a nan wins over it, because it is
// not less.
struct Larger {
  template <typename W>
  static bool keeps(W a, W b) {
    return at_least(a, b);
  }
};
struct Smaller {
  template <typename W>
  static bool keeps(W a, W b) {
    return at_least(b, a);
  }
};

// Visits the windows along an axis whose element `k` is in bounds, with its position: no test
// inside the loop.
template <typename Visit>
void visit_inside(const Axis& axis, int64_t k, Visit visit) {
  if (axis.base_dilation != 1) {
    for (int64_t i = 0; i < axis.count; ++i) {
      if (const int64_t place = axis.place(i, k); place >= 0) visit(i, place);
    }
    return;
  }
  const int64_t offset = k * axis.dilation - axis.low;
  const int64_t begin = offset >= 0 ? 0 : (-offset + axis.stride - 1) / axis.stride;
  const int64_t end =
      axis.size <= offset ? 0 : std::min((axis.size - 1 - offset) / axis.stride + 1, axis.count);
  if (axis.stride == 1) {
    for (int64_t i = begin; i < end; ++i) visit(i, i + offset);
  } else {
    for (int64_t i = begin; i < end; ++i) visit(i, i * axis.stride + offset);
  }
}

// Visits the lines of windows (along the last axis) from `first` on, and for each the lines of
// elements that it covers, with -1 for padding and holes.
template <typename Begin, typename Cover, typename End>
void visit_lines(const Geometry& all, int64_t first, int64_t lines, Begin begin, Cover cover,
                 End end) {
  if (lines <= 0) return;  // there may be no windows along an axis
  const int64_t outer = all.rank - 1;
  int64_t at[kMostAxes], rest = first;
  for (int64_t a = outer - 1; a >= 0; --a) {
    at[a] = rest % all.axes[a].count;
    rest /= all.axes[a].count;
  }
  for (int64_t line = first; line < first + lines; ++line) {
    begin();
    int64_t within[kMostAxes] = {};
    do {
      int64_t covered = 0;
      for (int64_t a = 0; a < outer && covered >= 0; ++a) {
        const int64_t place = all.axes[a].place(at[a], within[a]);
        covered = place < 0 ? -1 : covered * all.axes[a].size + place;
      }
      cover(covered);
    } while (advance(within, outer, [&](int64_t a) { return all.axes[a].window; }));
    end(line);
    advance(at, outer, [&](int64_t a) { return all.axes[a].count; });
  }
}

template <typename Visit>
int32_t visit_type(int64_t type, Visit visit) {
  switch (type) {
    case kBool: return visit(bool());
    case kUint8: return visit(uint8_t());
    case kInt8: return visit(int8_t());
    case kInt16: return visit(int16_t());
    case kInt32: return visit(int32_t());
    case kInt64: return visit(int64_t());
    case kUint16: return visit(uint16_t());
    case kUint32: return visit(uint32_t());
    case kUint64: return visit(uint64_t());
    case kFloat16: return visit(Half());
    case kBfloat16: return visit(Brain());
    case kFloat32: return visit(float());
    case kFloat64: return visit(double());
    case kComplex64: return visit(Pair<float>());
    case kComplex128: return visit(Pair<double>());
    default: return kUnsupported;
  }
}

constexpr bool is_bad(const int64_t* numbers) { return numbers[4] < 1 || numbers[4] > kMostAxes; }

// Calls back with each window's number and the position of its winner, or -1 if it has no element.
template <typename Op, typename Visit>
int32_t visit_winners(const Geometry& all, int64_t type, const void* data, int64_t first,
                      int64_t lines, Visit visit) {
  return visit_type(type, [&](auto zero) {
    using T = decltype(zero);
    using W = decltype(wide(T()));
    const T* x = static_cast<const T*>(data);
    const Axis& last = all.axes[all.rank - 1];
    const FreshMemory values(last.count * static_cast<int64_t>(sizeof(W)));
    const FreshMemory winners(last.count * static_cast<int64_t>(sizeof(int64_t)));
    if (!values || !winners) return int32_t(kOutOfMemory);
    W* best = reinterpret_cast<W*>(values.data());
    int64_t* where = reinterpret_cast<int64_t*>(winners.data());
    visit_lines(
        all, first, lines,
        [&] {
          std::fill(best, best + last.count, W{});
          std::fill(where, where + last.count, -1);
        },
        [&](int64_t covered) {
          const int64_t base = covered * last.size;
          for (int64_t k = 0; k < last.window && covered >= 0; ++k) {
            visit_inside(last, k, [=](int64_t i, int64_t place) {
              const W here = wide(x[base + place]);
              const bool keeps = where[i] >= 0 && Op::keeps(best[i], here);
              best[i] = keeps ? best[i] : here;
              where[i] = keeps ? where[i] : base + place;
            });
          }
        },
        [&](int64_t line) {
          for (int64_t i = 0; i < last.count; ++i) visit(line * last.count + i, where[i]);
        });
    return int32_t(kDone);
  });
}

template <typename T>
void move_winners(const char* from, char* to, int64_t window, int64_t place) {
  T value{};
  if (place >= 0) std::memcpy(&value, from + place * static_cast<int64_t>(sizeof(T)), sizeof value);
  std::memcpy(to + window * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

// select_and_gather_add. Buffers: the source, the operand that decides, result.
// Numbers: first row, rows (a row is all windows along the last axis), type of the operand that
// decides, choice (largest 1, smallest 2), axes, for each axis: size, windows, window, stride,
// padding below, base dilation, window dilation; type of the source.
int32_t select_and_gather_add(Call*, void* const* buffers, const int64_t* numbers) {
  if (is_bad(numbers)) return kUnsupported;
  const Geometry all(numbers);
  const int64_t item = size_of(numbers[5 + all.rank * kNumbersOfAxis]);
  const char* from = static_cast<const char*>(buffers[0]);
  char* to = static_cast<char*>(buffers[2]);
  auto visit = [&](int64_t window, int64_t place) {
    switch (item) {
      case 1: return move_winners<uint8_t>(from, to, window, place);
      case 2: return move_winners<uint16_t>(from, to, window, place);
      case 4: return move_winners<uint32_t>(from, to, window, place);
      case 8: return move_winners<uint64_t>(from, to, window, place);
      default: return move_winners<Sixteen>(from, to, window, place);
    }
  };
  if (item == 0) return kUnsupported;
  return numbers[3] == 1
             ? visit_winners<Larger>(all, numbers[2], buffers[1], numbers[0], numbers[1], visit)
             : visit_winners<Smaller>(all, numbers[2], buffers[1], numbers[0], numbers[1], visit);
}

// select_and_scatter_add. Buffers: the source, the operand that decides, result.
// Numbers: those of select_and_gather_add, the last being the type of the source; all rows at once,
// because windows may share a winner.
int32_t select_and_scatter_add(Call*, void* const* buffers, const int64_t* numbers) {
  if (is_bad(numbers) || numbers[0] != 0) return kUnsupported;
  const Geometry all(numbers);
  const int64_t type = numbers[5 + all.rank * kNumbersOfAxis];
  if (type == kBool) return kUnsupported;
  return visit_type(type, [&](auto zero) -> int32_t {
    using T = decltype(zero);
    using W = decltype(wide(T()));
    const T* source = static_cast<const T*>(buffers[0]);
    T* out = static_cast<T*>(buffers[2]);
    const int64_t elements = all.elements();
    // Narrow floats are accumulated as float.
    constexpr bool is_apart = !std::is_same_v<W, T>;
    const FreshMemory apart(is_apart ? elements * static_cast<int64_t>(sizeof(W)) : 0);
    if (!apart) return kOutOfMemory;
    W* sums;
    if constexpr (is_apart) sums = reinterpret_cast<W*>(apart.data());
    else sums = out;
    std::fill(sums, sums + elements, W{});
    auto visit = [&](int64_t window, int64_t place) {
      if (place >= 0) sums[place] = Sum::of(sums[place], wide(source[window]));
    };
    const int64_t lines = all.lines();
    const int32_t status =
        numbers[3] == 1 ? visit_winners<Larger>(all, numbers[2], buffers[1], 0, lines, visit)
                        : visit_winners<Smaller>(all, numbers[2], buffers[1], 0, lines, visit);
    if constexpr (!std::is_same_v<W, T>) {
      for (int64_t i = 0; i < elements; ++i) put(sums[i], out[i]);
    }
    return status;
  });
}

}  // namespace

KILN_KERNEL_SYMBOL("select_and_gather_add", select_and_gather_add)
KILN_KERNEL_SYMBOL("select_and_scatter_add", select_and_scatter_add)
}  // namespace kiln
