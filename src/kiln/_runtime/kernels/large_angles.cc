// sin, cos and tan of arguments that generated code does not reduce itself: in place, for all lanes
// of a vector.
#include <math.h>
#include <stdint.h>

#include "kernels/leveled.h"

namespace kiln::KILN_LEVEL {
namespace {

enum Function { kSin, kCos, kTan };

// Up to this multiple of pi / 2, reduction uses two products: the remainder is exact enough for 32
// bits.
[[maybe_unused]] constexpr double kReducible = 1 << 30;
constexpr double kHalfPi = 1.57079632679489662, kHalfPiRest = 6.12323399573676604e-17;

// The fraction of 2 / pi, 64 bits each, after a word of zeros.
constexpr uint64_t kWords[] = {
    0,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
};

// x = quarter * pi / 2 + r + rest, to twice the precision, of finite |x| > 2^16: the bits of 2 / pi
// that matter are multiplied as integers (Payne and Hanek 1983; libraries are less exact next to
// multiples of pi / 2).
struct Reduced {
  double r, rest;
  int64_t quarter;
};

Reduced reduced(double x) {
  uint64_t raw;
  __builtin_memcpy(&raw, &x, sizeof raw);
  const uint64_t mantissa = (raw & ((1ULL << 52) - 1)) | (1ULL << 52);
  // Bits above weight 4 would add whole turns: the first word has two bits before the binary point.
  const int start = static_cast<int>(raw >> 52 & 0x7FF) - (1023 + 52) + 62;
  const int shift = start & 63;
  uint64_t words[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t* w = kWords + (start >> 6) + i;
    words[i] = (w[0] << shift) | ((w[1] >> 1) >> (63 - shift));
  }
  using Wide = unsigned __int128;
  const Wide product = ((Wide{mantissa} * words[0]) << 64) + Wide{mantissa} * words[1] +
                       (Wide{mantissa} * words[2] >> 64);
  const uint64_t high = product >> 64, middle = product;
  const uint64_t quarter = (high + (1ULL << 61)) >> 62;
  const int64_t fraction = static_cast<int64_t>(high - (quarter << 62));
  // The leading bits of the fraction as a double, and the 64 bits after them.
  const int64_t main = fraction & -(1 << 10);
  const double below = static_cast<double>(fraction & ((1 << 10) - 1)) * 0x1p-62 +
                       static_cast<double>(middle >> 11) * 0x1p-115;
  const double turn = static_cast<double>(main) * 0x1p-62;
  const double r = turn * kHalfPi;
  const double rest = below * kHalfPi + (turn * kHalfPiRest + __builtin_fma(turn, kHalfPi, -r));
  const double total = r + rest, low = rest - (total - r);
  const auto turns = static_cast<int64_t>(quarter);
  return x < 0 ? Reduced{-total, -low, -turns} : Reduced{total, low, turns};
}

// sin, cos or tan of an angle of at most an eighth of a turn, and of what doubles cannot hold of it.
long double of_angle(Function function, double angle, double rest) {
  if constexpr (sizeof(long double) == sizeof(double)) {  // as on macOS on ARM: to first order
    if (function == kSin) return sin(angle) + cos(angle) * rest;
    if (function == kCos) return cos(angle) - sin(angle) * rest;
    const double tangent = tan(angle);
    return tangent + (1 + tangent * tangent) * rest;
  }
  const long double all = static_cast<long double>(angle) + rest;
  return function == kSin ? sinl(all) : function == kCos ? cosl(all) : tanl(all);
}

double of_double(Function function, double x) {
  if (!(fabs(x) > 0x1p16)) return function == kSin ? sin(x) : function == kCos ? cos(x) : tan(x);
  if (isinf(x)) return NAN;
  const Reduced found = reduced(x);
  const bool odd = (found.quarter & 1) != 0;
  if (function == kTan) {
    const long double tangent = of_angle(kTan, found.r, found.rest);
    return static_cast<double>(odd ? -1 / tangent : tangent);
  }
  const int64_t quarter = found.quarter + (function == kCos ? 1 : 0);
  const auto value =
      static_cast<double>(of_angle((quarter & 1) != 0 ? kCos : kSin, found.r, found.rest));
  return (quarter & 2) != 0 ? -value : value;
}

template <Function function>
float of_reduced(double x) {
  const double count = __builtin_rint(x * (1 / kHalfPi));
  const double r = __builtin_fma(-count, kHalfPiRest, __builtin_fma(-count, kHalfPi, x));
  const double z = r * r;
  const double sine =
      r + r * z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880))));
  const double cosine =
      1 + z * (-0.5 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 - z * (1.0 / 3628800)))));
  const int32_t quarter = static_cast<int32_t>(count) + (function == kCos ? 1 : 0);
  const double even = function == kTan ? sine / cosine : sine;
  const double odd = function == kTan ? -cosine / sine : cosine;
  const double found = (quarter & 1) != 0 ? odd : even;
  return static_cast<float>(function != kTan && (quarter & 2) != 0 ? -found : found);
}

template <Function function>
void of_floats(float* x, int64_t count) {
#if defined(__FMA__) || defined(__aarch64__)
  bool reducible = true;
  for (int64_t i = 0; i < count; ++i) reducible &= fabsf(x[i]) < kReducible;
  if (reducible) {
    for (int64_t i = 0; i < count; ++i) x[i] = of_reduced<function>(x[i]);
    return;
  }
#endif
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(of_double(function, x[i]));
}

template <Function function>
void of_doubles(double* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = of_double(function, x[i]);
}

}  // namespace

void sin_f32(float* x, int64_t count) { of_floats<kSin>(x, count); }
void cos_f32(float* x, int64_t count) { of_floats<kCos>(x, count); }
void tan_f32(float* x, int64_t count) { of_floats<kTan>(x, count); }
void sin_f64(double* x, int64_t count) { of_doubles<kSin>(x, count); }
void cos_f64(double* x, int64_t count) { of_doubles<kCos>(x, count); }
void tan_f64(double* x, int64_t count) { of_doubles<kTan>(x, count); }

}  // namespace kiln::KILN_LEVEL
