// How loops read, write and traverse elements. Everything is private to each file that includes it:
// a file is compiled for several microarchitecture levels, and none may run the code of another.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "loops/registry.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

// NumPy's type characters.
template <typename T>
constexpr char kType = 0;
template <>
constexpr char kType<bool> = '?';
template <>
constexpr char kType<int8_t> = 'b';
template <>
constexpr char kType<int16_t> = 'h';
template <>
constexpr char kType<int32_t> = 'i';
template <>
constexpr char kType<int64_t> = 'l';
template <>
constexpr char kType<uint8_t> = 'B';
template <>
constexpr char kType<uint16_t> = 'H';
template <>
constexpr char kType<uint32_t> = 'I';
template <>
constexpr char kType<uint64_t> = 'L';
template <>
constexpr char kType<float> = 'f';
template <>
constexpr char kType<double> = 'd';

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

// The representation of an element in memory. A byte that is neither 0 nor 1 is not a valid bool,
// but counts as true.
template <typename T>
using Stored = typename std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
template <typename T>
T read(Stored<T> stored) {
  if constexpr (std::is_same_v<T, bool>) return stored != 0;
  else return stored;
}

template <typename T>
bool is_aligned(const char* p) {
  return reinterpret_cast<uintptr_t>(p) % alignof(T) == 0;
}

// Whether a result does not overlap an operand, and both are aligned.
template <typename T, typename R>
bool are_apart(const char* a, const char* out, intptr_t n) {
  const intptr_t bytes = sizeof(T), written = sizeof(R);
  return (a + n * bytes <= out || out + n * written <= a) && is_aligned<T>(a) && is_aligned<R>(out);
}

// Loops load their trip count first: as far as the compiler knows, the result may alias it.
template <typename T, typename R, R (*of)(T)>
void unary(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char* a = args[0];
  char* out = args[1];
  if (steps[0] == sizeof(T) && steps[1] == sizeof(R) && are_apart<T, R>(a, out, n)) {
    const Stored<T>* __restrict from = reinterpret_cast<const Stored<T>*>(a);
    R* __restrict to = reinterpret_cast<R*>(out);
    for (intptr_t i = 0; i < n; ++i) to[i] = of(read<T>(from[i]));
    return;
  }
  for (intptr_t i = 0; i < n; ++i, a += steps[0], out += steps[1]) store(out, of(load<T>(a)));
}

template <typename T, typename R, R (*of)(T, T)>
void binary(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char *a = args[0], *b = args[1];
  char* out = args[2];
  constexpr intptr_t kItem = sizeof(T);
  const bool a_is_dense = steps[0] == kItem, b_is_dense = steps[1] == kItem;
  if (n > 0 && steps[2] == sizeof(R) && (a_is_dense || steps[0] == 0) &&
      (b_is_dense || steps[1] == 0) && are_apart<T, R>(a, out, n) && are_apart<T, R>(b, out, n)) {
    const Stored<T>* __restrict left = reinterpret_cast<const Stored<T>*>(a);
    const Stored<T>* __restrict right = reinterpret_cast<const Stored<T>*>(b);
    R* __restrict to = reinterpret_cast<R*>(out);
    if (a_is_dense && b_is_dense) {
      for (intptr_t i = 0; i < n; ++i) to[i] = of(read<T>(left[i]), read<T>(right[i]));
      return;
    }
    if (b_is_dense) {
      const T first = read<T>(*left);
      for (intptr_t i = 0; i < n; ++i) to[i] = of(first, read<T>(right[i]));
      return;
    }
    if (a_is_dense) {
      const T second = read<T>(*right);
      for (intptr_t i = 0; i < n; ++i) to[i] = of(read<T>(left[i]), second);
      return;
    }
  }
  for (intptr_t i = 0; i < n; ++i, a += steps[0], b += steps[1], out += steps[2]) {
    store(out, of(load<T>(a), load<T>(b)));
  }
}

}  // namespace
}  // namespace kiln
