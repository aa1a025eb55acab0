// Stockham's transform of adjacent columns, real and imaginary parts apart: every loop is over
// consecutive numbers.
#include "fft_columns.h"

#include <cstring>

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

#if defined(__AVX512F__)
constexpr int kVector = 64;
#elif defined(__AVX2__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif

template <typename T>
struct Vectors;
template <>
struct Vectors<float> {
  typedef float V __attribute__((vector_size(kVector)));
};
template <>
struct Vectors<double> {
  typedef double V __attribute__((vector_size(kVector)));
};

template <typename T>
struct Complex {
  using V = typename Vectors<T>::V;
  V re, im;

  Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  Complex operator*(T b) const { return {re * b, im * b}; }
  Complex times_i() const { return {-im, re}; }
  // By a complex number in memory.
  Complex turned(const T* w) const { return {re * w[0] - im * w[1], re * w[1] + im * w[0]}; }
};

template <typename T>
struct Planes {
  T *re, *im;

  Complex<T> load(int64_t at) const {
    Complex<T> x;
    std::memcpy(&x.re, re + at, sizeof x.re);
    std::memcpy(&x.im, im + at, sizeof x.im);
    return x;
  }
  void store(int64_t at, const Complex<T>& x) const {
    std::memcpy(re + at, &x.re, sizeof x.re);
    std::memcpy(im + at, &x.im, sizeof x.im);
  }
};

// The transforms of a few numbers, in place.
template <typename T, int radix>
void transform(Complex<T>* a) {
  if constexpr (radix == 2) {
    const Complex<T> b = a[1];
    a[1] = a[0] - b;
    a[0] = a[0] + b;
  } else if constexpr (radix == 3) {
    constexpr T kSine = static_cast<T>(0.866025403784438646763723170752936L);
    const Complex<T> sum = a[1] + a[2], turn = ((a[1] - a[2]) * kSine).times_i();
    const Complex<T> middle = a[0] - sum * T(0.5);
    a[0] = a[0] + sum;
    a[1] = middle - turn;
    a[2] = middle + turn;
  } else if constexpr (radix == 4) {
    const Complex<T> s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3];
    const Complex<T> u = (a[1] - a[3]).times_i();
    a[0] = s + t;
    a[1] = d - u;
    a[2] = s - t;
    a[3] = d + u;
  } else {
    static_assert(radix == 5);
    constexpr T kCosine1 = static_cast<T>(0.309016994374947424102293417182819L);
    constexpr T kCosine2 = static_cast<T>(-0.809016994374947424102293417182819L);
    constexpr T kSine1 = static_cast<T>(0.951056516295153572116439333379382L);
    constexpr T kSine2 = static_cast<T>(0.587785252292473129168705954639073L);
    const Complex<T> s1 = a[1] + a[4], s2 = a[2] + a[3], d1 = a[1] - a[4], d2 = a[2] - a[3];
    const Complex<T> m1 = a[0] + s1 * kCosine1 + s2 * kCosine2;
    const Complex<T> m2 = a[0] + s1 * kCosine2 + s2 * kCosine1;
    const Complex<T> n1 = (d1 * kSine1 + d2 * kSine2).times_i();
    const Complex<T> n2 = (d1 * kSine2 - d2 * kSine1).times_i();
    a[0] = a[0] + s1 + s2;
    a[1] = m1 - n1;
    a[2] = m2 - n2;
    a[3] = m2 + n2;
    a[4] = m1 + n1;
  }
}

template <typename T, int radix>
void run_stage(const FftStage<T>& stage, Planes<T> x, Planes<T> y, int64_t s) {
  constexpr int64_t kStep = kVector / static_cast<int64_t>(sizeof(T));
  for (int64_t k = 0; k < stage.rest; ++k) {
    const T* w = stage.twiddles + k * (radix - 1) * 2;
    for (int64_t q = 0; q < s; q += kStep) {
      Complex<T> a[radix];
      for (int j = 0; j < radix; ++j) a[j] = x.load(q + s * (k + stage.rest * j));
      transform<T, radix>(a);
      y.store(q + s * radix * k, a[0]);
      for (int j = 1; j < radix; ++j) {
        y.store(q + s * (radix * k + j), a[j].turned(w + 2 * (j - 1)));
      }
    }
  }
}

template <typename T>
void run_any_stage(const FftStage<T>& stage, Planes<T> x, Planes<T> y, int64_t s) {
  constexpr int64_t kStep = kVector / static_cast<int64_t>(sizeof(T));
  const int64_t radix = stage.radix;
  Complex<T> sums[kLargestRadix / 2 + 1], differences[kLargestRadix / 2 + 1];
  const int64_t half = radix / 2;
  for (int64_t k = 0; k < stage.rest; ++k) {
    const T* w = stage.twiddles + k * (radix - 1) * 2;
    for (int64_t q = 0; q < s; q += kStep) {
      const Complex<T> first = x.load(q + s * k);
      Complex<T> total = first;
      for (int64_t j = 1; j <= half; ++j) {
        const Complex<T> a = x.load(q + s * (k + stage.rest * j));
        const Complex<T> b = x.load(q + s * (k + stage.rest * (radix - j)));
        sums[j] = a + b;
        differences[j] = (a - b).times_i();
        total = total + sums[j];
      }
      y.store(q + s * radix * k, total);
      // Roots of j and of radix - j are conjugate.
      for (int64_t out = 1; out <= half; ++out) {
        Complex<T> even = first, odd{};
        for (int64_t j = 1, place = out; j <= half; ++j) {
          even = even + sums[j] * stage.roots[2 * place];
          odd = odd + differences[j] * stage.roots[2 * place + 1];
          place += out;
          if (place >= radix) place -= radix;
        }
        const int64_t mirror = radix - out;
        y.store(q + s * (radix * k + out), (even + odd).turned(w + 2 * (out - 1)));
        y.store(q + s * (radix * k + mirror), (even - odd).turned(w + 2 * (mirror - 1)));
      }
    }
  }
}

