// One file, compiled for several levels of the processor: KILN_LEVEL names the table it makes.
#include "elementwise.h"

#include <cstdint>
#include <type_traits>

#ifndef KILN_LEVEL
#define KILN_LEVEL kernels_baseline
#endif

namespace kiln {
namespace {

// Integers wrap, as on every other engine: they are added without a sign.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::common_type<T>>::type;

struct Add {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
  }
};
struct Subtract {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(Wrapping<T>(a) - Wrapping<T>(b));
  }
};
struct Multiply {
  template <typename T>
  static T of(T a, T b) {
    return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
  }
};
struct Divide {
  template <typename T>
  static T of(T a, T b) {
    return a / b;
  }
};
struct Equal {
  template <typename T>
  static bool of(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <typename T>
  static bool of(T a, T b) {
    return a != b;
  }
};
struct Less {
  template <typename T>
  static bool of(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  static bool of(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  static bool of(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <typename T>
  static bool of(T a, T b) {
    return a >= b;
  }
};
struct Negative {
  template <typename T>
  static T of(T a) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(Wrapping<T>(0) - Wrapping<T>(a));
    else return -a;
  }
};
struct Absolute {
  template <typename T>
  static T of(T a) {
    if constexpr (std::is_same_v<T, float>) return __builtin_fabsf(a);
    else if constexpr (std::is_same_v<T, double>) return __builtin_fabs(a);
    else return a < 0 ? Negative::of(a) : a;
  }
};

template <typename Op, typename T>
void binary(const void* left, const void* right, void* result, size_t count, bool a_is_scalar,
            bool b_is_scalar) {
  using R = decltype(Op::of(T(), T()));
  const T* __restrict a = static_cast<const T*>(left);
  const T* __restrict b = static_cast<const T*>(right);
  R* __restrict out = static_cast<R*>(result);
  if (a_is_scalar) {
    const T first = count > 0 ? *a : T();
    for (size_t i = 0; i < count; ++i) out[i] = Op::of(first, b[i]);
  } else if (b_is_scalar) {
    const T first = count > 0 ? *b : T();
    for (size_t i = 0; i < count; ++i) out[i] = Op::of(a[i], first);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = Op::of(a[i], b[i]);
  }
}

template <typename Op, typename T>
void unary(const void* operand, void* result, size_t count) {
  const T* __restrict a = static_cast<const T*>(operand);
  T* __restrict out = static_cast<T*>(result);
  for (size_t i = 0; i < count; ++i) out[i] = Op::of(a[i]);
}

template <typename Op>
void fill(BinaryLoop* row, bool integers) {
  row[kFloat32] = binary<Op, float>;
  row[kFloat64] = binary<Op, double>;
  row[kInt32] = integers ? binary<Op, int32_t> : nullptr;
  row[kInt64] = integers ? binary<Op, int64_t> : nullptr;
}

template <typename Op>
void fill(UnaryLoop* row) {
  row[kFloat32] = unary<Op, float>;
  row[kFloat64] = unary<Op, double>;
  row[kInt32] = unary<Op, int32_t>;
  row[kInt64] = unary<Op, int64_t>;
}

Kernels make() {
  Kernels made = {};
  fill<Add>(made.binary[kAdd], true);
  fill<Subtract>(made.binary[kSubtract], true);
  fill<Multiply>(made.binary[kMultiply], true);
  fill<Divide>(made.binary[kDivide], false);
  fill<Equal>(made.binary[kEqual], true);
  fill<NotEqual>(made.binary[kNotEqual], true);
  fill<Less>(made.binary[kLess], true);
  fill<LessEqual>(made.binary[kLessEqual], true);
  fill<Greater>(made.binary[kGreater], true);
  fill<GreaterEqual>(made.binary[kGreaterEqual], true);
  fill<Negative>(made.unary[kNegative]);
  fill<Absolute>(made.unary[kAbsolute]);
  return made;
}

}  // namespace

const Kernels& KILN_LEVEL() {
  static const Kernels made = make();
  return made;
}

}  // namespace kiln
