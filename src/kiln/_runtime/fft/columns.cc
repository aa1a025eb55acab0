// Stockham's transform of adjacent columns, with real and imaginary parts separate: every loop is
// over consecutive numbers. The first stage reads the operand and the last writes the result,
// unless a cache line belongs to a single transform.
#include "fft/columns.h"

#include "fft/lanes.h"

#ifndef KILN_LEVEL
#define KILN_LEVEL baseline
#endif

namespace kiln {
namespace {

// Butterflies: the transforms of a few numbers, in place.
template <typename T, int radix>
inline void transform(Complex<T>* a) {
  if constexpr (radix == 1) {
  } else if constexpr (radix == 2) {
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
  } else if constexpr (radix == 5) {
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
  } else {
    static_assert(radix == 8);
    constexpr T kDiagonal = static_cast<T>(0.707106781186547524400844362104849L);
    Complex<T> even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
    transform<T, 4>(even);
    transform<T, 4>(odd);
    odd[1] = Complex<T>{odd[1].re + odd[1].im, odd[1].im - odd[1].re} * kDiagonal;
    odd[2] = Complex<T>{odd[2].im, -odd[2].re};
    odd[3] = Complex<T>{odd[3].im - odd[3].re, -odd[3].re - odd[3].im} * kDiagonal;
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) a[j] = even[j] + odd[j], a[j + 4] = even[j] - odd[j];
  }
}

// Before and after a stage, numbers are indexed by `row`, `line` and column `c`.

// The scratch memory: the real parts of each number, then its imaginary parts.
template <typename T>
struct Planes {
  static constexpr int64_t kLine = 2 * kFftColumns<T>;
  T* data;
  int64_t lines;

  T* at(int64_t row, int64_t line, int64_t c) const {
    return data + (row * lines + line) * kLine + c;
  }
  Complex<T> load(int64_t row, int64_t line, int64_t c) const {
    const T* from = at(row, line, c);
    return {kiln::load(from), kiln::load(from + kFftColumns<T>)};
  }
  void store(int64_t row, int64_t line, int64_t c, const Complex<T>& x) const {
    T* to = at(row, line, c);
    std::memcpy(to, &x.re, sizeof x.re);
    std::memcpy(to + kFftColumns<T>, &x.im, sizeof x.im);
  }
};

// The operand of the transform.
template <typename T>
struct Given {
  const FftColumns<T>& all;

  Complex<T> load(int64_t row, int64_t, int64_t c) const {
    constexpr int64_t kStep = kLanes<T>, kAhead = 2;
    const T* from = all.in + 2 * (row * all.in_step + c);
    // The hardware does not prefetch large strides.
    __builtin_prefetch(from + 2 * kAhead * all.in_step);
    __builtin_prefetch(from + 2 * kAhead * all.in_step + kStep);
    if (c + kStep <= all.columns) {
      return Complex<T>::of(kiln::load(from), kiln::load(from + kStep), all.exchange_in);
    }
    T some[2 * kStep] = {};
    for (int64_t i = 0; i < 2 * (all.columns - c); ++i) some[i] = from[i];
    return Complex<T>::of(kiln::load(some), kiln::load(some + kStep), all.exchange_in);
  }
};

// The result of the transform.
template <typename T>
inline Complex<T> finished(const FftColumns<T>& all, int64_t row, int64_t c, Complex<T> x) {
  if (all.factors != nullptr) {
    x = x * Planes<T>{const_cast<T*>(all.factors), 1}.load(row, 0, c);
  }
  if (all.scale != 1) x = x * all.scale;
  return all.exchange_out ? Complex<T>{x.im, x.re} : x;
}

template <typename T>
struct Wanted {
  const FftColumns<T>& all;
  int64_t lines;

