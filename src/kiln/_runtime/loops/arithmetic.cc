// Arithmetic and comparisons. The NumPy rules in ops/elements/elementwise.py and
// ops/elements/edge_semantics.py define what each loop computes.
#include <cmath>

#include "loops/elements.h"

namespace kiln {
namespace {

// Integers wrap around, as on every other engine: they are added as unsigned.
template <typename T>
T add(T a, T b) {
  return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
}
template <typename T>
T subtract(T a, T b) {
  return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
}
template <typename T>
T multiply(T a, T b) {
  return static_cast<T>(Unsigned<T>(a) * Unsigned<T>(b));
}
template <typename T>
T true_divide(T a, T b) {
  return a / b;
}
template <typename T>
T negative(T a) {
  if constexpr (kInteger<T>) return static_cast<T>(Unsigned<T>(0) - Unsigned<T>(a));
  else return -a;
}
template <typename T>
T absolute(T a) {
  if constexpr (std::is_same_v<T, float>) return __builtin_fabsf(a);
  else if constexpr (std::is_same_v<T, double>) return __builtin_fabs(a);
  else return a < 0 ? negative(a) : a;
}

template <typename T>
bool equal(T a, T b) {
  return a == b;
}
template <typename T>
bool not_equal(T a, T b) {
  return a != b;
}
template <typename T>
bool less(T a, T b) {
  return a < b;
}
template <typename T>
bool less_equal(T a, T b) {
  return a <= b;
}
template <typename T>
bool greater(T a, T b) {
  return a > b;
}
template <typename T>
bool greater_equal(T a, T b) {
  return a >= b;
}

// Truncates; all bits set where b is 0; the one overflow yields the lowest number again.
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
  // At least as wide as unsigned int, so that no product overflows a signed type.
  using Wide = std::common_type_t<Unsigned<T>, unsigned>;
  Wide out = 1, base = static_cast<Unsigned<T>>(x);
  for (auto rest = static_cast<Unsigned<T>>(y); rest != 0; rest >>= 1) {
    if (rest & 1) out *= base;
    base *= base;
  }
  return static_cast<T>(out);
}

// A nan wins, the first one if both are nan; 0 is greater than -0.
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

template <typename T>
void clamp(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char *low = args[0], *x = args[1], *high = args[2];
  char* out = args[3];
  for (intptr_t i = 0; i < n;
       ++i, low += steps[0], x += steps[1], high += steps[2], out += steps[3]) {
    store(out, smaller(larger(load<T>(x), load<T>(low)), load<T>(high)));
  }
}

template <typename T, T (*of)(T)>
void add_unary(Registry& all, const char* name) {
  all.add(name, {kType<T>, kType<T>}, unary<T, T, of>);
}

template <typename T, typename R, R (*of)(T, T)>
void add_binary(Registry& all, const char* name) {
  all.add(name, {kType<T>, kType<T>, kType<R>}, binary<T, R, of>);
}

// The operators.
template <typename T>
void add_operators(Registry& all) {
  add_binary<T, T, add<T>>(all, "add");
  add_binary<T, T, subtract<T>>(all, "subtract");
  add_binary<T, T, multiply<T>>(all, "multiply");
  if constexpr (!kInteger<T>) add_binary<T, T, true_divide<T>>(all, "true_divide");
  add_unary<T, negative<T>>(all, "negative");
  add_unary<T, absolute<T>>(all, "absolute");
  add_binary<T, bool, equal<T>>(all, "equal");
  add_binary<T, bool, not_equal<T>>(all, "not_equal");
  add_binary<T, bool, less<T>>(all, "less");
  add_binary<T, bool, less_equal<T>>(all, "less_equal");
  add_binary<T, bool, greater<T>>(all, "greater");
  add_binary<T, bool, greater_equal<T>>(all, "greater_equal");
}

// Operations that NumPy computes differently from kiln, or not at all.
template <typename T>
void add_others(Registry& all) {
  add_binary<T, T, larger<T>>(all, "max");
  add_binary<T, T, smaller<T>>(all, "min");
  all.add("clamp", {kType<T>, kType<T>, kType<T>, kType<T>}, clamp<T>);
  if constexpr (!std::is_same_v<T, bool>) add_unary<T, sign<T>>(all, "sign");
  if constexpr (kInteger<T>) {
    add_binary<T, T, divide<T>>(all, "div");
    add_binary<T, T, remainder<T>>(all, "rem");
    add_binary<T, T, power<T>>(all, "pow");
  }
  if constexpr (std::is_floating_point_v<T>) {
    add_unary<T, round_half_away<T>>(all, "round_half_away");
  }
}

template <typename... T>
void add_each(Registry& all) {
  (add_others<T>(all), ...);
}

}  // namespace

namespace KILN_LEVEL {

void add_arithmetic(Registry& all) {
  add_operators<float>(all);
  add_operators<double>(all);
  add_operators<int32_t>(all);
  add_operators<int64_t>(all);
  add_each<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float,
           double>(all);
}

}  // namespace KILN_LEVEL
}  // namespace kiln
