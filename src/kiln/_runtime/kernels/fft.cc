// Discrete Fourier transforms over the last axes. What each computes is said by ops/fft.py.
#include <new>

#include "../symbols.h"
#include "element_types.h"
#include "fft_plan.h"

namespace kiln {
namespace {

enum Kind : int64_t { kForward, kInverse, kFromReal, kToReal };  // ops/fft.py has the same numbers

constexpr int64_t kMostAxes = 3;

// `count` rows, each of which follows the last one after some complex numbers. `in` may be `out`.
template <typename T>
void transform_rows(const FftPlan<T>& plan, const T* in, int64_t in_next, T* out, int64_t out_next,
                    int64_t count, bool exchange, T scale) {
  constexpr int64_t kFewRows = 3;
  if (!plan.whole || (plan.rows && count <= kFewRows)) {
    for (int64_t row = 0; row < count; ++row) {
      fft_row(plan, in + 2 * row * in_next, out + 2 * row * out_next, exchange, scale);
    }
    return;
  }
  const Scratch scratch(4 * plan.size * kFftColumns<T> * static_cast<int64_t>(sizeof(T)));
  if (!scratch) throw std::bad_alloc();
  for (int64_t row = 0; row < count; row += kFftColumns<T>) {
    FftColumns<T> given{};
    given.stages = plan.whole->stages.data();
    given.stage_count = static_cast<int64_t>(plan.whole->stages.size());
    given.size = plan.size;
    given.columns = count - row < kFftColumns<T> ? count - row : kFftColumns<T>;
    given.in = in + 2 * row * in_next;
    given.in_column = in_next;
    given.out = out + 2 * row * out_next;
    given.out_column = out_next;
    given.in_step = given.out_step = 1;
    given.out_block = kFftColumns<T>;
    given.exchange_in = given.exchange_out = exchange;
    given.scale = scale;
    given.scratch = reinterpret_cast<T*>(scratch.data());
    fft_run(given);
  }
}

// The columns of a matrix (size, inner), in place.
template <typename T>
void transform_columns(const FftPlan<T>& plan, T* data, int64_t inner, bool exchange, T scale) {
  constexpr int64_t kColumns = kFftColumns<T>;
  const int64_t n = plan.size;
  const Scratch scratch((plan.whole ? 4 * kColumns : 2) * n * static_cast<int64_t>(sizeof(T)));
  if (!scratch) throw std::bad_alloc();
  T* line = reinterpret_cast<T*>(scratch.data());
  if (!plan.whole) {
    for (int64_t c = 0; c < inner; ++c) {
      for (int64_t j = 0; j < n; ++j) {
        std::memcpy(line + 2 * j, data + 2 * (j * inner + c), 2 * sizeof(T));
      }
      fft_row(plan, line, line, exchange, scale);
      for (int64_t j = 0; j < n; ++j) {
        std::memcpy(data + 2 * (j * inner + c), line + 2 * j, 2 * sizeof(T));
      }
    }
    return;
  }
  for (int64_t c = 0; c < inner; c += kColumns) {
    FftColumns<T> given{};
    given.stages = plan.whole->stages.data();
    given.stage_count = static_cast<int64_t>(plan.whole->stages.size());
    given.size = n;
    given.columns = inner - c < kColumns ? inner - c : kColumns;
    given.in = given.out = data + 2 * c;
    given.in_step = given.out_step = inner;
    given.in_column = given.out_column = 1;
    given.exchange_in = given.exchange_out = exchange;
    given.scale = scale;
    given.scratch = line;
    fft_run(given);
  }
}

// Rows of real numbers are transformed some at a time.
constexpr int64_t kTogether = 16;

// An even row is that of half as many complex numbers; its transform is that of its even and odd
// places, mixed.
template <typename T>
void from_real(int64_t n, const T* in, T* out, int64_t count) {
  const int64_t half = n / 2, kept = half + 1;
  const bool is_even = n % 2 == 0;
  const auto plan = fft_plan<T>(is_even ? half : n);
  const auto roots = is_even ? fft_real_roots<T>(n) : nullptr;
  const Scratch scratch(2 * plan->size * kTogether * static_cast<int64_t>(sizeof(T)));
  if (!scratch) throw std::bad_alloc();
  T* lines = reinterpret_cast<T*>(scratch.data());
  for (int64_t row = 0; row < count; row += kTogether) {
    const int64_t here = count - row < kTogether ? count - row : kTogether;
    const T* from = in + row * n;
    if (is_even) {
      transform_rows(*plan, from, half, lines, half, here, false, T(1));
    } else {
      for (int64_t j = 0; j < here * n; ++j) lines[2 * j] = from[j], lines[2 * j + 1] = 0;
      transform_rows(*plan, lines, n, lines, n, here, false, T(1));
    }
    for (int64_t r = 0; r < here; ++r) {
      T* to = out + (row + r) * kept * 2;
      const T* z = lines + r * plan->size * 2;
      if (!is_even) {
        std::memcpy(to, z, static_cast<size_t>(kept) * 2 * sizeof(T));
        continue;
      }
      for (int64_t k = 0; k <= half; ++k) {
        const T *a = z + 2 * (k == half ? 0 : k), *b = z + 2 * (k == 0 ? 0 : half - k);
        const T* w = roots->roots.data() + 2 * k;
        const T even_re = (a[0] + b[0]) / 2, even_im = (a[1] - b[1]) / 2;
        const T odd_re = (a[1] + b[1]) / 2, odd_im = (b[0] - a[0]) / 2;
        to[2 * k] = even_re + odd_re * w[0] - odd_im * w[1];
        to[2 * k + 1] = even_im + odd_re * w[1] + odd_im * w[0];
      }
    }
  }
}

template <typename T>
void to_real(int64_t n, const T* in, T* out, int64_t count, T scale) {
  const int64_t half = n / 2, kept = half + 1;
  const bool is_even = n % 2 == 0;
  const auto plan = fft_plan<T>(is_even ? half : n);
  const auto roots = is_even ? fft_real_roots<T>(n) : nullptr;
  const Scratch scratch(2 * plan->size * kTogether * static_cast<int64_t>(sizeof(T)));
  if (!scratch) throw std::bad_alloc();
  T* lines = reinterpret_cast<T*>(scratch.data());
  for (int64_t row = 0; row < count; row += kTogether) {
    const int64_t here = count - row < kTogether ? count - row : kTogether;
    for (int64_t r = 0; r < here; ++r) {
      const T* x = in + (row + r) * kept * 2;
      T* z = lines + r * plan->size * 2;
      if (!is_even) {
        z[0] = x[0], z[1] = 0;
        for (int64_t k = 1; k < kept; ++k) {
          z[2 * k] = z[2 * (n - k)] = x[2 * k];
          z[2 * k + 1] = x[2 * k + 1];
          z[2 * (n - k) + 1] = -x[2 * k + 1];
        }
        continue;
      }
      for (int64_t k = 0; k < half; ++k) {
        const T *a = x + 2 * k, *b = x + 2 * (half - k), *w = roots->roots.data() + 2 * k;
        // The imaginary parts of the first and the last number do not count.
        const T a_im = k == 0 ? T(0) : a[1], b_im = k == 0 ? T(0) : b[1];
        const T difference_re = a[0] - b[0], difference_im = a_im + b_im;
        const T odd_re = difference_re * w[0] + difference_im * w[1];
        const T odd_im = difference_im * w[0] - difference_re * w[1];
        z[2 * k] = a[0] + b[0] - odd_im;
        z[2 * k + 1] = a_im - b_im + odd_re;
      }
    }
    T* to = out + row * n;
    if (is_even) {
      transform_rows(*plan, lines, half, to, half, here, true, scale);
    } else {
      transform_rows(*plan, lines, n, lines, n, here, true, scale);
      for (int64_t j = 0; j < here * n; ++j) to[j] = lines[2 * j];
    }
  }
}

// All axes but the last, in place.
template <typename T>
void transform_others(T* data, const int64_t* lengths, int64_t rank, int64_t last, bool exchange,
                      T scale) {
  int64_t inner = last;
  for (int64_t axis = rank - 2; axis >= 0; --axis) {
    const auto plan = fft_plan<T>(lengths[axis]);
    int64_t outer = 1;
    for (int64_t a = 0; a < axis; ++a) outer *= lengths[a];
    for (int64_t o = 0; o < outer; ++o) {
      transform_columns(*plan, data + 2 * o * lengths[axis] * inner, inner, exchange,
                        axis == 0 ? scale : T(1));
    }
    inner *= lengths[axis];
  }
}

template <typename T>
void transform(void* const* buffers, const int64_t* numbers) {
  const int64_t first = numbers[0], count = numbers[1], kind = numbers[2], rank = numbers[4];
  const int64_t* lengths = numbers + 5;
  const int64_t n = lengths[rank - 1];
  const int64_t last = kind == kFromReal || kind == kToReal ? n / 2 + 1 : n;
  int64_t above = 1;
  for (int64_t a = 0; a < rank - 1; ++a) above *= lengths[a];
  const bool is_inverse = kind == kInverse || kind == kToReal;
  const T scale = is_inverse ? T(1) / static_cast<T>(above * n) : T(1);
  const int64_t in_item = above * (kind == kFromReal ? n : 2 * last);
  const int64_t out_item = above * (kind == kToReal ? n : 2 * last);
  const T* in = static_cast<const T*>(buffers[0]) + first * in_item;
  T* out = static_cast<T*>(buffers[1]) + first * out_item;
  if (kind == kFromReal) {
    from_real(n, in, out, count * above);
  } else if (kind != kToReal) {
    transform_rows(*fft_plan<T>(n), in, n, out, n, count * above, is_inverse,
                   rank == 1 ? scale : T(1));
  } else if (rank == 1) {
    return to_real(n, in, out, count, scale);
  }
  if (rank == 1) return;
  if (kind != kToReal) {
    for (int64_t item = 0; item < count; ++item) {
      transform_others(out + item * out_item, lengths, rank, last, is_inverse, scale);
    }
    return;
  }
  const Scratch scratch(in_item * static_cast<int64_t>(sizeof(T)));
  if (!scratch) throw std::bad_alloc();
  T* copy = reinterpret_cast<T*>(scratch.data());
  for (int64_t item = 0; item < count; ++item) {
    std::memcpy(copy, in + item * in_item, static_cast<size_t>(in_item) * sizeof(T));
    transform_others(copy, lengths, rank, last, true, T(1));
    to_real(n, copy, out + item * out_item, above, scale);
  }
}

// fft. Buffers: operand, result. No axis is of size 0.
// Numbers: first row, rows (how many transforms), kind (fft, ifft, rfft, irfft), the complex type,
// transformed axes (1 to 3), their lengths (on the real side).
int32_t fft(Call*, void* const* buffers, const int64_t* numbers) {
  if (numbers[4] < 1 || numbers[4] > kMostAxes) return kUnsupported;
  if (numbers[1] <= 0) return kDone;
  try {
    if (numbers[3] == kComplex64) transform<float>(buffers, numbers);
    else if (numbers[3] == kComplex128) transform<double>(buffers, numbers);
    else return kUnsupported;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  return kDone;
}

const Symbols symbols{{"fft", fft}};

}  // namespace
}  // namespace kiln
