#include "fft/axes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "fft/plan.h"

namespace kiln {
namespace {

// The least numbers that a thread transforms per task.
constexpr int64_t kSharedWork = 1 << 13;
// Rows of at least this size are transformed sequentially, each by all threads.
constexpr int64_t kLargeRow = 1 << 15;
constexpr int64_t kFewRows = 3;

// Whether many rows are transformed at once, a row in each lane.
template <typename T>
bool are_together(const FftPlan<T>& plan, int64_t count) {
  return plan.whole && (!plan.rows || count > kFewRows);
}

// Transforms `count` rows at once, `in_next` and `out_next` complex numbers apart, and runs
// `finish(begin, end)` on rows that are still in the cache. `of` has what they have in common.
template <typename T, typename Finish>
void transform_together(Call* call, const FftPlan<T>& plan, const FftColumns<T>& of, int64_t count,
                        const Finish& finish) {
  constexpr int64_t kColumns = kFftColumns<T>;
  const int64_t blocks = (count + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, kSharedWork / (kColumns * plan.size));
  fft_shared(call, blocks, grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(static_cast<size_t>(fft_scratch<T>(plan.size)) * sizeof(T));
    FftColumns<T> given = of;
    given.scratch = fft_numbers<T>(scratch);
    for (int64_t row = begin * kColumns; row < std::min(count, end * kColumns); row += kColumns) {
      given.columns = std::min(count - row, kColumns);
      given.in = of.in + 2 * row * of.in_column;
      given.out = of.out + 2 * row * of.out_column;
      fft_run(given);
      finish(row, row + given.columns);
    }
  });
}

template <typename T>
FftColumns<T> rows_of(const FftPlan<T>& plan, const T* in, int64_t in_next, T* out,
                      int64_t out_next, bool exchange, T scale) {
  FftColumns<T> given = fft_columns<T>(*plan.whole, nullptr);
  given.in = in;
  given.in_column = in_next;
  given.out = out;
  given.out_column = out_next;
  given.in_step = given.out_step = 1;
  given.out_block = kFftColumns<T>;
  given.exchange_in = given.exchange_out = exchange;
  given.scale = scale;
  return given;
}

// Transforms `count` rows, a fixed number of complex numbers apart. `in` may be `out`.
template <typename T, typename Finish>
void transform_rows(Call* call, const FftPlan<T>& plan, const T* in, int64_t in_next, T* out,
                    int64_t out_next, int64_t count, bool exchange, T scale, const Finish& finish) {
  if (are_together(plan, count)) {
    const FftColumns<T> of = rows_of(plan, in, in_next, out, out_next, exchange, scale);
    return transform_together(call, plan, of, count, finish);
  }
  const bool is_shared = count > 1 && plan.size < kLargeRow;
  const auto rows = [&](Call* inner, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      fft_row(inner, plan, in + 2 * row * in_next, out + 2 * row * out_next, exchange, scale);
      finish(row, row + 1);
    }
  };
  if (!is_shared) return rows(call, 0, count);
  fft_shared(call, count, std::max<int64_t>(1, kSharedWork / plan.size),
             [&](int64_t begin, int64_t end) { rows(nullptr, begin, end); });
}

template <typename T>
void transform_rows(Call* call, const FftPlan<T>& plan, const T* in, int64_t in_next, T* out,
                    int64_t out_next, int64_t count, bool exchange, T scale) {
  transform_rows(call, plan, in, in_next, out, out_next, count, exchange, scale,
                 [](int64_t, int64_t) {});
}

// Columns that do not fit in cache together: each is copied, transformed, and copied back.
template <typename T>
void transform_long_columns(const FftPlan<T>& plan, T* data, int64_t columns, int64_t inner,
                            bool exchange, T scale) {
  const int64_t n = plan.size;
  const Scratch scratch(2 * static_cast<size_t>(n * columns) * sizeof(T));
  T* lines = fft_numbers<T>(scratch);
  const auto copy = [&](T* to, int64_t to_next, int64_t to_step, const T* from, int64_t from_next,
                        int64_t from_step) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t c = 0; c < columns; ++c) {
        std::memcpy(to + 2 * (j * to_next + c * to_step),
                    from + 2 * (j * from_next + c * from_step), 2 * sizeof(T));
      }
    }
  };
  copy(lines, 1, n, data, inner, 1);
  for (int64_t c = 0; c < columns; ++c) {
    T* line = lines + 2 * c * n;
    fft_row<T>(nullptr, plan, line, line, exchange, scale);
  }
  copy(data, inner, 1, lines, 1, n);
}

