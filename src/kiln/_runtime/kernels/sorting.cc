// Sorting along an axis. The order is that of ops/reductions/sorting.py: nan last, -0 equal to 0,
// stable.
#include <algorithm>
#include <atomic>
#include <type_traits>

#include "abi/split.h"
#include "abi/symbols.h"
#include "kernels/element_types.h"
#include "kernels/partitions.h"
#include "kernels/radix.h"
#include "kernels/vector_sort.h"
#include "machine/scratch.h"

namespace kiln {
namespace {

// Maps the bits of an element to a key with the same order.
template <typename U>
struct Integers {
  using Bits = U;
  U flip;  // the sign

  static constexpr bool kFloat = false;
  static bool is_nan(U) { return false; }
  static bool is_zero(U) { return false; }
  U key(U bits) const { return static_cast<U>(bits ^ flip); }
  U plain_key(U bits) const { return key(bits); }
  U bits(U key) const { return static_cast<U>(key ^ flip); }
};

template <typename U, U infinity>
struct Floats {
  using Bits = U;
  static constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));

  static constexpr bool kFloat = true;
  static bool is_nan(U bits) { return static_cast<U>(bits & static_cast<U>(~kSign)) > infinity; }
  static bool is_zero(U bits) { return static_cast<U>(bits << 1) == 0; }
  // Both zeros have the key of 0.
  U key(U bits) const {
    if (is_zero(bits)) return kSign;
    return static_cast<U>(bits & kSign ? ~bits : bits | kSign);
  }
  U bits(U key) const {
    return static_cast<U>(key ^ (static_cast<U>((key >> kLast) - U(1)) | kSign));
  }
  // For an element that is not negative zero: branch-free, so that loops vectorize.
  U plain_key(U bits) const {
    return static_cast<U>(bits ^ (static_cast<U>(U(0) - (bits >> kLast)) | kSign));
  }

 private:
  static constexpr int kLast = 8 * static_cast<int>(sizeof(U)) - 1;
};

template <typename Visitor>
int32_t visit_order(int64_t type, Visitor visit) {
  switch (type) {
    case kBool:
    case kUint8: return visit(Integers<uint8_t>{0});
    case kInt8: return visit(Integers<uint8_t>{0x80});
    case kUint16: return visit(Integers<uint16_t>{0});
    case kInt16: return visit(Integers<uint16_t>{0x8000});
    case kUint32: return visit(Integers<uint32_t>{0});
    case kInt32: return visit(Integers<uint32_t>{0x80000000});
    case kUint64: return visit(Integers<uint64_t>{0});
    case kInt64: return visit(Integers<uint64_t>{uint64_t(1) << 63});
    case kFloat16: return visit(Floats<uint16_t, 0x7c00>());
    case kBfloat16: return visit(Floats<uint16_t, 0x7f80>());
    case kFloat32: return visit(Floats<uint32_t, 0x7f800000>());
    case kFloat64: return visit(Floats<uint64_t, 0x7ff0000000000000>());
    default: return kUnsupported;
  }
}

template <typename Order>
using KeyOf = std::conditional_t<sizeof(typename Order::Bits) <= 4, uint32_t, uint64_t>;

