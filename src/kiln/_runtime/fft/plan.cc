#include "fft/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <utility>

namespace kiln {
namespace {

constexpr int64_t kLargestWhole = 4096;  // its columns fit in the L2 cache
constexpr int64_t kSmallestSplit = 64;
// The least numbers that a thread transforms per task.
constexpr int64_t kSharedWork = 1 << 13;
constexpr size_t kMostPlans = 64;
constexpr size_t kMostBytes = size_t(1) << 28;

// exp(-2 pi i k / n), as products of two factors from tables of about sqrt(n) numbers with extra
// precision.
class Roots {
 public:
  explicit Roots(int64_t n) : n_(n) {
    if (!kHasWider) return;
    while (int64_t(1) << (2 * shift_) < n) ++shift_;
    low_.reserve(size_t(1) << shift_);
    for (int64_t k = 0; k < int64_t(1) << shift_; ++k) low_.push_back(root(k));
    for (int64_t k = 0; k < n; k += int64_t(1) << shift_) high_.push_back(root(k));
  }

  template <typename T>
  void get(int64_t k, T* out) const {
    if constexpr (!kHasWider) {
      const auto [re, im] = root(k);
      out[0] = static_cast<T>(re), out[1] = static_cast<T>(im);
      return;
    }
    const auto [a, b] = high_[static_cast<size_t>(k >> shift_)];
    const auto [c, d] = low_[static_cast<size_t>(k & ((int64_t(1) << shift_) - 1))];
    out[0] = static_cast<T>(a * c - b * d);
    out[1] = static_cast<T>(a * d + b * c);
  }

  using Wide = std::pair<long double, long double>;

  // Angles of at most an eighth of a turn keep small parts exact.
  Wide root(int64_t k) const {
    int64_t eighths = 8 * (k % n_), octant = eighths / n_, rest = eighths % n_;
    if (octant % 2) rest = n_ - rest;
    const long double angle = static_cast<long double>(rest) / static_cast<long double>(n_) *
                              0.785398163397448309615660845819875721L;
    long double c = std::cos(angle), s = std::sin(angle);
    if ((octant + 1) / 2 % 2) std::swap(c, s);
    if (octant >= 2 && octant < 6) c = -c;
    return {c, octant < 4 ? -s : s};
  }

 private:
  // Without extra precision (macOS on ARM) products of roots would be less exact than roots.
  static constexpr bool kHasWider = sizeof(long double) > sizeof(double);

  int64_t n_;
  int shift_ = 0;
  std::vector<Wide> low_, high_;
};

std::vector<int64_t> radices(int64_t n) {
  std::vector<int64_t> found;
  if (n == 1) return {1};
  // Two radix-4 stages are less work than one of radix 8 and one of radix 2.
  while (n % 8 == 0 && n % 32 != 16) found.push_back(8), n /= 8;
  while (n % 4 == 0) found.push_back(4), n /= 4;
  for (int64_t p = 2; p * p <= n; ++p) {
    while (n % p == 0) found.push_back(p), n /= p;
  }
  if (n > 1) found.push_back(n);
  return found;
}

template <typename T>
size_t bytes_of(const FftStages<T>& made) {
  return made.numbers.size() * sizeof(T);
}
template <typename T>
size_t bytes_of(const FftPlan<T>& made) {
  return (made.factors.size() + made.chirp.size() + made.kernel.size()) * sizeof(T);
}
template <typename T>
size_t bytes_of(const FftRealRoots<T>& made) {
  return made.roots.size() * sizeof(T);
}
template <typename T>
size_t bytes_of(const FftAllRoots<T>& made) {
  return made.roots.size() * sizeof(T);
}

#ifdef __wasm__
// A module has one thread, and its standard library no mutexes.
struct Mutex {
  void lock() {}
  void unlock() {}
};
#else
using Mutex = std::mutex;
#endif

// The latest plans, by type and size.
template <typename Made>
class Table {
 public:
  template <typename Make>
  std::shared_ptr<const Made> get(int64_t size, Make make) {
    {
      std::lock_guard<Mutex> lock(mutex_);
      if (auto found = find(size)) return found;
    }
    // Other threads may create the same plan meanwhile; the first is kept. Nothing is allocated while
    // the lock is held: a kernel that is stopped in a static runtime would not release it.
    std::shared_ptr<const Made> made = make();
    Entries fresh;
    fresh.emplace_front(size, made);
    std::lock_guard<Mutex> lock(mutex_);
    if (auto found = find(size)) return found;
    entries_.splice(entries_.begin(), fresh);
    bytes_ += bytes_of(*made);
    while (entries_.size() > 1 && (entries_.size() > kMostPlans || bytes_ > kMostBytes)) {
      bytes_ -= bytes_of(*entries_.back().second);
      entries_.pop_back();
    }
    return made;
  }

