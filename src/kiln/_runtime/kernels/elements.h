// How loops read, write and walk over elements. All of it is private to each file that includes it:
// a file is compiled for several levels of the processor, and none may run the code of another.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "registry.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

// NumPy's characters.
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

// Loops read their count first: as far as the compiler knows, a result may be written over it.
template <typename T, typename R, R (*of)(T)>
void unary(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char* a = args[0];
  char* out = args[1];
  if (steps[0] == sizeof(T) && steps[1] == sizeof(R)) {
    for (intptr_t i = 0; i < n; ++i) {
      store(out + i * sizeof(R), of(load<T>(a + i * sizeof(T))));
    }
    return;
  }
  for (intptr_t i = 0; i < n; ++i, a += steps[0], out += steps[1]) store(out, of(load<T>(a)));
}

template <typename T, typename R, R (*of)(T, T)>
void binary(char** args, const intptr_t* count, const intptr_t* steps, void*) {
  const intptr_t n = *count;
  const char *a = args[0], *b = args[1];
  char* out = args[2];
  constexpr intptr_t kItem = sizeof(T), kResult = sizeof(R);
  if (n > 0 && steps[2] == kResult) {
    if (steps[0] == kItem && steps[1] == kItem) {
      for (intptr_t i = 0; i < n; ++i) {
        store(out + i * kResult, of(load<T>(a + i * kItem), load<T>(b + i * kItem)));
      }
      return;
    }
    if (steps[0] == 0 && steps[1] == kItem) {
      const T first = load<T>(a);
      for (intptr_t i = 0; i < n; ++i) {
        store(out + i * kResult, of(first, load<T>(b + i * kItem)));
      }
      return;
    }
    if (steps[0] == kItem && steps[1] == 0) {
      const T second = load<T>(b);
      for (intptr_t i = 0; i < n; ++i) {
        store(out + i * kResult, of(load<T>(a + i * kItem), second));
      }
      return;
    }
  }
  for (intptr_t i = 0; i < n; ++i, a += steps[0], b += steps[1], out += steps[2]) {
    store(out, of(load<T>(a), load<T>(b)));
  }
}

}  // namespace
}  // namespace kiln