template <typename T>
T load(const char* p, int64_t i) {
  T value;
  std::memcpy(&value, p + i * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}
template <typename T>
void store(char* p, int64_t i, T value) {
  std::memcpy(p + i * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

// Whether nans or negative zeros need special treatment.
template <typename Order>
bool has_specials(const char* in, int64_t n) {
  using Bits = typename Order::Bits;
  int found = 0;
  if constexpr (Order::kFloat) {
    for (int64_t i = 0; i < n; ++i) {
      const Bits bits = load<Bits>(in, i);
      found |= Order::is_nan(bits) | (bits == Order::kSign);
    }
  }
  return found != 0;
}

// Sorts a row of numbers of 32 or 64 bits alone. False if there are no vectors for it, or no keys.
template <typename Key>
bool sort_alone(Call* call, const VectorSort<Key>& code, Key flip, const char* in, char* out,
                int64_t n, char* scratch, int32_t* status) {
  if (code.sort == nullptr) return false;
  Key* const to = reinterpret_cast<Key*>(out);
  const auto copied = [&](const Key* from) {
    return over_blocks(call, (n + kPass - 1) / kPass, [&](int64_t first, int64_t last) {
      const int64_t begin = first * kPass, end = std::min(n, last * kPass);
      const bool are_keys = code.copy(from + begin, end - begin, flip, to + begin);
      return are_keys ? int32_t{kDone} : int32_t{kUnsupported};
    });
  };
  *status = copied(reinterpret_cast<const Key*>(in));
  if (*status == kUnsupported) return false;
  if (*status == kDone) {
    *status = sort_by_vectors(call, code, to, reinterpret_cast<Key*>(scratch), n);
  }
  if (*status == kDone && flip != 0) *status = copied(to);
  return true;
}

// Sorts elements by the low `bits` of their keys and passes all of them to `emit`, in ranges.
template <typename E, typename Emit>
[[nodiscard]] int32_t sort_keys(Call* call, E* a, E* b, int64_t n, int bits, const Emit& emit) {
  using Key = decltype(a->key);
  if constexpr (sizeof(E) == sizeof(Key)) {
    const VectorSort<uint32_t>& narrow = vector_sorts().of_32;
    const VectorSort<uint64_t>& wide = vector_sorts().of_64;
    if (narrow.sort != nullptr && bits > 8) {
      int32_t status;
      if constexpr (sizeof(Key) == 4) status = sort_by_vectors(call, narrow, &a->key, &b->key, n);
      else status = sort_by_vectors(call, wide, &a->key, &b->key, n);
      if (status == kDone) emit(a, 0, n);
      return status;
    }
  }
  return sort_in_buckets(call, a, b, 0, n, bits, emit);
}

// What a row is sorted with: void, bits that move along, or positions.
template <typename Payload, bool is_position, typename Order>
struct Row {
  using Bits = typename Order::Bits;
  using Key = KeyOf<Order>;
  using E = Keyed<Key, Payload>;

  Order order;
  const char* in;
  const char* payloads;
  char* out;
  char* moved;

  E element(int64_t i, Key key) const {
    E made;
    made.key = key;
    if constexpr (is_position) made.payload = static_cast<Payload>(i);
    else if constexpr (!std::is_void_v<Payload>) made.payload = load<Payload>(payloads, i);
    return made;
  }
  void store_one(int64_t i, Bits bits, const E& sorted) const {
    store<Bits>(out, i, bits);
    if constexpr (!std::is_void_v<Payload>) store<Payload>(moved, i, sorted.payload);
  }
};

// Both work on a copy of the row: stores could change one that others see.
// Writes elements without special keys; returns the bits in which their keys differ from `some`.
template <typename R>
typename R::Key make_elements(const R row, int64_t begin, int64_t end, typename R::Key some,
                              typename R::E* to) {
  typename R::Key differing = 0;
  for (int64_t i = begin; i < end; ++i) {
    to[i] = row.element(i, row.order.plain_key(load<typename R::Bits>(row.in, i)));
    differing |= to[i].key ^ some;
  }
  return differing;
}
template <typename R>
void store_elements(const R row, const typename R::E* sorted, int64_t begin, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const auto bits = row.order.bits(static_cast<typename R::Bits>(sorted[i].key));
    row.store_one(begin + i, bits, sorted[i]);
  }
}

// Sorts one row by one key.
template <typename Payload, bool is_position, typename Order>
[[nodiscard]] int32_t sort_row(Call* call, Order order, const char* in, char* out,
                               const char* payloads, char* moved, int64_t n, char* scratch) {
  using R = Row<Payload, is_position, Order>;
  using Bits = typename R::Bits;
  using E = typename R::E;
  const R row{order, in, payloads, out, moved};
  E* a = reinterpret_cast<E*>(scratch);
  E* b = a + n;
  constexpr int kBits = 8 * static_cast<int>(sizeof(Bits));
  if (!has_specials<Order>(in, n)) {
    const auto some = order.plain_key(load<Bits>(in, 0));
    std::atomic<typename R::Key> differing = 0;
    int32_t status = over_passes(call, n, [&](int64_t begin, int64_t end) {
      differing.fetch_or(make_elements(row, begin, end, some, a), std::memory_order_relaxed);
    });
    if (status != kDone) return status;
    const uint64_t any = differing.load(std::memory_order_relaxed);
    const int bits = any == 0 ? 0 : 64 - __builtin_clzll(any);
    return sort_keys(call, a, b, n, bits, [&](const E* sorted, int64_t begin, int64_t size) {
      store_elements(row, sorted, begin, size);
    });
  }
  // nans wait at the end of `b`, which sorting the others does not reach.
  int64_t count = 0, nans = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Bits bits = load<Bits>(in, i);
    if (Order::is_nan(bits)) b[n - ++nans] = row.element(i, bits);
    else a[count++] = row.element(i, order.key(bits));
  }
  const auto put_back = [&](const E* sorted, int64_t begin, int64_t size) {
    if (sorted != a + begin) std::copy_n(sorted, size, a + begin);
  };
  if (int32_t status = sort_keys(call, a, b, count, kBits, put_back); status != kDone)
    return status;
  int64_t zero = 0;  // zeros keep their order: their signs are reloaded
  for (int64_t i = 0; i < n; ++i) {
    const E& next = i < count ? a[i] : b[n - 1 - (i - count)];
    Bits bits = static_cast<Bits>(next.key);
    if (i < count) {
      bits = order.bits(bits);
      if (bits == 0) {
        while (!Order::is_zero(load<Bits>(in, zero))) ++zero;
        bits = load<Bits>(in, zero++);
      }
    }
    row.store_one(i, bits, next);
  }
  return kDone;
}

// A secondary key, or the only one of several operands: sorts positions.
struct Key {
  const char* data;
  int64_t step, type;  // step: in elements, 2 for parts of complex numbers
};

template <typename Order, typename E, typename Position>
void key_positions(const Order order, const Key key, const Position* positions, int64_t begin,
                   int64_t end, E* to) {
  using Bits = typename Order::Bits;
  for (int64_t i = begin; i < end; ++i) {
    const Bits bits = load<Bits>(key.data, static_cast<int64_t>(positions[i]) * key.step);
    // Only nan has this key.
    const Bits mapped = Order::is_nan(bits) ? static_cast<Bits>(~Bits(0)) : order.key(bits);
    to[i] = {mapped, positions[i]};
  }
}

template <typename Position, typename Order>
[[nodiscard]] int32_t order_positions(Call* call, Order order, const Key& key, Position* positions,
                                      int64_t n, char* scratch) {
  using Bits = typename Order::Bits;
  using E = Keyed<KeyOf<Order>, Position>;
  E* a = reinterpret_cast<E*>(scratch);
  const int32_t status = over_passes(call, n, [&](int64_t begin, int64_t end) {
    key_positions(order, key, positions, begin, end, a);
  });
  if (status != kDone) return status;
  const auto store = [positions](const E* sorted, int64_t begin, int64_t size) {
    Position* const to = positions + begin;
    for (int64_t i = 0; i < size; ++i) to[i] = sorted[i].payload;
  };
  return sort_in_buckets(call, a, a + n, 0, n, 8 * static_cast<int>(sizeof(Bits)), store);
}

template <typename T, typename Position>
void permute(const char* in, char* out, const Position* positions, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    store<T>(out, i, load<T>(in, static_cast<int64_t>(positions[i])));
  }
}

