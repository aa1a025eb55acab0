// Loops that move, convert, select and search elements. The NumPy rules in ops/ define what each
// computes.
#include <limits>

#include "loops/elements.h"

namespace kiln {
namespace {

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

// Moves elements of one size, of any type.
template <typename T>
void copy(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char* a = args[0];
  char* out = args[1];
  constexpr intptr_t kDense = sizeof(T);
  if (steps[0] == kDense && steps[1] == kDense) {
    std::memmove(out, a, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  for (intptr_t i = 0; i < n; ++i, a += steps[0], out += steps[1]) store(out, load<T>(a));
}

// Operands: which, on_false, on_true.
template <typename T>
void select(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char *which = args[0], *off = args[1], *on = args[2];
  char* out = args[3];
  for (intptr_t i = 0; i < n;
       ++i, which += steps[0], off += steps[1], on += steps[2], out += steps[3]) {
    store(out, load<T>(*which ? on : off));
  }
}

// The whole count gives one result: the first index of the extreme; a nan precedes all numbers.
template <typename T, typename I, bool largest>
void position(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char* a = args[0];
  T best = load<T>(a);
  intptr_t at = 0;
  for (intptr_t i = 0; i < n && best == best; ++i, a += steps[0]) {
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

template <typename T, typename... U>
void add_conversions(Registry& all) {
  (all.add("convert", {kType<T>, kType<U>}, unary<T, U, convert<T, U>>), ...);
}

template <typename T, typename I>
void add_positions(Registry& all) {
  all.add("argmax", {kType<T>, kType<I>}, position<T, I, true>);
  all.add("argmin", {kType<T>, kType<I>}, position<T, I, false>);
}

template <typename... T>
void add_each(Registry& all) {
  (add_conversions<T, bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                   uint64_t, float, double>(all),
   ...);
  (add_positions<T, int32_t>(all), ...);
  (add_positions<T, int64_t>(all), ...);
}

// Types of the same size are moved by the same loop.
template <typename T>
void add_moves(Registry& all, std::initializer_list<char> types) {
  for (char type : types) {
    all.add("copy", {type, type}, copy<T>);
    all.add("select", {kType<bool>, type, type, type}, select<T>);
  }
}

}  // namespace

namespace KILN_LEVEL {

void add_moving(Registry& all) {
  add_moves<uint8_t>(all, {'?', 'b', 'B'});
  add_moves<uint16_t>(all, {'h', 'H', 'e'});
  add_moves<uint32_t>(all, {'i', 'I', 'f'});
  add_moves<uint64_t>(all, {'l', 'L', 'd', 'F'});
  add_moves<Sixteen>(all, {'D'});
  add_each<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float,
           double>(all);
}

}  // namespace KILN_LEVEL
}  // namespace kiln