// The middle axis of an array (outer, size, inner), in place.
template <typename T>
void transform_columns(Call* call, const FftPlan<T>& plan, T* data, int64_t outer, int64_t inner,
                       bool exchange, T scale) {
  constexpr int64_t kColumns = kFftColumns<T>;
  const int64_t n = plan.size, blocks = (inner + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, kSharedWork / (kColumns * n));
  fft_shared(call, outer * blocks, grain, [&](int64_t begin, int64_t end) {
    const size_t needed = plan.whole ? static_cast<size_t>(fft_scratch<T>(n)) * sizeof(T) : 0;
    const Scratch scratch(needed);
    T* numbers = fft_numbers<T>(scratch);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t c = block % blocks * kColumns, columns = std::min(inner - c, kColumns);
      T* from = data + 2 * (block / blocks * n * inner + c);
      if (!plan.whole) {
        transform_long_columns(plan, from, columns, inner, exchange, scale);
        continue;
      }
      FftColumns<T> given = fft_columns(*plan.whole, numbers);
      given.columns = columns;
      given.in = given.out = from;
      given.in_step = given.out_step = inner;
      given.in_column = given.out_column = 1;
      given.exchange_in = given.exchange_out = exchange;
      given.scale = scale;
      fft_run(given);
    }
  });
}

// Rows of real numbers are transformed in batches.
constexpr int64_t kTogether = 16;

// `body(call, begin, end)` over rows: all threads work on each large row; other rows are
// distributed.
template <typename Body>
void over_rows(Call* call, int64_t count, int64_t size, const Body& body) {
  if (count <= kFewRows && size >= kLargeRow) return body(call, int64_t{0}, count);
  const int64_t blocks = (count + kTogether - 1) / kTogether;
  const int64_t grain = std::max<int64_t>(1, kSharedWork / (kTogether * size));
  fft_shared(call, blocks, grain, [&](int64_t begin, int64_t end) {
    body(nullptr, begin * kTogether, std::min(count, end * kTogether));
  });
}

// From the transform of half as many complex numbers to that of real ones: separates the transforms
// of even and odd elements, and combines them.
template <typename T>
void mix_from_real(int64_t half, const T* z, const T* roots, T* to, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    const T *a = z + 2 * (k == half ? 0 : k), *b = z + 2 * (k == 0 ? 0 : half - k);
    const T* w = roots + 2 * k;
    const T even_re = (a[0] + b[0]) / 2, even_im = (a[1] - b[1]) / 2;
    const T odd_re = (a[1] + b[1]) / 2, odd_im = (b[0] - a[0]) / 2;
    to[2 * k] = even_re + odd_re * w[0] - odd_im * w[1];
    to[2 * k + 1] = even_im + odd_re * w[1] + odd_im * w[0];
  }
}

template <typename T>
void mix_to_real(int64_t half, const T* x, const T* roots, T* z, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) {
    const T *a = x + 2 * k, *b = x + 2 * (half - k), *w = roots + 2 * k;
    // The imaginary parts of the first and the last number are ignored.
    const T a_im = k == 0 ? T(0) : a[1], b_im = k == 0 ? T(0) : b[1];
    const T difference_re = a[0] - b[0], difference_im = a_im + b_im;
    const T odd_re = difference_re * w[0] + difference_im * w[1];
    const T odd_im = difference_im * w[0] - difference_re * w[1];
    z[2 * k] = a[0] + b[0] - odd_im;
    z[2 * k + 1] = a_im - b_im + odd_re;
  }
}

// A row of real numbers as one of as many complex numbers.
template <typename T>
void widen_row(int64_t n, const T* in, T* line) {
  for (int64_t j = 0; j < n; ++j) line[2 * j] = in[j], line[2 * j + 1] = 0;
}

// Expands half of a Hermitian row to the whole; imaginary parts of elements that are their own
// mirror image are ignored.
template <typename T>
void mirror_row(int64_t n, const T* x, T* line) {
  line[0] = x[0], line[1] = 0;
  for (int64_t k = 1; k <= n / 2; ++k) {
    line[2 * k] = line[2 * (n - k)] = x[2 * k];
    line[2 * k + 1] = 2 * k == n ? 0 : x[2 * k + 1];
    line[2 * (n - k) + 1] = -line[2 * k + 1];
  }
}