template <typename Position>
[[nodiscard]] int32_t permute(Call* call, const char* in, char* out, const Position* positions,
                              int64_t n, int64_t item) {
  return over_passes(call, n, [&](int64_t begin, int64_t end) {
    switch (item) {
      case 1: return permute<uint8_t>(in, out, positions, begin, end);
      case 2: return permute<uint16_t>(in, out, positions, begin, end);
      case 4: return permute<uint32_t>(in, out, positions, begin, end);
      case 8: return permute<uint64_t>(in, out, positions, begin, end);
      default: return permute<Sixteen>(in, out, positions, begin, end);
    }
  });
}

// What a call sorts, row by row.
struct Sorter {
  Call* call;
  int64_t size, operands, keys;
  const int64_t* types;
  char* scratch;

  int32_t operator()(const char* const* in, char* const* out) const {
    if (operands == 1 && types[0] < kComplex64) {
      int32_t status;
      if (alone(in[0], out[0], &status)) return status;
      return visit_order(types[0], [&](auto order) {
        return sort_row<void, false>(call, order, in[0], out[0], nullptr, nullptr, size, scratch);
      });
    }
    if (operands == 2 && keys == 1 && types[0] < kComplex64 && size_of(types[1]) == 4) {
      return with_payload<uint32_t>(in, out);
    }
    if (operands == 2 && keys == 1 && types[0] < kComplex64 && size_of(types[1]) == 8) {
      return with_payload<uint64_t>(in, out);
    }
    return size < int64_t(1) << 32 ? by_position<uint32_t>(in, out)
                                   : by_position<uint64_t>(in, out);
  }