  static Table& instance() {
    // Never destroyed: threads may outlive static objects.
    alignas(Table) static char memory[sizeof(Table)];
    static Table* const table = new (memory) Table;
    return *table;
  }

 private:
  using Entries = std::list<std::pair<int64_t, std::shared_ptr<const Made>>>;

  std::shared_ptr<const Made> find(int64_t size) {
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->first != size) continue;
      entries_.splice(entries_.begin(), entries_, at);
      return entries_.front().second;
    }
    return nullptr;
  }

  Mutex mutex_;
  Entries entries_;
  size_t bytes_ = 0;
};

template <typename T>
FftStagesRef<T> make_stages(int64_t size) {
  auto made = std::make_shared<FftStages<T>>();
  made->size = size;
  const std::vector<int64_t> all = radices(size);
  size_t count = 0;
  int64_t current = size;
  for (int64_t radix : all) {
    count += static_cast<size_t>(2 * (current / radix * (radix - 1) + radix));
    current /= radix;
  }
  made->numbers.resize(count);
  T* at = made->numbers.data();
  const Roots roots(size);
  current = size;
  for (int64_t radix : all) {
    const int64_t rest = current / radix, turn = size / current;
    FftStage<T> stage{radix, rest, at, nullptr};
    for (int64_t k = 0; k < rest; ++k) {
      for (int64_t j = 1; j < radix; ++j, at += 2) roots.get(k * j * turn, at);
    }
    stage.roots = at;
    for (int64_t j = 0; j < radix; ++j, at += 2) roots.get(size / radix * j, at);
    made->stages.push_back(stage);
    current = rest;
  }
  return made;
}

template <typename T>
FftStagesRef<T> stages_of(int64_t size) {
  return Table<FftStages<T>>::instance().get(size, [=] { return make_stages<T>(size); });
}

// The smallest product of 2, 3 and 5 that is at least n.
int64_t smooth_size(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t fives = 1; fives < best; fives *= 5) {
    for (int64_t threes = fives; threes < best; threes *= 3) {
      int64_t found = threes;
      while (found < n) found *= 2;
      if (found < best) best = found;
    }
  }
  return best;
}

template <typename T>
void make_convolution(FftPlan<T>& plan) {
  const int64_t n = plan.size, size = smooth_size(2 * n - 1);
  plan.convolution = fft_plan<T>(size);
  plan.chirp.resize(static_cast<size_t>(2 * n));
  plan.kernel.assign(static_cast<size_t>(2 * size), 0);
  const Roots roots(2 * n);
  T *chirp = plan.chirp.data(), *kernel = plan.kernel.data();
  for (int64_t k = 0, square = 0; k < n; ++k) {
    roots.get(square, chirp + 2 * k);
    square = (square + 2 * k + 1) % (2 * n);
    for (int64_t at : {k, (size - k) % size}) {
      kernel[2 * at] = chirp[2 * k];
      kernel[2 * at + 1] = -chirp[2 * k + 1];
    }
  }
  fft_row<T>(nullptr, *plan.convolution, kernel, kernel, false, T(1) / static_cast<T>(size));
}

template <typename T>
int64_t blocks_of(int64_t columns) {
  return (columns + kFftColumns<T> - 1) / kFftColumns<T>;
}