// Whether the whole input is finite, judged by its sum.
template <typename T>
bool is_finite(const T* sum) {
  return std::isfinite(sum[0]) && std::isfinite(sum[1]);
}

// Adds to each result the terms of non-finite numbers, except those that are multiplied by 0.
// `line` is 0 everywhere else.
template <typename T>
void add_not_finite(int64_t n, const T* line, const int64_t* places, int64_t count, T* out,
                    bool exchange) {
  const auto roots = fft_all_roots<T>(n);
  const int from = exchange ? 1 : 0;
  for (int64_t k = 0; k < n; ++k) {
    T sum_re = 0, sum_im = 0;
    for (const int64_t* place = places; place < places + count; ++place) {
      const int64_t j = *place;
      const T re = line[2 * j + from], im = line[2 * j + 1 - from];
      const T* w = roots->roots.data() + 2 * (j * k % n);
      if (w[0] != 0) sum_re += re * w[0], sum_im += im * w[0];
      if (w[1] != 0) sum_re -= im * w[1], sum_im += re * w[1];
      // It cannot change any more: so rows of nan take no longer than others.
      if (std::isnan(sum_re) && std::isnan(sum_im)) break;
    }
    out[2 * k + from] += sum_re;
    out[2 * k + 1 - from] += sum_im;
  }
}

// A row whose sum is not finite. A plan would combine all its numbers, also for results that depend
// on no non-finite number, or where only sums overflow. `line` is overwritten, and must not be
// `out`.
template <typename T>
void transform_not_finite(Call* call, int64_t n, T* line, T* out, bool exchange, T scale) {
  const int bits = std::ilogb(static_cast<double>(n)) + 2;
  const auto size = static_cast<size_t>(n);
  Scratch scratch(Scratch::size_of<T>(2 * size) + Scratch::size_of<int64_t>(size));
  if (!scratch) stop_kernel(kOutOfMemory);
  T* finite = scratch.take<T>(2 * size);
  int64_t* places = scratch.take<int64_t>(size);
  int64_t found = 0;
  for (int64_t j = 0; j < n; ++j) {
    if (!is_finite(line + 2 * j)) places[found++] = j;
    for (int64_t i = 2 * j; i < 2 * j + 2; ++i) {
      const bool is_one = std::isfinite(line[i]);
      finite[i] = is_one ? std::ldexp(line[i], -bits) : T(0);
      if (is_one) line[i] = 0;
    }
  }
  transform_rows(call, *fft_plan<T>(n), finite, n, out, n, 1, exchange,
                 scale * std::ldexp(T(1), bits));
  if (found != 0) add_not_finite(n, line, places, found, out, exchange);
}

// Rows of complex numbers; `out` is not `in`.
template <typename T>
void of_complex(Call* call, int64_t n, const T* in, T* out, int64_t count, bool exchange, T scale) {
  const auto mend = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* to = out + 2 * row * n;
      if (is_finite(to)) continue;
      const size_t bytes = 2 * static_cast<size_t>(n) * sizeof(T);
      const Scratch scratch(bytes);
      T* line = fft_numbers<T>(scratch);
      std::memcpy(line, in + 2 * row * n, bytes);
      transform_not_finite<T>(nullptr, n, line, to, exchange, scale);
    }
  };
  transform_rows(call, *fft_plan<T>(n), in, n, out, n, count, exchange, scale, mend);
}