constexpr int64_t kAhead = 16;

template <typename T>
void load_columns(const FftColumns<T>& given, Planes<T> x) {
  constexpr int64_t kColumns = kFftColumns<T>;
  T* re = given.exchange_in ? x.im : x.re;
  T* im = given.exchange_in ? x.re : x.im;
  if (given.in_column == 1) {
    for (int64_t j = 0; j < given.size; ++j) {
      const T* from = given.in + 2 * j * given.in_step;
      if (given.columns == kColumns) {
        // Far steps are not foreseen by the processor.
        __builtin_prefetch(from + 2 * kAhead * given.in_step);
        __builtin_prefetch(from + 2 * kAhead * given.in_step + kColumns);
        for (int64_t c = 0; c < kColumns; ++c) {
          re[j * kColumns + c] = from[2 * c];
          im[j * kColumns + c] = from[2 * c + 1];
        }
        continue;
      }
      for (int64_t c = 0; c < kColumns; ++c) {
        const bool there = c < given.columns;
        re[j * kColumns + c] = there ? from[2 * c] : 0;
        im[j * kColumns + c] = there ? from[2 * c + 1] : 0;
      }
    }
    return;
  }
  if (given.columns < kColumns) {
    std::memset(re, 0, sizeof(T) * static_cast<size_t>(given.size * kColumns));
    std::memset(im, 0, sizeof(T) * static_cast<size_t>(given.size * kColumns));
  }
  // A few places of all columns at a time: they stay in the nearest memory.
  for (int64_t start = 0; start < given.size; start += 8) {
    const int64_t end = start + 8 < given.size ? start + 8 : given.size;
    for (int64_t c = 0; c < given.columns; ++c) {
      const T* from = given.in + 2 * c * given.in_column;
      for (int64_t j = start; j < end; ++j) {
        re[j * kColumns + c] = from[2 * j];
        im[j * kColumns + c] = from[2 * j + 1];
      }
    }
  }
}

template <typename T>
void store_columns(const FftColumns<T>& given, Planes<T> x) {
  constexpr int64_t kColumns = kFftColumns<T>;
  if (given.factors != nullptr) {
    for (int64_t k = 0; k < given.size; ++k) {
      const T* w = given.factors + 2 * k * kColumns;
      T *re = x.re + k * kColumns, *im = x.im + k * kColumns;
      for (int64_t c = 0; c < given.columns; ++c) {
        const T real = re[c] * w[2 * c] - im[c] * w[2 * c + 1];
        im[c] = re[c] * w[2 * c + 1] + im[c] * w[2 * c];
        re[c] = real;
      }
    }
  }
  const T* re = given.exchange_out ? x.im : x.re;
  const T* im = given.exchange_out ? x.re : x.im;
  const T scale = given.scale;
  if (given.out_column == 1) {
    for (int64_t k = 0; k < given.size; ++k) {
      T* to = given.out + 2 * k * given.out_step;
      for (int64_t c = 0; c < given.columns; ++c) {
        to[2 * c] = re[k * kColumns + c] * scale;
        to[2 * c + 1] = im[k * kColumns + c] * scale;
      }
    }
    return;
  }
  for (int64_t start = 0; start < given.size; start += 8) {
    const int64_t end = start + 8 < given.size ? start + 8 : given.size;
    T* block = given.out + 2 * (start / kColumns * given.out_block + start % kColumns);
    for (int64_t c = 0; c < given.columns; ++c) {
      T* to = block + 2 * c * given.out_column;
      for (int64_t k = start; k < end; ++k) {
        to[2 * (k - start)] = re[k * kColumns + c] * scale;
        to[2 * (k - start) + 1] = im[k * kColumns + c] * scale;
      }
    }
  }
}

template <typename T>
void transform_columns(const FftColumns<T>& given) {
  const int64_t plane = given.size * kFftColumns<T>;
  Planes<T> x{given.scratch, given.scratch + plane};
  Planes<T> y{given.scratch + 2 * plane, given.scratch + 3 * plane};
  load_columns(given, x);
  int64_t s = kFftColumns<T>;
  for (int64_t at = 0; at < given.stage_count; ++at) {
    const FftStage<T>& stage = given.stages[at];
    switch (stage.radix) {
      case 2: run_stage<T, 2>(stage, x, y, s); break;
      case 3: run_stage<T, 3>(stage, x, y, s); break;
      case 4: run_stage<T, 4>(stage, x, y, s); break;
      case 5: run_stage<T, 5>(stage, x, y, s); break;
      default: run_any_stage<T>(stage, x, y, s);
    }
    s *= stage.radix;
    const Planes<T> kept = x;
    x = y;
    y = kept;
  }
  store_columns(given, x);
}

}  // namespace

namespace KILN_LEVEL {

const FftCode fft_code{transform_columns<float>, transform_columns<double>};

}  // namespace KILN_LEVEL
}  // namespace kiln
