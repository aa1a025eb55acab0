// Narrow numbers packed in words of 32 bits, and tiles of pairs of 16-bit integers. Compiled once
// per microarchitecture level, so nothing here may be shared with other files.
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "linear/products/word_tiles.h"
#include "machine/vectors.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

constexpr int kRows = kBytes == 64 ? 12 : 6;

// Adds both products of two words' 16-bit integers.
struct PairDot {
  using Vector = kiln::Vector<uint32_t>;
  static Vector add(Vector sums, Vector a, Vector b) {
#if defined(__AVX512F__)
    return sums + reinterpret_cast<Vector>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a),
                                                             reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
    return sums + reinterpret_cast<Vector>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a),
                                                             reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__)
    return sums + reinterpret_cast<Vector>(
                      _mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    using Signed = kiln::Vector<int32_t>;
    const Signed left = reinterpret_cast<Signed>(a), right = reinterpret_cast<Signed>(b);
    const Signed low = (left << 16 >> 16) * (right << 16 >> 16);
    return sums + reinterpret_cast<Vector>(low) +
           reinterpret_cast<Vector>((left >> 16) * (right >> 16));
#endif
  }
};

// How an element becomes a part of a word.
struct BrainFloat {
  using From = uint16_t;
  using To = uint32_t;
  static uint32_t of(uint16_t x) { return static_cast<uint32_t>(x) << 16; }
};
template <typename T>
struct IntegerFloat {
  using From = T;
  using To = float;
  static float of(T x) { return static_cast<float>(x); }
};
// Eight bits are few enough for a bf16: it is the upper half of the f32.
template <typename T>
struct IntegerBrain {
  using From = T;
  using To = uint16_t;
  static uint16_t of(T x) {
    const float value = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<uint16_t>(bits >> 16);
  }
};
template <typename T>
struct IntegerWord {
  using From = T;
  using To = int16_t;
  static int16_t of(T x) { return x; }
};
template <typename T>
struct Same {
  using From = T;
  using To = T;
  static T of(T x) { return x; }
};
struct Shifted {
  using From = uint8_t;
  using To = uint8_t;
  static uint8_t of(uint8_t x) { return x ^ 0x80; }
};

template <typename Part>
constexpr int64_t kParts = 4 / static_cast<int64_t>(sizeof(typename Part::To));

template <typename Part>
void line(const void* from_, int64_t count, void* to_) {
  const auto* __restrict from = static_cast<const typename Part::From*>(from_);
  auto* __restrict to = static_cast<typename Part::To*>(to_);
  for (int64_t i = 0; i < count; ++i) to[i] = Part::of(from[i]);
  for (int64_t i = count; i % kParts<Part> != 0; ++i) to[i] = Part::of(0);
}

template <typename Part>
uint32_t part(typename Part::From x, int at) {
  using To = typename Part::To;
  if constexpr (std::is_floating_point_v<To>) {
    const To made = Part::of(x);
    uint32_t word;
    std::memcpy(&word, &made, sizeof word);
    return word;
  } else {
    const auto made = static_cast<std::make_unsigned_t<To>>(Part::of(x));
    return static_cast<uint32_t>(made) << (8 * static_cast<int>(sizeof made) * at);
  }
}

// Words of `rows` rows, all that a word holds or fewer.
template <typename Part>
void interleave(const typename Part::From* __restrict from, int64_t from_row, int64_t rows,
                int64_t columns, uint32_t* __restrict to) {
  constexpr int64_t kAll = kParts<Part>;
  const auto *second = from + from_row, *third = second + from_row, *fourth = third + from_row;
  if (rows >= kAll) {
    for (int64_t j = 0; j < columns; ++j) {
      uint32_t word = part<Part>(from[j], 0);
      if constexpr (kAll >= 2) word |= part<Part>(second[j], 1);
      if constexpr (kAll >= 4) word |= part<Part>(third[j], 2) | part<Part>(fourth[j], 3);
      to[j] = word;
    }
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    uint32_t word = 0;
    for (int row = 0; row < kAll; ++row) {
      word |= part<Part>(row < rows ? from[row * from_row + j] : typename Part::From(0), row);
    }
    to[j] = word;
  }
}

constexpr int64_t kColumns = kBytes / 2;

template <typename Part>
void panels(const void* from_, int64_t from_row, int64_t rows, int64_t columns, void* to_,
            int64_t to_panel) {
  const auto* from = static_cast<const typename Part::From*>(from_);
  uint32_t* to = static_cast<uint32_t*>(to_);
  const int64_t whole = columns / kColumns, rest = columns % kColumns;
  for (; rows > 0; rows -= kParts<Part>, from += kParts<Part> * from_row, to += kColumns) {
    for (int64_t p = 0; p < whole; ++p) {
      // A constant trip count, for vectors without a remainder loop.
      interleave<Part>(from + p * kColumns, from_row, rows, kColumns, to + p * to_panel);
    }
    if (rest == 0) continue;
    uint32_t* last = to + whole * to_panel;
    interleave<Part>(from + whole * kColumns, from_row, rows, rest, last);
    for (int64_t j = rest; j < kColumns; ++j) last[j] = 0;
  }
}