 private:
  bool alone(const char* in, char* out, int32_t* status) const {
    const VectorSorts& sorts = vector_sorts();
    const auto by = [&](const auto& code, auto flip) {
      return sort_alone(call, code, flip, in, out, size, scratch, status);
    };
    switch (types[0]) {
      case kInt32: return by(sorts.of_32, uint32_t{1} << 31);
      case kUint32: return by(sorts.of_32, uint32_t{0});
      case kInt64: return by(sorts.of_64, uint64_t{1} << 63);
      case kUint64: return by(sorts.of_64, uint64_t{0});
      case kFloat32: return by(sorts.of_floats, 0.0f);
      case kFloat64: return by(sorts.of_doubles, 0.0);
      default: return false;
    }
  }

  template <typename Payload>
  int32_t with_payload(const char* const* in, char* const* out) const {
    return visit_order(types[0], [&](auto order) {
      return sort_row<Payload, false>(call, order, in[0], out[0], in[1], out[1], size, scratch);
    });
  }

  template <typename Position>
  int32_t by_position(const char* const* in, char* const* out) const {
    Position* positions = reinterpret_cast<Position*>(scratch);
    char* rest = scratch + size * 8;
    int64_t permuted = 0;
    if (keys == 1 && types[0] < kComplex64) {
      int32_t status = visit_order(types[0], [&](auto order) {
        return sort_row<Position, true>(call, order, in[0], out[0], nullptr, scratch, size, rest);
      });
      if (status != kDone) return status;
      permuted = 1;
    } else {
      for (int64_t i = 0; i < size; ++i) positions[i] = static_cast<Position>(i);
      for (int64_t k = keys - 1; k >= 0; --k) {
        const bool pairs = types[k] >= kComplex64;
        const int64_t type = types[k] - (pairs ? kComplex64 - kFloat32 : 0);
        for (int64_t part = pairs ? 1 : 0; part >= 0; --part) {
          Key key{in[k] + part * size_of(type), pairs ? 2 : 1, type};
          int32_t status = visit_order(type, [&](auto order) {
            return order_positions(call, order, key, positions, size, rest);
          });
          if (status != kDone) return status;
        }
      }
    }
    for (; permuted < operands; ++permuted) {
      const int32_t status =
          permute(call, in[permuted], out[permuted], positions, size, size_of(types[permuted]));
      if (status != kDone) return status;
    }
    return kDone;
  }
};