// An even row is transformed as half as many complex numbers, if the two halves can be separated
// again: if they are finite.
template <typename T>
void from_real(Call* call, int64_t n, const T* in, T* out, int64_t count) {
  const int64_t half = n / 2, kept = half + 1;
  const bool is_even = n % 2 == 0;
  const auto plan = fft_plan<T>(is_even ? half : n);
  const auto roots = is_even ? fft_real_roots<T>(n) : nullptr;
  const auto not_finite = [&](Call* inner, const T* from, T* to) {
    const Scratch scratch(4 * static_cast<size_t>(n) * sizeof(T));
    T *line = fft_numbers<T>(scratch), *found = line + 2 * n;
    widen_row(n, from, line);
    transform_not_finite(inner, n, line, found, false, T(1));
    std::memcpy(to, found, static_cast<size_t>(kept) * 2 * sizeof(T));
  };
  if (is_even && are_together(*plan, count)) {
    FftColumns<T> of = rows_of(*plan, in, half, out, kept, false, T(1));
    of.rows = kFromRealRows;
    of.roots = roots->roots.data();
    return transform_together(call, *plan, of, count, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = out + row * kept * 2;
        if (!std::isfinite(to[0])) not_finite(nullptr, in + row * n, to);
      }
    });
  }
  over_rows(call, count, n, [&](Call* inner, int64_t begin, int64_t end) {
    const Scratch scratch(2 * static_cast<size_t>(plan->size * kTogether) * sizeof(T));
    T* lines = fft_numbers<T>(scratch);
    for (int64_t row = begin; row < end; row += kTogether) {
      const int64_t here = std::min(end - row, kTogether);
      const T* from = in + row * n;
      if (is_even) {
        transform_rows(inner, *plan, from, half, lines, half, here, false, T(1));
      } else {
        widen_row(here * n, from, lines);
        transform_rows(inner, *plan, lines, n, lines, n, here, false, T(1));
      }
      for (int64_t r = 0; r < here; ++r) {
        T* to = out + (row + r) * kept * 2;
        const T* z = lines + r * plan->size * 2;
        if (!is_finite(z)) {
          not_finite(inner, from + r * n, to);
        } else if (!is_even) {
          std::memcpy(to, z, static_cast<size_t>(kept) * 2 * sizeof(T));
        } else {
          fft_shared(inner, kept, kSharedWork, [&](int64_t first, int64_t last) {
            mix_from_real(half, z, roots->roots.data(), to, first, last);
          });
        }
      }
    }
  });
}

template <typename T>
void to_real(Call* call, int64_t n, const T* in, T* out, int64_t count, T scale) {
  const int64_t half = n / 2, kept = half + 1;
  const bool is_even = n % 2 == 0;
  const auto plan = fft_plan<T>(is_even ? half : n);
  const auto roots = is_even ? fft_real_roots<T>(n) : nullptr;
  const auto not_finite = [&](Call* inner, const T* x, T* to) {
    const Scratch scratch(4 * static_cast<size_t>(n) * sizeof(T));
    T *line = fft_numbers<T>(scratch), *found = line + 2 * n;
    mirror_row(n, x, line);
    transform_not_finite(inner, n, line, found, true, scale);
    for (int64_t j = 0; j < n; ++j) to[j] = found[2 * j];
  };
  if (is_even && are_together(*plan, count)) {
    FftColumns<T> of = rows_of(*plan, in, kept, out, half, true, scale);
    of.exchange_in = false;
    of.rows = kToRealRows;
    of.roots = roots->roots.data();
    return transform_together(call, *plan, of, count, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (!is_finite(out + row * n)) not_finite(nullptr, in + row * kept * 2, out + row * n);
      }
    });
  }
  over_rows(call, count, n, [&](Call* inner, int64_t begin, int64_t end) {
    const Scratch scratch(2 * static_cast<size_t>(plan->size * kTogether) * sizeof(T));
    T* lines = fft_numbers<T>(scratch);
    for (int64_t row = begin; row < end; row += kTogether) {
      const int64_t here = std::min(end - row, kTogether);
      for (int64_t r = 0; r < here; ++r) {
        const T* x = in + (row + r) * kept * 2;
        T* z = lines + r * plan->size * 2;
        if (!is_even) {
          mirror_row(n, x, z);
          continue;
        }
        fft_shared(inner, half, kSharedWork, [&](int64_t first, int64_t last) {
          mix_to_real(half, x, roots->roots.data(), z, first, last);
        });
      }
      T* to = out + row * n;
      if (is_even) {
        transform_rows(inner, *plan, lines, half, to, half, here, true, scale);
      } else {
        transform_rows(inner, *plan, lines, n, lines, n, here, true, scale);
        for (int64_t j = 0; j < here * n; ++j) to[j] = lines[2 * j];
      }
      for (int64_t r = 0; r < here; ++r) {
        const T sum[2] = {to[r * n], is_even ? to[r * n + 1] : lines[2 * r * n + 1]};
        if (!is_finite(sum)) not_finite(inner, in + (row + r) * kept * 2, to + r * n);
      }
    }
  });
}