template <typename T>
std::shared_ptr<const FftPlan<T>> make_plan(int64_t size) {
  auto plan = std::make_shared<FftPlan<T>>();
  plan->size = size;
  const std::vector<int64_t> all = radices(size);
  if (!all.empty() && all.back() > kLargestRadix) {
    make_convolution(*plan);
    return plan;
  }
  int64_t rows = 1;
  for (int64_t divisor = 2; divisor * divisor <= size; ++divisor) {
    if (size % divisor == 0) rows = divisor;
  }
  const bool is_split = size >= kSmallestSplit && rows >= 4;
  if (size <= kLargestWhole || !is_split) plan->whole = stages_of<T>(size);
  if (is_split) {
    const int64_t columns = size / rows;
    plan->rows = stages_of<T>(rows);
    plan->columns = stages_of<T>(columns);
    const int64_t room = blocks_of<T>(columns) * kFftColumns<T>;
    plan->factors.resize(static_cast<size_t>(2 * rows * room));
    const Roots roots(size);
    T* at = plan->factors.data();
    for (int64_t first = 0; first < room; first += kFftColumns<T>) {
      for (int64_t k = 0; k < rows; ++k, at += 2 * kFftColumns<T>) {
        for (int64_t j = 0; j < kFftColumns<T>; ++j) {
          T root[2];
          roots.get(first + j < columns ? k * (first + j) : 0, root);
          at[j] = root[0], at[kFftColumns<T> + j] = root[1];
        }
      }
    }
  }
  return plan;
}

// Blocks of columns, on the call's threads.
template <typename T>
void run_blocks(Call* call, const FftColumns<T>& all, int64_t columns, int64_t in_next,
                int64_t out_next) {
  constexpr int64_t kColumns = kFftColumns<T>;
  const int64_t grain = std::max<int64_t>(1, kSharedWork / (kColumns * all.size));
  fft_shared(call, blocks_of<T>(columns), grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(static_cast<size_t>(fft_scratch<T>(all.size)) * sizeof(T));
    FftColumns<T> given = all;
    given.scratch = fft_numbers<T>(scratch);
    for (int64_t c = begin * kColumns; c < end * kColumns; c += kColumns) {
      given.columns = std::min(columns - c, kColumns);
      given.in = all.in + 2 * c * in_next;
      given.out = all.out + 2 * c * out_next;
      if (all.factors != nullptr) given.factors = all.factors + 2 * all.size * c;
      fft_run(given);
    }
  });
}

template <typename T>
void convolve(Call* call, const FftPlan<T>& plan, const T* in, T* out, bool exchange, T scale) {
  const FftPlan<T>& inner = *plan.convolution;
  const Scratch scratch(2 * static_cast<size_t>(inner.size) * sizeof(T));
  T* line = fft_numbers<T>(scratch);
  const int from = exchange ? 1 : 0;
  for (int64_t k = 0; k < plan.size; ++k) {
    const T re = in[2 * k + from], im = in[2 * k + 1 - from];
    const T* w = plan.chirp.data() + 2 * k;
    line[2 * k] = re * w[0] - im * w[1];
    line[2 * k + 1] = re * w[1] + im * w[0];
  }
  std::memset(line + 2 * plan.size, 0, static_cast<size_t>(inner.size - plan.size) * 2 * sizeof(T));
  fft_row(call, inner, line, line, false, T(1));
  for (int64_t k = 0; k < inner.size; ++k) {
    const T re = line[2 * k], im = line[2 * k + 1];
    const T* w = plan.kernel.data() + 2 * k;
    line[2 * k] = re * w[0] - im * w[1];
    line[2 * k + 1] = re * w[1] + im * w[0];
  }
  fft_row(call, inner, line, line, true, T(1));
  for (int64_t k = 0; k < plan.size; ++k) {
    const T re = line[2 * k] * scale, im = line[2 * k + 1] * scale;
    const T* w = plan.chirp.data() + 2 * k;
    out[2 * k + from] = re * w[0] - im * w[1];
    out[2 * k + 1 - from] = re * w[1] + im * w[0];
  }
}

}  // namespace