  void store(int64_t row, int64_t line, int64_t c, const Complex<T>& x) const {
    constexpr int64_t kStep = kLanes<T>;
    const int64_t place = row * lines + line;
    const Complex<T> made = finished(all, place, c, x);
    const Vector<T> first = made.first(), second = made.second();
    T* to = all.out + 2 * (place * all.out_step + c);
    if (c + kStep <= all.columns) {
      std::memcpy(to, &first, sizeof first);
      std::memcpy(to + kStep, &second, sizeof second);
      return;
    }
    T some[2 * kStep];
    std::memcpy(some, &first, sizeof first);
    std::memcpy(some + kStep, &second, sizeof second);
    for (int64_t i = 0; i < 2 * (all.columns - c); ++i) to[i] = some[i];
  }
};

template <typename T, int radix, typename From, typename To>
void run_stage(const FftStage<T>& stage, const From& x, const To& y, int64_t lines) {
  const int64_t rest = stage.rest;
  for (int64_t k = 0; k < rest; ++k) {
    const T* w = stage.twiddles + k * (radix - 1) * 2;
    for (int64_t line = 0; line < lines; ++line) {
#pragma GCC unroll 1
      for (int64_t c = 0; c < kFftColumns<T>; c += kLanes<T>) {
        Complex<T> a[radix];
#pragma GCC unroll 8
        for (int j = 0; j < radix; ++j) a[j] = x.load(k + rest * j, line, c);
        transform<T, radix>(a);
        y.store(radix * k, line, c, a[0]);
        if (k == 0) {  // all twiddles are 1
#pragma GCC unroll 8
          for (int j = 1; j < radix; ++j) y.store(j, line, c, a[j]);
        } else {
#pragma GCC unroll 8
          for (int j = 1; j < radix; ++j) {
            y.store(radix * k + j, line, c, a[j].turned(w + 2 * (j - 1)));
          }
        }
      }
    }
  }
}

template <typename T, typename From, typename To>
void run_any_stage(const FftStage<T>& stage, const From& x, const To& y, int64_t lines) {
  const int64_t radix = stage.radix;
  Complex<T> sums[kLargestRadix / 2 + 1], differences[kLargestRadix / 2 + 1];
  const int64_t half = radix / 2;
  for (int64_t k = 0; k < stage.rest; ++k) {
    const T* w = stage.twiddles + k * (radix - 1) * 2;
    for (int64_t line = 0; line < lines; ++line) {
      for (int64_t c = 0; c < kFftColumns<T>; c += kLanes<T>) {
        const Complex<T> first = x.load(k, line, c);
        Complex<T> total = first;
        for (int64_t j = 1; j <= half; ++j) {
          const Complex<T> a = x.load(k + stage.rest * j, line, c);
          const Complex<T> b = x.load(k + stage.rest * (radix - j), line, c);
          sums[j] = a + b;
          differences[j] = (a - b).times_i();
          total = total + sums[j];
        }
        y.store(radix * k, line, c, total);
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
          y.store(radix * k + out, line, c, (even + odd).turned(w + 2 * (out - 1)));
          y.store(radix * k + mirror, line, c, (even - odd).turned(w + 2 * (mirror - 1)));
        }
      }
    }
  }
}

template <typename T, typename From, typename To>
void run(const FftStage<T>& stage, const From& x, const To& y, int64_t lines) {
  switch (stage.radix) {
    case 1: return run_stage<T, 1>(stage, x, y, lines);
    case 2: return run_stage<T, 2>(stage, x, y, lines);
    case 3: return run_stage<T, 3>(stage, x, y, lines);
    case 4: return run_stage<T, 4>(stage, x, y, lines);
    case 5: return run_stage<T, 5>(stage, x, y, lines);
    case 8: return run_stage<T, 8>(stage, x, y, lines);
    default: return run_any_stage(stage, x, y, lines);
  }
}

// For columns that are contiguous in memory: blocks of complex numbers are transposed.
template <typename T>
void load_rows(const FftColumns<T>& given, const Planes<T>& x) {
  constexpr int64_t kColumns = kFftColumns<T>, kStep = kLanes<T>, kSquare = kStep / 2;
  const T* from[kColumns];  // missing columns are copies of the last one
  for (int64_t c = 0; c < kColumns; ++c) {
    from[c] = given.in + 2 * (c < given.columns ? c : given.columns - 1) * given.in_column;
  }
  const int64_t size = given.size + (given.rows == kToRealRows);
  int64_t j = 0;
  for (; j + kSquare <= size; j += kSquare) {
#pragma GCC unroll 1
    for (int64_t c = 0; c < kColumns; c += kStep) {
      Vector<T> a[kStep];
#pragma GCC unroll 16
      for (int i = 0; i < kStep; ++i) a[i] = load(from[c + i] + 2 * j);
      transpose<T>(a);
      transpose<T>(a + kSquare);
#pragma GCC unroll 8
      for (int i = 0; i < kSquare; ++i) {
        x.store(j + i, 0, c, Complex<T>::of(a[i], a[i + kSquare], given.exchange_in));
      }
    }
  }
  const int64_t re = given.exchange_in ? 1 : 0;
  for (; j < size; ++j) {
    T* to = x.at(j, 0, 0);
    for (int64_t c = 0; c < kColumns; ++c) {
      to[c] = from[c][2 * j + re];
      to[kColumns + c] = from[c][2 * j + 1 - re];
    }
  }
}

// Row `k` of the transform of real numbers, from that of half as many complex ones: separates the
// transforms of even and odd elements, and combines them.
template <typename T>
inline Complex<T> of_real(const FftColumns<T>& given, const Planes<T>& x, int64_t k, int64_t c) {
  const int64_t half = given.size;
  const Complex<T> a = x.load(k == half ? 0 : k, 0, c), b = x.load(k == 0 ? 0 : half - k, 0, c);
  const Complex<T> even = Complex<T>{a.re + b.re, a.im - b.im} * T(0.5);
  const Complex<T> odd = Complex<T>{a.im + b.im, b.re - a.re} * T(0.5);
  return even + odd.turned(given.roots + 2 * k);
}

