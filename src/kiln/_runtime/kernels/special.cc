// Gamma, zeta and Bessel functions, element by element, computed in 64 bits.
// ops/elements/special.py defines what each computes.
#include <cmath>
#include <limits>
#include <type_traits>

#include "abi/symbols.h"
#include "kernels/bessel_series.h"
#include "kernels/element_types.h"

namespace kiln {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr double kPi = 3.14159265358979323846;

double log_gamma(double x) {
  if (std::isinf(x)) return kInfinity;
  int sign;  // std::lgamma would write it to a global variable
  return lgamma_r(x, &sign);
}

// From here on the asymptotic series of digamma has full precision; that of zeta from here plus s.
constexpr double kAsymptotic = 10.0;
// Bernoulli numbers B(2n) / 2n.
constexpr double kDigammaTerms[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                    1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};

// Near the positive root every term is a multiple of the distance to it: no cancellation.
double digamma_near_root(double x) {
  constexpr double kRoot = 1.4616321449683622, kRootRest = 9.549995429965697e-17;
  const double distance = x - kRoot - kRootRest;
  double sum = 0, a = x, b = kRoot;
  for (; b < kAsymptotic; a += 1, b += 1) sum += 1 / (a * b);
  const double u = 1 / (a * a), v = 1 / (b * b);
  const double apart = -(a + b) * u * v;  // (u - v) / distance
  double tail = std::log1p(distance / b) + 0.5 * distance / (a * b);
  double powers = apart, power = v;  // (u^n - v^n) / distance, v^n
  for (double term : kDigammaTerms) {
    tail -= term * powers * distance;
    powers = u * powers + power * apart;
    power *= v;
  }
  return distance * sum + tail;
}

double digamma(double x) {
  if (x > 1 && x < 2) return digamma_near_root(x);
  double out = 0;
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    out = -kPi / std::tan(kPi * (x - std::nearbyint(x)));
    x = 1 - x;
  }
  for (; x < kAsymptotic; x += 1) out -= 1 / x;
  const double u = 1 / (x * x);
  double sum = 0, power = u;
  for (double term : kDigammaTerms) {
    sum += term * power;
    power *= u;
  }
  return out + std::log(x) - 0.5 / x - sum;
}

// Hurwitz's zeta function where q > 0, by Euler's and Maclaurin's formula.
double zeta_right(double s, double q) {
  double sum = 0;
  for (const double far = kAsymptotic + s; q < far; q += 1) {
    const double term = std::pow(q, -s);
    sum += term;
    if (term < 0.125 * kEpsilon * sum) return sum;
  }
  const double power = std::pow(q, -s);
  sum += power * (q / (s - 1)) + 0.5 * power;
  // B(2n) / (2n)!
  constexpr double kTerms[] = {1.0 / 12,
                               -1.0 / 720,
                               1.0 / 30240,
                               -1.0 / 1209600,
                               1.0 / 47900160,
                               -691.0 / 1307674368000.0,
                               1.0 / 74724249600.0,
                               -3617.0 / 10670622842880000.0,
                               43867.0 / 5109094217170944000.0,
                               -174611.0 / 802857662698291200000.0};
  double factor = s * power / q, order = s;
  for (double term : kTerms) {
    const double part = term * factor;
    sum += part;
    if (std::fabs(part) < 0.125 * kEpsilon * std::fabs(sum)) break;
    factor *= (order + 1) * (order + 2) / (q * q);
    order += 2;
  }
  return sum;
}

double zeta(double s, double q) {
  if (s == 1) return kInfinity;
  if (s < 1 || q != q || std::isinf(s)) return kNan;
  if (q <= 0 && q == std::floor(q)) return kInfinity;
  if (s != s) return kNan;
  if (q > 0) return std::isinf(q) ? 0 : zeta_right(s, q);
  if (s != std::floor(s)) return kNan;
  // Terms left of 0 are the difference of two such functions of their absolute values.
  const double rest = q - std::floor(q);
  const double right = zeta_right(s, rest), mirrored = zeta_right(s, 1 - rest);
  const double beyond = zeta_right(s, 1 - q);
  return std::fmod(s, 2) == 0 ? right + (mirrored - beyond) : (right - mirrored) + beyond;
}

double polygamma(double m, double x) {
  if (m == 0) return digamma(x);
  if (!(m > 0) || m != std::floor(m)) return kNan;
  const double high = std::tgamma(m + 1) * zeta(m + 1, x);
  return std::fmod(m, 2) == 0 ? -high : high;
}

// exp(-|x|) times a modified Bessel function of the order 0 or 1.
template <int order>
double scaled_bessel(double given) {
  const double x = std::fabs(given);
  int piece = 3;
  double t, factor = 1;  // the interval mapped to [-1, 1]
  if (x < 1) {
    piece = 0, t = 2 * (x - 0.5);
    if (order == 1) factor = x;
  } else if (x < 3) {
    piece = 1, t = x - 2;
  } else if (x < 8) {
    piece = 2, t = 0.4 * (x - 5.5);
  } else {
    t = 16 / x - 1, factor = 1 / std::sqrt(x);
  }
  const double* terms = kBessel[order][piece];
  double last = 0, before = 0;
  for (int i = kBesselTerms - 1; i > 0; --i) {
    const double next = 2 * t * last - before + terms[i];
    before = last, last = next;
  }
  const double out = (t * last - before + terms[0]) * factor;
  return order == 0 ? out : std::copysign(out, given);
}

inline double wide(Half x) { return static_cast<double>(widen(x)); }
inline double wide(Brain x) { return static_cast<double>(widen(x)); }
inline double wide(float x) { return static_cast<double>(x); }
inline double wide(double x) { return x; }
template <typename T>
void put(double value, T& out) {
  if constexpr (std::is_floating_point_v<T>) out = static_cast<T>(value);
  else narrow(static_cast<float>(value), out);
}

template <typename T>
int32_t compute(void* const* buffers, const int64_t* numbers) {
  const int64_t first = numbers[0], end = first + numbers[1];
  const T* x = static_cast<const T*>(buffers[0]);
  const T* y = static_cast<const T*>(buffers[1]);
  auto unary = [&](double (*of)(double)) {
    T* out = static_cast<T*>(buffers[1]);
    for (int64_t i = first; i < end; ++i) put(of(wide(x[i])), out[i]);
    return kDone;
  };
  auto binary = [&](double (*of)(double, double)) {
    T* out = static_cast<T*>(buffers[2]);
    for (int64_t i = first; i < end; ++i) put(of(wide(x[i]), wide(y[i])), out[i]);
    return kDone;
  };
  switch (numbers[2]) {
    case 0: return unary(log_gamma);
    case 1: return unary(digamma);
    case 2: return unary(scaled_bessel<0>);
    case 3: return unary(scaled_bessel<1>);
    case 4: return binary(polygamma);
    case 5: return binary(zeta);
    default: return kUnsupported;
  }
}

// special. Buffers: one operand, or two of the same shape, then the result, which may be one of
// them. Numbers: first row, rows (elements), function (lgamma, digamma, bessel_i0e, bessel_i1e,
// polygamma, zeta), type.
int32_t special(Call*, void* const* buffers, const int64_t* numbers) {
  switch (numbers[3]) {
    case kFloat16: return compute<Half>(buffers, numbers);
    case kBfloat16: return compute<Brain>(buffers, numbers);
    case kFloat32: return compute<float>(buffers, numbers);
    case kFloat64: return compute<double>(buffers, numbers);
    default: return kUnsupported;
  }
}

}  // namespace

KILN_KERNEL_SYMBOL("special", special)
}  // namespace kiln
