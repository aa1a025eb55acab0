// One file, compiled for several levels of the processor: KILN_LEVEL names the function it makes.
// What each loop computes is said by the NumPy meanings in ops/edge_semantics.py.
#include "strided.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#ifndef KILN_STRIDED_LEVEL
#define KILN_STRIDED_LEVEL strided_baseline
#endif

namespace kiln {
namespace {

template <typename T>
constexpr bool kInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <typename T>
using Unsigned =
    typename std::conditional_t<kInteger<T>, std::make_unsigned<T>, std::common_type<T>>::type;

template <typename T>
T load(const char* p) {
  if constexpr (std::is_same_v<T, bool>) return *p != 0;
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <typename T>
void store(char* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

// Truncates; all bits set where b is 0; the one overflow gives the lowest number again.
template <typename T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a));
  }
  return static_cast<T>(a / b);
}

template <typename T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}

template <typename T>
T power(T x, T y) {
  if constexpr (std::is_signed_v<T>) {
    if (y < 0) return x == 1 ? T(1) : x == -1 ? (y & 1 ? T(-1) : T(1)) : T(0);
  }
  // At least as wide as int, so that no product overflows a signed type.
  using Wide = std::common_type_t<Unsigned<T>, unsigned>;
  Wide out = 1, base = static_cast<Unsigned<T>>(x);
  for (auto rest = static_cast<Unsigned<T>>(y); rest != 0; rest >>= 1) {
    if (rest & 1) out *= base;
    base *= base;
  }
  return static_cast<T>(out);
}

// A nan wins, the first if both are; 0 is larger than -0.
template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
    return a >= b || a != a ? a : b;
  } else {
    return a >= b ? a : b;
  }
}

template <typename T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
    return a <= b || a != a ? a : b;
  } else {
    return a <= b ? a : b;
  }
}

template <typename T>
T sign(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x == 0 || x != x ? x : std::copysign(T(1), x);
  } else {
    return static_cast<T>((x > 0) - (x < 0));
  }
}

template <typename T>
T round_half_away(T x) {
  T whole = std::trunc(x);
  T away = std::fabs(x - whole) >= T(0.5) ? T(1) : T(0);
  return std::copysign(std::fabs(whole) + away, x);
}

template <typename T, typename U>
U convert(T x) {
  if constexpr (std::is_same_v<U, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<U>) {
    double wide = static_cast<double>(x);
    if (wide != wide) return 0;
    if (wide >= static_cast<double>(std::numeric_limits<U>::max())) {
      return std::numeric_limits<U>::max();
    }
    if (wide <= static_cast<double>(std::numeric_limits<U>::min())) {
      return std::numeric_limits<U>::min();
    }
    return static_cast<U>(wide);
  } else {
    return static_cast<U>(x);
  }
}

template <typename T, T (*of)(T)>
void unary(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char* a = args[0];
  char* out = args[1];
  for (intptr_t i = 0; i < *count; ++i, a += steps[0], out += steps[1]) store(out, of(load<T>(a)));
}

template <typename T, T (*of)(T, T)>
void binary(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char *a = args[0], *b = args[1];
  char* out = args[2];
  constexpr intptr_t kDense = sizeof(T);
  if (steps[0] == kDense && steps[1] == kDense && steps[2] == kDense) {
    for (intptr_t i = 0; i < *count; ++i) {
      store(out + i * kDense, of(load<T>(a + i * kDense), load<T>(b + i * kDense)));
    }
    return;
  }
  for (intptr_t i = 0; i < *count; ++i, a += steps[0], b += steps[1], out += steps[2]) {
    store(out, of(load<T>(a), load<T>(b)));
  }
}

template <typename T>
void clamp(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char *low = args[0], *x = args[1], *high = args[2];
  char* out = args[3];
  for (intptr_t i = 0; i < *count;
       ++i, low += steps[0], x += steps[1], high += steps[2], out += steps[3]) {
    store(out, smaller(larger(load<T>(x), load<T>(low)), load<T>(high)));
  }
}

template <typename T, typename U>
void convert_all(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char* a = args[0];
  char* out = args[1];
  if (steps[0] == sizeof(T) && steps[1] == sizeof(U)) {
    for (intptr_t i = 0; i < *count; ++i) {
      store(out + i * sizeof(U), convert<T, U>(load<T>(a + i * sizeof(T))));
    }
    return;
  }
  for (intptr_t i = 0; i < *count; ++i, a += steps[0], out += steps[1]) {
    store(out, convert<T, U>(load<T>(a)));
  }
}

// Moves elements of one size, whatever they are.
template <typename T>
void copy(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char* a = args[0];
  char* out = args[1];
  constexpr intptr_t kDense = sizeof(T);
  if (steps[0] == kDense && steps[1] == kDense) {
    std::memmove(out, a, static_cast<size_t>(*count) * sizeof(T));
    return;
  }
  for (intptr_t i = 0; i < *count; ++i, a += steps[0], out += steps[1]) store(out, load<T>(a));
}

