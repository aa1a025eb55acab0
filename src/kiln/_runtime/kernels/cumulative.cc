// Cumulative reductions along an axis. ops/reductions/cumulative.py defines what each computes;
// within a vector, sums and products of floats are associated differently.
#include <math.h>

#include <type_traits>

#include "kernels/element_types.h"
#include "kernels/leveled.h"
#include "machine/vectors.h"

namespace kiln {
namespace {

template <typename T>
struct Pair {
  T real, imag;
};
template <typename T>
bool is_nan(T x) {
  return x != x;
}
template <typename T>
bool is_nan(Pair<T> x) {
  return x.real != x.real || x.imag != x.imag;
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

template <typename T>
constexpr bool kIsPair = false;
template <typename T>
constexpr bool kIsPair<Pair<T>> = true;

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T>;
// Integers wrap around; none is narrower than unsigned, because a promoted int product could
// overflow.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Sum {
  static constexpr bool kHasIdentity = true;
  template <typename T>
  static T identity() {
    return T();
  }
  template <typename T>
  static T of(T a, T b) {
    if constexpr (kIsInteger<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
  template <typename T>
  static Pair<T> of(Pair<T> a, Pair<T> b) {
    return {a.real + b.real, a.imag + b.imag};
  }
};

struct Product {
  static constexpr bool kHasIdentity = true;
  template <typename T>
  static T identity() {
    return T(1);
  }
  template <typename T>
  static T of(T a, T b) {
    if constexpr (kIsInteger<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
  template <typename T>
  static Pair<T> of(Pair<T> a, Pair<T> b) {
    return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
};

// The first nan wins.
struct Larger {
  static constexpr bool kHasIdentity = true;
  template <typename T>
  static T identity() {
    if constexpr (std::is_floating_point_v<T>) return -static_cast<T>(INFINITY);
    else if constexpr (std::is_signed_v<T>) return static_cast<T>(T(1) << (8 * sizeof(T) - 1));
    else return 0;
  }
  template <typename T>
  static T of(T a, T b) {
    return at_least(a, b) || is_nan(a) ? a : b;
  }
};

struct Smaller {
  static constexpr bool kHasIdentity = true;
  template <typename T>
  static T identity() {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(INFINITY);
    else return static_cast<T>(~Larger::identity<T>());
  }
  template <typename T>
  static T of(T a, T b) {
    return at_least(b, a) || is_nan(a) ? a : b;
  }
};

struct LogSumExp {
  static constexpr bool kHasIdentity = false;
  static float of(float x, float y) {
    if (x == y) return x + 0.693147180559945309f;
    const float apart = x - y;
    if (apart > 0) return x + log1pf(expf(-apart));
    return apart <= 0 ? y + log1pf(expf(apart)) : apart;
  }
  static double of(double x, double y) {
    if (x == y) return x + 0.693147180559945309;
    const double apart = x - y;
    if (apart > 0) return x + log1p(exp(-apart));
    return apart <= 0 ? y + log1p(exp(apart)) : apart;
  }
};

// The type in which elements are computed.
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

// Shifts of the lanes of vectors.
template <typename T>
struct ScanLanes {
  static constexpr int kCount = Lanes<T>::kCount;
  using Index = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  using V = Vector<T>;
  using I = Vector<Index>;

  static V pick(V v, V other, I from) {
#if defined(__clang__)
    V out;
    for (int l = 0; l < kCount; ++l) {
      out[l] = from[l] < kCount ? v[from[l]] : other[from[l] - kCount];
    }
    return out;
#else
    return __builtin_shuffle(v, other, from);
#endif
  }
  // The shuffle is computed at compile time, because instructions take it as a constant.
  struct Sources {
    Index lanes[kCount];
  };
  template <bool reverse, int by>
  static constexpr Sources sources_of_move() {
    Sources all{};
    for (int l = 0; l < kCount; ++l) {
      const int source = reverse ? l + by : l - by;
      all.lanes[l] = source >= 0 && source < kCount ? source : kCount;
    }
    return all;
  }
  template <bool reverse>
  static constexpr Sources sources_of_last() {
    Sources all{};
    for (int l = 0; l < kCount; ++l) all.lanes[l] = reverse ? 0 : kCount - 1;
    return all;
  }
  // Lane l takes the lane `by` before or after it; the identity is shifted in.
  template <bool reverse, int by>
  static V moved(V v, V identity) {
    static constexpr Sources kSources = sources_of_move<reverse, by>();
    I from;
    memcpy(&from, &kSources, sizeof from);
    return pick(v, identity, from);
  }
  template <bool reverse>
  static V last(V v) {
    static constexpr Sources kSources = sources_of_last<reverse>();
    I from;
    memcpy(&from, &kSources, sizeof from);
    return pick(v, v, from);
  }
};

template <typename Op, typename V>
V combine(V a, V b) {
  if constexpr (std::is_same_v<Op, Sum>) return a + b;
  else if constexpr (std::is_same_v<Op, Product>) return a * b;
  else if constexpr (std::is_same_v<Op, Larger>) return ((a >= b) | (a != a)) ? a : b;
  else return ((a <= b) | (a != a)) ? a : b;
}

// A reduction's earlier operand comes first, in the order of the scan.
template <typename Op, bool reverse, int by, typename T>
typename ScanLanes<T>::V scan_lanes(typename ScanLanes<T>::V v, typename ScanLanes<T>::V identity) {
  if constexpr (by < ScanLanes<T>::kCount) {
    v = combine<Op>(ScanLanes<T>::template moved<reverse, by>(v, identity), v);
    return scan_lanes<Op, reverse, 2 * by, T>(v, identity);
  }
  return v;
}

// Processes the elements that fill whole groups of vectors, from the end if `reverse`. Returns how
// many.
template <typename Op, bool reverse, typename T>
int64_t scan_vectors(const T* in, T* out, int64_t n, T& carried) {
  using L = ScanLanes<T>;
  using V = typename L::V;
  constexpr int kGroup = 4, kStep = kGroup * L::kCount;
  const V identity = Op::template identity<T>() - V{};
  V carry = carried - V{};
  int64_t done = 0;
  for (; done + kStep <= n; done += kStep) {
    const int64_t base = reverse ? n - done - kStep : done;
    V scanned[kGroup], before[kGroup];
    for (int g = 0; g < kGroup; ++g) {
      const V v = kiln::load(in + base + (reverse ? kGroup - 1 - g : g) * L::kCount);
      scanned[g] = scan_lanes<Op, reverse, 1, T>(v, identity);
    }
    for (int g = 0; g < kGroup; ++g) {
      before[g] = carry;
      carry = combine<Op>(carry, L::template last<reverse>(scanned[g]));
    }
    for (int g = 0; g < kGroup; ++g) {
      kiln::store(out + base + (reverse ? kGroup - 1 - g : g) * L::kCount,
                  combine<Op>(before[g], scanned[g]));
    }
  }
  carried = carry[0];
  return done;
}

template <typename Op, typename T>
constexpr bool kHasVectors =
    (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> ||
     std::is_same_v<T, uint32_t> || std::is_same_v<T, int64_t> || std::is_same_v<T, uint64_t>) &&
    Op::kHasIdentity;

template <typename Op, bool reverse, typename T>
void scan_row(const T* in, T* out, int64_t n) {
  using W = decltype(wide(T()));
  if (n == 0) return;
  int64_t i = 0;
  W carry = wide(in[reverse ? n - 1 : 0]);
  if constexpr (kHasVectors<Op, T>) {
    // Sums use vectors of unsigned numbers, to wrap around; extremes compare the numbers
    // themselves.
    constexpr bool wraps =
        kIsInteger<T> && (std::is_same_v<Op, Sum> || std::is_same_v<Op, Product>);
    using U = std::conditional_t<wraps, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>, T>;
    U carried = Op::template identity<U>();
    i = scan_vectors<Op, reverse>(reinterpret_cast<const U*>(in), reinterpret_cast<U*>(out), n,
                                  carried);
    if (i > 0) carry = static_cast<T>(carried);
  }
  for (const int64_t start = i; i < n; ++i) {
    const int64_t at = reverse ? n - 1 - i : i;
    if (i > 0 || start > 0) carry = Op::of(carry, wide(in[at]));
    put(carry, out[at]);
  }
}

// Some adjacent columns of a (size, inner) matrix of complex numbers: their carries stay in the L1
// cache. Columns of real numbers are loops of compiled code.
template <typename Op, bool reverse, typename T>
void scan_columns(const Pair<T>* in, Pair<T>* out, Rows rows, int64_t columns) {
  constexpr int64_t kMost = 512;
  Pair<T> carry[kMost];
  for (int64_t c = 0; c < columns; c += kMost) {
    const int64_t width = columns - c < kMost ? columns - c : kMost;
    for (int64_t i = 0; i < rows.size; ++i) {
      const int64_t at = (reverse ? rows.size - 1 - i : i) * rows.inner + c;
      const Pair<T>* __restrict from = in + at;
      Pair<T>* __restrict to = out + at;
      for (int64_t j = 0; j < width; ++j) {
        carry[j] = i == 0 ? from[j] : Op::of(carry[j], from[j]);
        to[j] = carry[j];
      }
    }
  }
}

template <typename Op, bool reverse, typename T>
int32_t scan_all(void* const* buffers, const int64_t* numbers) {
  const int64_t first = numbers[0], end = first + numbers[1];
  const Rows rows{numbers[2], numbers[3]};
  const T* in = static_cast<const T*>(buffers[0]);
  T* out = static_cast<T*>(buffers[1]);
  for (int64_t row = first; row < end;) {
    const int64_t at = rows.start(row);
    if (rows.inner == 1) {
      scan_row<Op, reverse>(in + at, out + at, rows.size);
      ++row;
      continue;
    }
    if constexpr (kIsPair<T>) {
      int64_t columns = rows.inner - row % rows.inner;
      if (columns > end - row) columns = end - row;
      scan_columns<Op, reverse>(in + at, out + at, rows, columns);
      row += columns;
    } else {
      return kUnsupported;
    }
  }
  return kDone;
}

template <typename Op, typename T>
int32_t scan(void* const* buffers, const int64_t* numbers) {
  return numbers[5] ? scan_all<Op, true, T>(buffers, numbers)
                    : scan_all<Op, false, T>(buffers, numbers);
}

template <typename Op>
int32_t scan_inexact(void* const* buffers, const int64_t* numbers) {
  switch (numbers[6]) {
    case kFloat16: return scan<Op, Half>(buffers, numbers);
    case kBfloat16: return scan<Op, Brain>(buffers, numbers);
    case kFloat32: return scan<Op, float>(buffers, numbers);
    case kFloat64: return scan<Op, double>(buffers, numbers);
    default: return kUnsupported;
  }
}

template <typename Op>
int32_t scan_any(void* const* buffers, const int64_t* numbers) {
  switch (numbers[6]) {
    case kInt8: return scan<Op, int8_t>(buffers, numbers);
    case kInt16: return scan<Op, int16_t>(buffers, numbers);
    case kInt32: return scan<Op, int32_t>(buffers, numbers);
    case kInt64: return scan<Op, int64_t>(buffers, numbers);
    case kUint8: return scan<Op, uint8_t>(buffers, numbers);
    case kUint16: return scan<Op, uint16_t>(buffers, numbers);
    case kUint32: return scan<Op, uint32_t>(buffers, numbers);
    case kUint64: return scan<Op, uint64_t>(buffers, numbers);
    case kComplex64: return scan<Op, Pair<float>>(buffers, numbers);
    case kComplex128: return scan<Op, Pair<double>>(buffers, numbers);
    default: return scan_inexact<Op>(buffers, numbers);
  }
}

}  // namespace

namespace KILN_LEVEL {

// cumulative. Buffers: operand, result, which may be the same. Inner is 1 for real numbers.
// Numbers: first row, rows, size of the axis, inner, operation (sum, product, largest, smallest,
// and for real floats logarithm of the sum of exponentials), 1 from the end or 0, type.
int32_t cumulative(Call*, void* const* buffers, const int64_t* numbers) {
  switch (numbers[4]) {
    case 0: return scan_any<Sum>(buffers, numbers);
    case 1: return scan_any<Product>(buffers, numbers);
    case 2: return scan_any<Larger>(buffers, numbers);
    case 3: return scan_any<Smaller>(buffers, numbers);
    case 4: return scan_inexact<LogSumExp>(buffers, numbers);
    default: return kUnsupported;
  }
}

}  // namespace KILN_LEVEL
}  // namespace kiln
