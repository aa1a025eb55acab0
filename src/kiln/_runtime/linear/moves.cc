// Transposes and conversions of 16-bit floats. Compiled once per microarchitecture level, so
// nothing here may be shared with other files.
#include <cstring>
#include <type_traits>
#include <utility>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "linear/levels.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

// A block of this many rows and columns touches few enough pages for the TLB.
constexpr int64_t kBlock = 64;

// The distance to the next block, which is prefetched: the hardware does not follow so many rows.
struct Ahead {
  int64_t from, to;
};

// A square of N x N elements in N registers.
template <typename T, int N>
struct Square {
  typedef T Vector __attribute__((vector_size(N * sizeof(T))));

  // Exchanges, between two rows `S` apart, the lanes that differ in bit S.
  template <int S, int... I>
  static void exchange(Vector& a, Vector& b, std::integer_sequence<int, I...>) {
    const Vector low = __builtin_shufflevector(a, b, ((I & S) == 0 ? I : N + I - S)...);
    b = __builtin_shufflevector(a, b, ((I & S) == 0 ? I + S : N + I)...);
    a = low;
  }
  template <int S>
  static void stage(Vector* rows) {
    for (int i = 0; i < N; ++i) {
      if ((i & S) == 0) exchange<S>(rows[i], rows[i + S], std::make_integer_sequence<int, N>{});
    }
    if constexpr (S > 1) stage<S / 2>(rows);
  }
  static void transpose(const T* from, T* to, int64_t from_step, int64_t to_step, Ahead ahead) {
    // Of short vectors several would prefetch the same line.
    constexpr bool kIsWide = sizeof(Vector) >= 32;
    Vector rows[N];
    for (int i = 0; i < N; ++i) {
      if (kIsWide) __builtin_prefetch(from + i * from_step + ahead.from, 0, 2);
      std::memcpy(&rows[i], from + i * from_step, sizeof(Vector));
    }
    stage<N / 2>(rows);
    for (int i = 0; i < N; ++i) {
      if (kIsWide) __builtin_prefetch(to + i * to_step + ahead.to, 1, 2);
      std::memcpy(to + i * to_step, &rows[i], sizeof(Vector));
    }
  }
};

template <typename T, int N>
void transpose_block(const T* from, T* to, int64_t rows, int64_t columns, int64_t from_step,
                     int64_t to_step, Ahead ahead) {
  const int64_t square_rows = rows / N * N, square_columns = columns / N * N;
  for (int64_t j = 0; j < square_columns; j += N) {
    for (int64_t i = 0; i < square_rows; i += N) {
      Square<T, N>::transpose(from + i * from_step + j, to + j * to_step + i, from_step, to_step,
                              ahead);
    }
    for (int64_t i = square_rows; i < rows; ++i) {
      for (int64_t k = j; k < j + N; ++k) to[k * to_step + i] = from[i * from_step + k];
    }
  }
  for (int64_t j = square_columns; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * to_step + i] = from[i * from_step + j];
  }
}

template <typename T, int N>
void transpose(const void* from_, void* to_, int64_t rows, int64_t columns, int64_t from_step,
               int64_t to_step) {
  const T* from = static_cast<const T*>(from_);
  T* to = static_cast<T*>(to_);
  for (int64_t j = 0; j < columns; j += kBlock) {
    const int64_t width = columns - j < kBlock ? columns - j : kBlock;
    for (int64_t i = 0; i < rows; i += kBlock) {
      const int64_t height = rows - i < kBlock ? rows - i : kBlock;
      Ahead ahead{0, 0};
      if (i + kBlock < rows) ahead = {kBlock * from_step, kBlock};
      else if (j + kBlock < columns) ahead = {kBlock - i * from_step, kBlock * to_step - i};
      transpose_block<T, N>(from + i * from_step + j, to + j * to_step + i, height, width,
                            from_step, to_step, ahead);
    }
  }
}

struct Pair {
  uint64_t first, second;
};

void transpose_pairs(const void* from_, void* to_, int64_t rows, int64_t columns, int64_t from_step,
                     int64_t to_step) {
  constexpr int64_t kSide = 16;
  const Pair* from = static_cast<const Pair*>(from_);
  Pair* to = static_cast<Pair*>(to_);
  for (int64_t first = 0; first < rows; first += kSide) {
    const int64_t last = first + kSide < rows ? first + kSide : rows;
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = first; i < last; ++i) to[j * to_step + i] = from[i * from_step + j];
    }
  }
}

void bf16_to_f32(const void* from_, void* to_, int64_t count) {
  const uint16_t* __restrict from = static_cast<const uint16_t*>(from_);
  uint32_t* __restrict to = static_cast<uint32_t*>(to_);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint32_t>(from[i]) << 16;
}

// Rounds to nearest, ties to even; nan stays nan.
void f32_to_bf16(const void* from_, void* to_, int64_t count) {
  const uint32_t* __restrict from = static_cast<const uint32_t*>(from_);
  uint16_t* __restrict to = static_cast<uint16_t*>(to_);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = from[i];
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
}

float widened(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, magnitude = half & 0x7fff;
  uint32_t bits;
  if (magnitude >= 0x7c00) {
    bits = 0x7f800000 | (magnitude & 0x3ff) << 13 | ((magnitude & 0x3ff) != 0 ? 0x400000 : 0);
  } else if (magnitude >= 0x400) {
    bits = (magnitude << 13) + (112u << 23);
  } else {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    std::memcpy(&bits, &value, sizeof bits);
  }
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint16_t narrowed(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (bits >= 0x477ff000) return sign | 0x7c00;
  if (bits < 0x38800000) {
    // Subnormal: adding a half makes the hardware round at the last bit kept.
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof bits);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | ((bits + 0xfff + (bits >> 13 & 1) - (112u << 23)) >> 13));
}

void f16_to_f32(const void* from_, void* to_, int64_t count) {
  const uint16_t* from = static_cast<const uint16_t*>(from_);
  float* to = static_cast<float*>(to_);
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < count; ++i) to[i] = widened(from[i]);
}

void f32_to_f16(const void* from_, void* to_, int64_t count) {
  const float* from = static_cast<const float*>(from_);
  uint16_t* to = static_cast<uint16_t*>(to_);
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
#endif
  for (; i < count; ++i) to[i] = narrowed(from[i]);
}

}  // namespace

namespace KILN_LEVEL {

#if defined(__AVX512F__)
constexpr int kWords = 16;
#elif defined(__AVX__)
constexpr int kWords = 8;
#else
constexpr int kWords = 4;
#endif
const TransposeLoop transpose_of_1 = transpose<uint8_t, 16>;
const TransposeLoop transpose_of_2 = transpose<uint16_t, (kWords == 16 ? 16 : 8)>;
const TransposeLoop transpose_of_4 = transpose<uint32_t, kWords>;
const TransposeLoop transpose_of_8 = transpose<uint64_t, kWords / 2>;
const TransposeLoop transpose_of_16 = transpose_pairs;
const ConversionLoops conversions{bf16_to_f32, f32_to_bf16, f16_to_f32, f32_to_f16};

}  // namespace KILN_LEVEL
}  // namespace kiln
