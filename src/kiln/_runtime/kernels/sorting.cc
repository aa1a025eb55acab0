// Sorting along an axis. The order is that of ops/reductions/sorting.py: nan last, -0 equal to 0,
// stable.
#include <algorithm>
#include <type_traits>

#include "abi/split.h"
#include "abi/symbols.h"
#include "kernels/element_types.h"
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

// Keys per task of a pass over them.
constexpr int64_t kPass = 1 << 15;
// Pieces that are sorted apart: the least, and about how many there are.
constexpr int64_t kLeastPiece = 1 << 15, kTasks = 16;

// Partitions keys from one buffer to the other, all threads together; returns how many are less than
// the pivot, or -1 if it fails.
template <typename Key>
int64_t partition_together(Call* call, const VectorSort<Key>& code, const Key* from, Key* to,
                           int64_t n) {
  const Key pivot = code.median(from, n);
  const Blocks blocks = Blocks::of(n, std::max(kPass, n / kTasks), 1);
  int64_t less[2 * kTasks];
  const auto each = [&](auto body) {
    return over_blocks(call, blocks.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        body(i, from + blocks.begin(i), blocks.end(i) - blocks.begin(i));
      }
      return kDone;
    });
  };
  int32_t status = each([&](int64_t i, const Key* part, int64_t size) {
    less[i] = code.count_less(part, size, pivot);
  });
  Key *low[2 * kTasks], *high[2 * kTasks], *next = to, *end = to + n;
  for (int64_t i = 0; i < blocks.count; ++i) {
    low[i] = next;
    high[i] = end;
    next += less[i];
    end -= blocks.end(i) - blocks.begin(i) - less[i];
  }
  if (status == kDone) {
    status = each([&](int64_t i, const Key* part, int64_t size) {
      code.divide(part, size, pivot, low[i], high[i]);
    });
  }
  return status == kDone ? next - to : -1;
}

// Sorts keys without payload, with vectors, in place. Large inputs are partitioned until there is
// work for all threads.
template <typename Key>
int32_t sort_by_vectors(Call* call, const VectorSort<Key>& code, Key* a, Key* b, int64_t n) {
  struct Piece {
    int64_t begin, size;
    bool is_moved, is_final;
    Key* in(Key* here, Key* there) const { return (is_moved ? there : here) + begin; }
  };
  Piece pieces[2 * kTasks], parts[2 * kTasks];
  pieces[0] = {0, n, false, false};
  int64_t count = 1;
  const auto is_large = [&](const Piece& piece) {
    return !piece.is_final && piece.size >= std::max(2 * kLeastPiece, n / kTasks);
  };
  while (threads_of(call) > 1 && count <= kTasks && std::any_of(pieces, pieces + count, is_large)) {
    int64_t less[2 * kTasks] = {};
    if (count == 1) {
      less[0] = partition_together(call, code, a, b, n);
      if (less[0] < 0) return kOutOfMemory;
    } else {
      const int32_t status = over_blocks(call, count, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const Piece& piece = pieces[i];
          if (!is_large(piece)) continue;
          const Key* from = piece.in(a, b);
          Key* to = piece.in(b, a);
          const Key pivot = code.median(from, piece.size);
          less[i] = code.divide(from, piece.size, pivot, to, to + piece.size);
        }
        return kDone;
      });
      if (status != kDone) return status;
    }
    int64_t made = 0;
    for (int64_t i = 0; i < count; ++i) {
      Piece piece = pieces[i];
      if (less[i] == 0) {  // not partitioned, or all keys are at least the pivot
        piece.is_final = piece.is_final || is_large(piece);
        parts[made++] = piece;
        continue;
      }
      const bool is_moved = !piece.is_moved;
      parts[made++] = {piece.begin, less[i], is_moved, false};
      parts[made++] = {piece.begin + less[i], piece.size - less[i], is_moved, false};
    }
    std::copy_n(parts, made, pieces);
    count = made;
  }
  return over_blocks(call, count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Piece& piece = pieces[i];
      code.sort(piece.in(a, b), piece.in(b, a), piece.size, a + piece.begin);
    }
    return kDone;
  });
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
  if (copied(reinterpret_cast<const Key*>(in)) != kDone) return false;
  *status = sort_by_vectors(call, code, to, reinterpret_cast<Key*>(scratch), n);
  if (*status == kDone && flip != 0) *status = copied(to);
  return true;
}

// Sets the address of the sorted elements, unless it fails.
template <typename E>
int32_t sort_keys(Call* call, E* a, E* b, int64_t n, int bits, const E** sorted) {
  using Key = decltype(a->key);
  if constexpr (sizeof(E) == sizeof(Key)) {
    const VectorSort<uint32_t>& narrow = vector_sorts().of_32;
    const VectorSort<uint64_t>& wide = vector_sorts().of_64;
    if (narrow.sort != nullptr && bits > 8) {
      *sorted = a;
      if constexpr (sizeof(Key) == 4) return sort_by_vectors(call, narrow, &a->key, &b->key, n);
      else return sort_by_vectors(call, wide, &a->key, &b->key, n);
    }
  }
  *sorted = sort_by_key(a, b, n, bits);
  return kDone;
}