// The reverse, in place, with real and imaginary parts swapped. Imaginary parts of the first and the
// last number are ignored.
template <typename T>
void to_complex(const FftColumns<T>& given, const Planes<T>& x) {
  const int64_t half = given.size;
  const auto one = [&](const Complex<T>& a, const Complex<T>& b, int64_t k, int64_t c) {
    const T w[2] = {given.roots[2 * k], -given.roots[2 * k + 1]};
    const Complex<T> odd = Complex<T>{a.re - b.re, a.im + b.im}.turned(w);
    const Complex<T> even{a.re + b.re, a.im - b.im}, made = even + odd.times_i();
    x.store(k, 0, c, Complex<T>{made.im, made.re});
  };
  for (int64_t k = 0; 2 * k <= half; ++k) {
    for (int64_t c = 0; c < kFftColumns<T>; c += kLanes<T>) {
      Complex<T> a = x.load(k, 0, c), b = x.load(half - k, 0, c);
      if (k == 0) a.im = b.im = Vector<T>{};
      one(a, b, k, c);
      if (k > 0 && 2 * k < half) one(b, a, half - k, c);
    }
  }
}

template <typename T, bool is_of_real>
void store_rows(const FftColumns<T>& given, const Planes<T>& x) {
  constexpr int64_t kColumns = kFftColumns<T>, kStep = kLanes<T>, kSquare = kStep / 2;
  const int64_t size = given.size + is_of_real;
  const auto result = [&](int64_t row, int64_t c) __attribute__((always_inline)) {
    if constexpr (is_of_real) return of_real(given, x, row, c);
    else return finished(given, row, c, x.load(row, 0, c));
  };
  int64_t j = 0;
  for (; j + kSquare <= size; j += kSquare) {
    T* block = given.out + 2 * (j / kColumns * given.out_block + j % kColumns);
#pragma GCC unroll 1
    for (int64_t c = 0; c < given.columns; c += kStep) {
      Vector<T> a[kStep];
#pragma GCC unroll 8
      for (int i = 0; i < kSquare; ++i) {
        const Complex<T> made = result(j + i, c);
        a[i] = made.first();
        a[i + kSquare] = made.second();
      }
      transpose<T>(a);
      transpose<T>(a + kSquare);
      T* to = block + 2 * c * given.out_column;
      const int64_t there = given.columns - c;
#pragma GCC unroll 16
      for (int i = 0; i < kStep; ++i) {
        if (i < there) std::memcpy(to + 2 * i * given.out_column, &a[i], sizeof a[i]);
      }
    }
  }
  for (; j < size; ++j) {
    T* to = given.out + 2 * (j / kColumns * given.out_block + j % kColumns);
    T made[2 * kColumns];
    for (int64_t c = 0; c < kColumns; c += kStep) {
      Planes<T>{made, 1}.store(0, 0, c, result(j, c));
    }
    for (int64_t c = 0; c < given.columns; ++c) {
      to[2 * c * given.out_column] = made[c];
      to[2 * c * given.out_column + 1] = made[kColumns + c];
    }
  }
}

template <typename T>
void transform_columns(const FftColumns<T>& given) {
  Planes<T> x{given.scratch, 1}, y{given.scratch + fft_scratch<T>(given.size) / 2, 1};
  const bool from_columns = given.in_column == 1, to_columns = given.out_column == 1;
  if (!from_columns) load_rows(given, x);
  if (given.rows == kToRealRows) to_complex(given, x);
  int64_t lines = 1;
  for (int64_t at = 0; at < given.stage_count; ++at) {
    const FftStage<T>& stage = given.stages[at];
    x.lines = y.lines = lines;
    const bool reads = from_columns && at == 0;
    const bool writes = to_columns && at + 1 == given.stage_count;
    if (reads && writes) run(stage, Given<T>{given}, Wanted<T>{given, lines}, lines);
    else if (reads) run(stage, Given<T>{given}, y, lines);
    else if (writes) run(stage, x, Wanted<T>{given, lines}, lines);
    else run(stage, x, y, lines);
    lines *= stage.radix;
    const Planes<T> kept = x;
    x = y;
    y = kept;
  }
  x.lines = 1;
  if (given.rows == kFromRealRows) store_rows<T, true>(given, x);
  else if (!to_columns) store_rows<T, false>(given, x);
}

}  // namespace

namespace KILN_LEVEL {

const FftCode fft_code{transform_columns<float>, transform_columns<double>};

}  // namespace KILN_LEVEL
}  // namespace kiln