template <typename T>
void fft_row(Call* call, const FftPlan<T>& plan, const T* in, T* out, bool exchange, T scale) {
  if (plan.convolution) return convolve(call, plan, in, out, exchange, scale);
  const int64_t width = kFftColumns<T>;
  if (!plan.rows) {
    const int64_t n = plan.size;
    const Scratch scratch(static_cast<size_t>(fft_scratch<T>(n)) * sizeof(T));
    FftColumns<T> only = fft_columns(*plan.whole, fft_numbers<T>(scratch));
    only.columns = 1;
    only.in = in;
    only.in_step = only.out_step = 1;
    only.in_column = only.out_column = n;
    only.out = out;
    only.out_block = width;
    only.exchange_in = only.exchange_out = exchange;
    only.scale = scale;
    return fft_run(only);
  }
  // Between its two halves a transform is stored as the second half reads it: block by block.
  const int64_t rows = plan.rows->size, columns = plan.columns->size;
  const Scratch scratch(2 * static_cast<size_t>(blocks_of<T>(rows) * width * columns) * sizeof(T));
  T* between = fft_numbers<T>(scratch);
  FftColumns<T> first = fft_columns<T>(*plan.rows, nullptr);
  first.in = in;
  first.in_step = columns;
  first.in_column = 1;
  first.out = between;
  first.out_step = 1;
  first.out_column = width;
  first.out_block = width * columns;
  first.exchange_in = exchange;
  first.factors = plan.factors.data();
  run_blocks(call, first, columns, 1, width);
  FftColumns<T> second = fft_columns<T>(*plan.columns, nullptr);
  second.in = between;
  second.in_step = width;
  second.out_step = rows;
  second.in_column = second.out_column = 1;
  second.out = out;
  second.exchange_out = exchange;
  second.scale = scale;
  run_blocks(call, second, rows, columns, 1);
}

template <typename T>
size_t fft_row_scratch(const FftPlan<T>& plan) {
  if (plan.convolution) {
    const size_t line = 2 * static_cast<size_t>(plan.convolution->size) * sizeof(T);
    return Scratch::room(line) + fft_row_scratch(*plan.convolution);
  }
  const auto of_columns = [](int64_t size) {
    return Scratch::room(static_cast<size_t>(fft_scratch<T>(size)) * sizeof(T));
  };
  if (!plan.rows) return of_columns(plan.size);
  const int64_t rows = plan.rows->size, columns = plan.columns->size;
  const int64_t between = 2 * blocks_of<T>(rows) * kFftColumns<T> * columns;
  return Scratch::room(static_cast<size_t>(between) * sizeof(T)) +
         of_columns(std::max(rows, columns));
}

template <typename T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t size) {
  return Table<FftPlan<T>>::instance().get(size, [=] { return make_plan<T>(size); });
}

template <typename T>
std::shared_ptr<const FftRealRoots<T>> fft_real_roots(int64_t size) {
  return Table<FftRealRoots<T>>::instance().get(size, [=] {
    auto made = std::make_shared<FftRealRoots<T>>();
    made->roots.resize(static_cast<size_t>(size / 2 + 1) * 2);
    const Roots roots(size);
    for (int64_t k = 0; k <= size / 2; ++k) roots.get(k, made->roots.data() + 2 * k);
    return std::shared_ptr<const FftRealRoots<T>>(made);
  });
}

template <typename T>
std::shared_ptr<const FftAllRoots<T>> fft_all_roots(int64_t size) {
  return Table<FftAllRoots<T>>::instance().get(size, [=] {
    auto made = std::make_shared<FftAllRoots<T>>();
    made->roots.reserve(static_cast<size_t>(size) * 2);
    const Roots roots(size);
    for (int64_t k = 0; k < size; ++k) {
      const auto [re, im] = roots.root(k);
      made->roots.push_back(static_cast<T>(re));
      made->roots.push_back(static_cast<T>(im));
    }
    return std::shared_ptr<const FftAllRoots<T>>(made);
  });
}

template std::shared_ptr<const FftPlan<float>> fft_plan(int64_t);
template std::shared_ptr<const FftPlan<double>> fft_plan(int64_t);
template std::shared_ptr<const FftRealRoots<float>> fft_real_roots(int64_t);
template std::shared_ptr<const FftRealRoots<double>> fft_real_roots(int64_t);
template std::shared_ptr<const FftAllRoots<float>> fft_all_roots(int64_t);
template std::shared_ptr<const FftAllRoots<double>> fft_all_roots(int64_t);
template size_t fft_row_scratch(const FftPlan<float>&);
template size_t fft_row_scratch(const FftPlan<double>&);
template void fft_row(Call*, const FftPlan<float>&, const float*, float*, bool, float);
template void fft_row(Call*, const FftPlan<double>&, const double*, double*, bool, double);

}  // namespace kiln