// Sorts one row by one key. A payload is void, or bits that move along, or the element's position.
template <typename Payload, bool is_position, typename Order>
[[nodiscard]] int32_t sort_row(Call* call, Order order, const char* in, char* out,
                               const char* payload, char* moved, int64_t n, char* scratch) {
  using Bits = typename Order::Bits;
  using E = Keyed<KeyOf<Order>, Payload>;
  E* a = reinterpret_cast<E*>(scratch);
  E* b = a + n;
  auto element = [&](int64_t i, KeyOf<Order> key) {
    E made;
    made.key = key;
    if constexpr (is_position) made.payload = static_cast<Payload>(i);
    else if constexpr (!std::is_void_v<Payload>) made.payload = load<Payload>(payload, i);
    return made;
  };
  constexpr int kBits = 8 * static_cast<int>(sizeof(Bits));
  if (!has_specials<Order>(in, n)) {
    for (int64_t i = 0; i < n; ++i) a[i] = element(i, order.plain_key(load<Bits>(in, i)));
    const E* sorted;
    if (int32_t status = sort_keys(call, a, b, n, kBits, &sorted); status != kDone) return status;
    for (int64_t i = 0; i < n; ++i) {
      store<Bits>(out, i, order.bits(static_cast<Bits>(sorted[i].key)));
      if constexpr (!std::is_void_v<Payload>) store<Payload>(moved, i, sorted[i].payload);
    }
    return kDone;
  }
  // nans wait at the end of `b`, which sorting the others does not reach.
  int64_t count = 0, nans = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Bits bits = load<Bits>(in, i);
    if (Order::is_nan(bits)) b[n - ++nans] = element(i, bits);
    else a[count++] = element(i, order.key(bits));
  }
  const E* sorted;
  if (int32_t status = sort_keys(call, a, b, count, kBits, &sorted); status != kDone) return status;
  int64_t zero = 0;  // zeros keep their order: their signs are reloaded
  for (int64_t i = 0; i < n; ++i) {
    const E& next = i < count ? sorted[i] : b[n - 1 - (i - count)];
    Bits bits = static_cast<Bits>(next.key);
    if (i < count) {
      bits = order.bits(bits);
      if (bits == 0) {
        while (!Order::is_zero(load<Bits>(in, zero))) ++zero;
        bits = load<Bits>(in, zero++);
      }
    }
    store<Bits>(out, i, bits);
    if constexpr (!std::is_void_v<Payload>) store<Payload>(moved, i, next.payload);
  }
  return kDone;
}

// A secondary key, or the only one of several operands: sorts positions.
struct Key {
  const char* data;
  int64_t step, type;  // step: in elements, 2 for parts of complex numbers
};

template <typename Position, typename Order>
void order_positions(Order order, const Key& key, Position* positions, int64_t n, char* scratch) {
  using Bits = typename Order::Bits;
  using E = Keyed<KeyOf<Order>, Position>;
  E* a = reinterpret_cast<E*>(scratch);
  for (int64_t i = 0; i < n; ++i) {
    const Bits bits = load<Bits>(key.data, static_cast<int64_t>(positions[i]) * key.step);
    // Only nan has this key.
    const Bits mapped = Order::is_nan(bits) ? static_cast<Bits>(~Bits(0)) : order.key(bits);
    a[i] = {mapped, positions[i]};
  }
  const E* sorted = sort_by_key(a, a + n, n, 8 * static_cast<int>(sizeof(Bits)));
  for (int64_t i = 0; i < n; ++i) positions[i] = sorted[i].payload;
}

template <typename T, typename Position>
void permute(const char* in, char* out, const Position* positions, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    store<T>(out, i, load<T>(in, static_cast<int64_t>(positions[i])));
  }
}

template <typename Position>
void permute(const char* in, char* out, const Position* positions, int64_t n, int64_t item) {
  switch (item) {
    case 1: return permute<uint8_t>(in, out, positions, n);
    case 2: return permute<uint16_t>(in, out, positions, n);
    case 4: return permute<uint32_t>(in, out, positions, n);
    case 8: return permute<uint64_t>(in, out, positions, n);
    default: return permute<Sixteen>(in, out, positions, n);
  }
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
            order_positions(order, key, positions, size, rest);
            return kDone;
          });
          if (status != kDone) return status;
        }
      }
    }
    for (; permuted < operands; ++permuted) {
      permute(in[permuted], out[permuted], positions, size, size_of(types[permuted]));
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