void half_line(const void* from, int64_t count, void* to) {
  conversion_loops().f16_to_f32(from, to, count);
}

void half_panels(const void* from_, int64_t from_row, int64_t rows, int64_t columns, void* to_,
                 int64_t to_panel) {
  const uint16_t* from = static_cast<const uint16_t*>(from_);
  float* to = static_cast<float*>(to_);
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += kColumns) {
    for (int64_t j = 0; j < columns; j += kColumns) {
      float* panel = to + j / kColumns * to_panel;
      const int64_t width = columns - j < kColumns ? columns - j : kColumns;
      conversion_loops().f16_to_f32(from + j, panel, width);
      for (int64_t k = width; k < kColumns; ++k) panel[k] = 0;
    }
  }
}

// B is read in rows, and the sums of a range of columns are in the L1 cache: four terms are added
// before a sum is stored. Each sum is a chain in the order of `depth`, as in a tile.
constexpr int64_t kThinColumns = 512;

float as_float(float x) { return x; }
float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename Part, int R, int kTerms>
void add_terms(const float* a, const typename Part::From* b, int64_t b_row, int64_t columns,
               float (*__restrict sums)[kThinColumns]) {
  for (int64_t j = 0; j < columns; ++j) {
    float right[kTerms];
#pragma GCC unroll 4
    for (int i = 0; i < kTerms; ++i) right[i] = as_float(Part::of(b[i * b_row + j]));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float sum = sums[r][j];
#pragma GCC unroll 4
      for (int i = 0; i < kTerms; ++i) sum += a[r * kPackedRow<float> + i] * right[i];
      sums[r][j] = sum;
    }
  }
}

template <typename Part, int R>
void thin_rows(const TileBlock& block, int64_t row) {
  const float* a = static_cast<const float*>(block.a) + row * kPackedRow<float>;
  float* c = static_cast<float*>(block.c) + row * block.c_row;
  alignas(64) float sums[R][kThinColumns];
  for (int64_t j = 0; j < block.columns; j += kThinColumns) {
    const int64_t width = block.columns - j < kThinColumns ? block.columns - j : kThinColumns;
    std::memset(sums, 0, sizeof sums);
    const auto* b = static_cast<const typename Part::From*>(block.b) + j;
    int64_t i = 0;
    for (; i + 4 <= block.depth; i += 4) {
      add_terms<Part, R, 4>(a + i, b + i * block.b_row, block.b_row, width, sums);
    }
    for (; i < block.depth; ++i) {
      add_terms<Part, R, 1>(a + i, b + i * block.b_row, block.b_row, width, sums);
    }
    for (int r = 0; r < R; ++r) {
      float* to = c + r * block.c_row + j;
      for (int64_t k = 0; k < width; ++k) to[k] = block.add ? sums[r][k] + to[k] : sums[r][k];
    }
  }
}

template <typename Part>
void run_thin(const TileBlock& block) {
  int64_t row = 0;
  for (; row + 4 <= block.rows; row += 4) thin_rows<Part, 4>(block, row);
  if (row + 2 <= block.rows) {
    thin_rows<Part, 2>(block, row);
    row += 2;
  }
  if (row < block.rows) thin_rows<Part, 1>(block, row);
}

template <typename Part>
constexpr WordPacking kPacking{line<Part>, panels<Part>};

}  // namespace

namespace KILN_LEVEL {

const WordLoops words{
    run_word_tiles<PairDot, kRows>,
    {
        // kFloatWord, of f32, bf16, f16, i8, u8
        {kPacking<Same<float>>,
         kPacking<BrainFloat>,
         {half_line, half_panels},
         kPacking<IntegerFloat<int8_t>>,
         kPacking<IntegerFloat<uint8_t>>},
        // kBrainWord
        {{},
         kPacking<Same<uint16_t>>,
         {},
         kPacking<IntegerBrain<int8_t>>,
         kPacking<IntegerBrain<uint8_t>>},
        // kPairWord
        {{}, {}, {}, kPacking<IntegerWord<int8_t>>, kPacking<IntegerWord<uint8_t>>},
        // kByteWord
        {{}, {}, {}, kPacking<Same<uint8_t>>, kPacking<Same<uint8_t>>},
        // kShiftedWord
        {{}, {}, {}, kPacking<Shifted>, kPacking<Shifted>},
    },
    {nullptr, run_thin<BrainFloat>, nullptr, run_thin<IntegerFloat<int8_t>>,
     run_thin<IntegerFloat<uint8_t>>}};

}  // namespace KILN_LEVEL
}  // namespace kiln