// The workspace per element: keys with payloads twice, and positions. Fresh memory costs as much as
// a pass over it.
int64_t bytes_to_sort(int64_t operands, int64_t keys, const int64_t* types) {
  int64_t key = 4;
  for (int64_t k = 0; k < keys; ++k) {
    if (types[k] == kComplex128 || (size_of(types[k]) == 8 && types[k] != kComplex64)) key = 8;
  }
  if (operands == 1 && types[0] < kComplex64) return 2 * key;
  const bool one = operands == 2 && keys == 1 && types[0] < kComplex64;
  if (one && size_of(types[1]) == 4) return 4 * key;
  return one && size_of(types[1]) == 8 ? 32 : 40;
}

// sort. Buffers: the operands, then as many results, none overlapping an operand.
// Numbers: first row, rows, size of the axis, inner, operands, keys, the type of each operand.
int32_t sort(Call* call, void* const* buffers, const int64_t* numbers) {
  const int64_t first = numbers[0], count = numbers[1], operands = numbers[4], keys = numbers[5];
  const Rows rows{numbers[2], numbers[3]};
  const int64_t* types = numbers + 6;
  constexpr int64_t kMostOperands = 64;
  if (operands > kMostOperands) return kUnsupported;
  int64_t width = 0;
  for (int64_t k = 0; k < operands; ++k) {
    if (size_of(types[k]) == 0) return kUnsupported;
    width += size_of(types[k]);
  }
  if (count <= 0 || rows.size == 0) return kDone;
  // Strided rows are copied, several at a time: a cache line holds several.
  const int64_t most = rows.inner == 1 ? 0 : std::clamp<int64_t>((1 << 18) / rows.size, 1, 16);
  const int64_t per_element = bytes_to_sort(operands, keys, types);
  const Scratch scratch(static_cast<size_t>(rows.size * (per_element + 2 * most * width)));
  if (!scratch) return kOutOfMemory;
  char* dense = scratch.bytes() + rows.size * per_element;
  const Sorter sorter{call, rows.size, operands, keys, types, scratch.bytes()};
  const char* in[kMostOperands];
  char* out[kMostOperands];
  if (rows.inner == 1) {
    for (int64_t row = first; row < first + count; ++row) {
      for (int64_t k = 0; k < operands; ++k) {
        const int64_t offset = row * rows.size * size_of(types[k]);
        in[k] = static_cast<const char*>(buffers[k]) + offset;
        out[k] = static_cast<char*>(buffers[operands + k]) + offset;
      }
      if (int32_t status = sorter(in, out); status != kDone) return status;
    }
    return kDone;
  }
  for (int64_t row = first; row < first + count;) {
    const int64_t together = std::min({most, first + count - row, rows.inner - row % rows.inner});
    char* at = dense;
    for (int64_t k = 0; k < operands; ++k) {
      const int64_t item = size_of(types[k]);
      gather_rows(static_cast<const char*>(buffers[k]) + rows.start(row) * item, at, together, rows,
                  item);
      at += together * rows.size * item;
    }
    for (int64_t b = 0; b < together; ++b) {
      const char* from = dense;
      char* to = at;
      for (int64_t k = 0; k < operands; ++k) {
        const int64_t bytes = rows.size * size_of(types[k]);
        in[k] = from + b * bytes;
        out[k] = to + b * bytes;
        from += together * bytes;
        to += together * bytes;
      }
      if (int32_t status = sorter(in, out); status != kDone) return status;
    }
    for (int64_t k = 0; k < operands; ++k) {
      const int64_t item = size_of(types[k]);
      scatter_rows(at, static_cast<char*>(buffers[operands + k]) + rows.start(row) * item, together,
                   rows, item);
      at += together * rows.size * item;
    }
    row += together;
  }
  return kDone;
}

}  // namespace

KILN_KERNEL_SYMBOL("sort", sort)
}  // namespace kiln