// Transforms all axes but the last of `items` arrays, in place.
template <typename T>
void transform_others(Call* call, T* data, const int64_t* lengths, int64_t rank, int64_t items,
                      int64_t last, bool exchange, T scale) {
  int64_t inner = last;
  for (int64_t axis = rank - 2; axis >= 0; --axis) {
    int64_t outer = items;
    for (int64_t a = 0; a < axis; ++a) outer *= lengths[a];
    transform_columns(call, *fft_plan<T>(lengths[axis]), data, outer, inner, exchange,
                      axis == 0 ? scale : T(1));
    inner *= lengths[axis];
  }
}

template <typename T>
size_t bytes_of(int64_t numbers) {
  return Scratch::room(static_cast<size_t>(numbers) * sizeof(T));
}

// Scratch memory of `transform_rows` for any number of rows.
template <typename T>
size_t scratch_of_rows(const FftPlan<T>& plan) {
  return std::max(fft_row_scratch(plan), plan.whole ? bytes_of<T>(fft_scratch<T>(plan.size)) : 0);
}

template <typename T>
size_t scratch_of_columns(const FftPlan<T>& plan) {
  if (plan.whole) return bytes_of<T>(fft_scratch<T>(plan.size));
  return bytes_of<T>(0) + bytes_of<T>(2 * plan.size * kFftColumns<T>) + fft_row_scratch(plan);
}

// Of a row of complex numbers that is not finite, with the tables that it needs.
template <typename T>
size_t prepare_not_finite(int64_t n) {
  fft_all_roots<T>(n);
  const auto size = static_cast<size_t>(n);
  return Scratch::room(Scratch::size_of<T>(2 * size) + Scratch::size_of<int64_t>(size)) +
         scratch_of_rows(*fft_plan<T>(n));
}

}  // namespace

template <typename T>
int64_t fft_prepare(const int64_t* numbers) {
  const int64_t count = numbers[1], kind = numbers[2], rank = numbers[4];
  const int64_t* lengths = numbers + 5;
  const int64_t n = lengths[rank - 1];
  size_t most = 0;
  int64_t above = 1;
  for (int64_t a = 0; a < rank - 1; ++a) {
    above *= lengths[a];
    most = std::max(most, scratch_of_columns(*fft_plan<T>(lengths[a])));
  }
  if (kind == kFromReal || kind == kToReal) {
    const auto plan = fft_plan<T>(n % 2 == 0 ? n / 2 : n);
    if (n % 2 == 0) fft_real_roots<T>(n);
    const size_t of_rows =
        std::max(scratch_of_rows(*plan), bytes_of<T>(2 * plan->size * kTogether));
    const size_t of_row =
        std::max(scratch_of_rows(*plan), bytes_of<T>(4 * n) + prepare_not_finite<T>(n));
    most = std::max(most, of_rows + of_row);
  } else {
    const size_t of_row = scratch_of_rows(*fft_plan<T>(n));
    most = std::max(most, of_row + bytes_of<T>(2 * n) + prepare_not_finite<T>(n));
  }
  if (kind == kToReal && rank > 1) most += bytes_of<T>(count * above * 2 * (n / 2 + 1));
  return static_cast<int64_t>(most);
}

template <typename T>
void fft_transform(Call* call, void* const* buffers, const int64_t* numbers) {
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
  const bool is_one = rank == 1;
  if (kind == kFromReal) {
    from_real(call, n, in, out, count * above);
  } else if (kind != kToReal) {
    of_complex(call, n, in, out, count * above, is_inverse, is_one ? scale : T(1));
  } else if (is_one) {
    to_real(call, n, in, out, count, scale);
  } else {
    const size_t bytes = static_cast<size_t>(count * in_item) * sizeof(T);
    const Scratch scratch(bytes);
    T* copy = fft_numbers<T>(scratch);
    std::memcpy(copy, in, bytes);
    transform_others(call, copy, lengths, rank, count, last, true, T(1));
    return to_real(call, n, copy, out, count * above, scale);
  }
  if (!is_one) transform_others(call, out, lengths, rank, count, last, is_inverse, scale);
}

template int64_t fft_prepare<float>(const int64_t*);
template int64_t fft_prepare<double>(const int64_t*);
template void fft_transform<float>(Call*, void* const*, const int64_t*);
template void fft_transform<double>(Call*, void* const*, const int64_t*);

}  // namespace kiln