// Operands: which, on_false, on_true.
template <typename T>
void select(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char *which = args[0], *off = args[1], *on = args[2];
  char* out = args[3];
  for (intptr_t i = 0; i < *count;
       ++i, which += steps[0], off += steps[1], on += steps[2], out += steps[3]) {
    store(out, load<T>(*which ? on : off));
  }
}

// The whole count is one result: where the extreme is first met; a nan comes before all.
template <typename T, typename I, bool largest>
void position(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const char* a = args[0];
  T best = load<T>(a);
  intptr_t at = 0;
  for (intptr_t i = 0; i < *count && best == best; ++i, a += steps[0]) {
    T x = load<T>(a);
    if ((largest ? x > best : x < best) || x != x) {
      best = x;
      at = i;
    }
  }
  store(args[1], static_cast<I>(at));
}

struct Sixteen {
  char bytes[16];
};

bool is(const char* name, const char* other) { return std::strcmp(name, other) == 0; }

template <typename T, bool largest>
StridedLoop position_loop(char result) {
  if (result == 'i') return position<T, int32_t, largest>;
  if (result == 'l') return position<T, int64_t, largest>;
  return nullptr;
}

template <typename T>
StridedLoop convert_loop(char result) {
  switch (result) {
    case '?': return convert_all<T, bool>;
    case 'b': return convert_all<T, int8_t>;
    case 'h': return convert_all<T, int16_t>;
    case 'i': return convert_all<T, int32_t>;
    case 'l': return convert_all<T, int64_t>;
    case 'B': return convert_all<T, uint8_t>;
    case 'H': return convert_all<T, uint16_t>;
    case 'I': return convert_all<T, uint32_t>;
    case 'L': return convert_all<T, uint64_t>;
    case 'f': return convert_all<T, float>;
    case 'd': return convert_all<T, double>;
    default: return nullptr;
  }
}

template <typename T>
StridedLoop loop_for(const char* name, char result) {
  if (is(name, "convert")) return convert_loop<T>(result);
  if (is(name, "argmax")) return position_loop<T, true>(result);
  if (is(name, "argmin")) return position_loop<T, false>(result);
  if (is(name, "max")) return binary<T, larger<T>>;
  if (is(name, "min")) return binary<T, smaller<T>>;
  if (is(name, "clamp")) return clamp<T>;
  if constexpr (!std::is_same_v<T, bool>) {
    if (is(name, "sign")) return unary<T, sign<T>>;
  }
  if constexpr (kInteger<T>) {
    if (is(name, "div")) return binary<T, divide<T>>;
    if (is(name, "rem")) return binary<T, remainder<T>>;
    if (is(name, "pow")) return binary<T, power<T>>;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (is(name, "round_half_away")) return unary<T, round_half_away<T>>;
  }
  return nullptr;
}

StridedLoop copy_loop(char size) {
  switch (size) {
    case 1: return copy<uint8_t>;
    case 2: return copy<uint16_t>;
    case 4: return copy<uint32_t>;
    case 8: return copy<uint64_t>;
    case 16: return copy<Sixteen>;
    default: return nullptr;
  }
}

StridedLoop select_loop(char size) {
  switch (size) {
    case 1: return select<uint8_t>;
    case 2: return select<uint16_t>;
    case 4: return select<uint32_t>;
    case 8: return select<uint64_t>;
    case 16: return select<Sixteen>;
    default: return nullptr;
  }
}

char size_of(char type) {
  switch (type) {
    case '?':
    case 'b':
    case 'B': return 1;
    case 'h':
    case 'H':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 'l':
    case 'L':
    case 'd':
    case 'F': return 8;
    case 'D': return 16;
    default: return 0;
  }
}

}  // namespace

StridedLoop KILN_STRIDED_LEVEL(const char* name, char type, char result) {
  if (is(name, "copy")) return copy_loop(size_of(type));
  if (is(name, "select")) return select_loop(size_of(type));
  switch (type) {
    case '?': return loop_for<bool>(name, result);
    case 'b': return loop_for<int8_t>(name, result);
    case 'h': return loop_for<int16_t>(name, result);
    case 'i': return loop_for<int32_t>(name, result);
    case 'l': return loop_for<int64_t>(name, result);
    case 'B': return loop_for<uint8_t>(name, result);
    case 'H': return loop_for<uint16_t>(name, result);
    case 'I': return loop_for<uint32_t>(name, result);
    case 'L': return loop_for<uint64_t>(name, result);
    case 'f': return loop_for<float>(name, result);
    case 'd': return loop_for<double>(name, result);
    default: return nullptr;
  }
}

}  // namespace kiln
