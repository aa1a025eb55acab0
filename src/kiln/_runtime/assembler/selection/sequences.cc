// What x86-64-v4 does in one instruction and x86-64-v3 in several: long integers, maxima of floats,
// narrowing, and conversions between floats and integers.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

Type with_element(Type type, Element element) {
  type.element = element;
  return type;
}

}  // namespace

// An operation on a vector and a constant in all lanes.
Register FunctionWriter::with_lanes(Code code, int length, Register a, uint64_t bits, int bytes) {
  Op op{};
  op.shape = Shape::kVector;
  op.code = code;
  op.length = static_cast<uint8_t>(length);
  op.a = a;
  in_all_lanes(op, bits, bytes);
  op.d = body_.fresh(Class::kVector, a);
  return add(op).d;
}

// Lanes of 32 or 64 bits shifted: to the right, or, with `is_left`, to the left.
Register FunctionWriter::shifted(Register of, int length, int size, int by, bool is_left) {
  Op op{};
  op.shape = Shape::kShift;
  op.code = evex(k66, k0F, size == 64, size == 64 ? 0x73 : 0x72);
  op.digit = is_left ? 6 : 2;
  op.length = static_cast<uint8_t>(length);
  op.b = of;
  op.has_immediate = true;
  op.immediate = by;
  op.d = body_.fresh(Class::kVector, of);
  return add(op).d;
}

// Long integers.

// With words of 32 bits, (a1, a0) * (b1, b0) = a0 * b0 + (a1 * b0 + a0 * b1 shifted by 32).
Register FunctionWriter::long_product(int length, Register a, Register b) {
  const Code product = evex(k66, k0F, 0, 0xf4), sum = evex(k66, k0F, 0, 0xd4);
  const Register left = vector(product, length, shifted(a, length, 64, 32, false), b);
  const Register right = vector(product, length, shifted(b, length, 64, 32, false), a);
  const Register cross = shifted(vector(sum, length, left, right), length, 64, 32, true);
  return vector(sum, length, vector(product, length, a, b), cross);
}

// Arithmetic shift: of n by k, ((n >> k) ^ m) - m, where m is the sign bit, shifted too.
Register FunctionWriter::long_right_shift(int length, Register of, const Operand& by, int piece) {
  constexpr uint64_t sign = uint64_t{1} << 63;
  const Code exclusive = evex(k66, k0F, 0, 0xef), less = evex(k66, k0F, 0, 0xfb);
  if (by.kind == Operand::kConstant) {
    const auto k = static_cast<int>(by.bits);
    const Register found = shifted(of, length, 64, k, false);
    return with_lanes(less, length, with_lanes(exclusive, length, found, sign >> k, 8), sign >> k,
                      8);
  }
  const Register k = read(by, piece);
  const Code shift = evex(k66, k0F38, 1, 0x45);
  Type type = by.type;
  const Register m = vector(shift, length, constant(type, sign), k);
  return vector(less, length, vector(exclusive, length, vector(shift, length, of, k), m), m);
}

// All ones where a is b.
Register FunctionWriter::equal(int size, int length, Register a, Register b) {
  const Code code = size == 64   ? evex(k66, k0F38, 0, 0x29)
                    : size == 32 ? evex(k66, k0F, 0, 0x76)
                    : size == 16 ? evex(k66, k0F, 0, 0x75)
                                 : evex(k66, k0F, 0, 0x74);
  return vector(code, length, a, b);
}

// All ones where a > b.
Register FunctionWriter::greater(int size, int length, Register a, Register b, bool is_signed) {
  if (!is_signed) {
    const uint64_t sign = uint64_t{1} << (size - 1);
    a = with_lanes(evex(k66, k0F, 0, 0xef), length, a, sign, size / 8);
    b = with_lanes(evex(k66, k0F, 0, 0xef), length, b, sign, size / 8);
  }
  const Code code = size == 64   ? evex(k66, k0F38, 0, 0x37)
                    : size == 32 ? evex(k66, k0F, 0, 0x66)
                    : size == 16 ? evex(k66, k0F, 0, 0x65)
                                 : evex(k66, k0F, 0, 0x64);
  return vector(code, length, a, b);
}

Register FunctionWriter::long_extreme(int length, Register a, Register b, bool is_signed,
                                      bool is_most) {
  const Register is_greater = greater(64, length, a, b, is_signed);
  return blended(64, length, is_greater, is_most ? a : b, is_most ? b : a);
}

// (n ^ s) - s, where s is all ones if n is negative.
Register FunctionWriter::long_absolute(int length, Register of) {
  Type type;
  type.element = Element::kI64;
  type.is_vector = true;
  type.lanes = length == 0 ? 2 : 4;
  const Register negative = greater(64, length, constant(type, 0), of, true);
  const Register flipped = vector(evex(k66, k0F, 0, 0xef), length, of, negative);
  return vector(evex(k66, k0F, 0, 0xfb), length, flipped, negative);
}

// Leading zeros: all bits below the first are set, and those that remain are counted.
std::vector<Register> FunctionWriter::leading_zeros(std::vector<Register> of, const Type& type) {
  const int size = type.bits(), length = pieces_of(type).length;
  for (Register& r : of) {
    for (int by = 1; by < size; by *= 2) {
      r = vector(evex(k66, k0F, 0, 0xeb), length, r, shifted(r, length, size, by, false));
    }
    r = with_lanes(evex(k66, k0F, 0, 0xef), length, r, ~uint64_t{0}, 8);
  }
  return set_bits(of, type);
}

// Floats.

// Maximum or minimum. The instruction gives the second operand for nan and for zeros, so the two
// orders of the operands differ only there: of zeros, "and" and "or" find the greater and the
// lesser.
Register FunctionWriter::float_extreme(bool is_double, int length, Register a, Register b,
                                       bool is_most) {
  const int prefix = is_double ? k66 : 0;
  const Code extreme = evex(prefix, k0F, 0, is_most ? 0x5f : 0x5d);
  const Register found = vector(evex(k66, k0F, 0, is_most ? 0xdb : 0xeb), length,
                                vector(extreme, length, a, b), vector(extreme, length, b, a));
  const Register unordered = vector(evex(prefix, k0F, 0, 0xc2), length, a, b);
  body_.ops.back().has_immediate = true;
  body_.ops.back().immediate = 3;
  // A sum propagates nan.
  const Register sum = vector(evex(prefix, k0F, 0, 0x58), length, a, b);
  return blended(is_double ? 64 : 32, length, unordered, sum, found);
}

// The same, if one operand is a constant: one instruction, which gives the other one if that is nan
// or both are zeros; then 0 is added if 0 must win over -0. Returns kNone if the constant is nan or
// the -0 of a minimum.
Register FunctionWriter::extreme_with(const Operand& constant, const Operand& other, int piece,
                                      bool is_most) {
  const Type type = other.type;
  const bool is_double = type.element == Element::kDouble;
  const uint64_t sign = is_double ? uint64_t{1} << 63 : uint64_t{1} << 31;
  const uint64_t infinite = is_double ? 0x7ff0000000000000 : 0x7f800000;
  const uint64_t size = constant.bits & (sign - 1);
  if (constant.kind != Operand::kConstant || size > infinite ||
      (!is_most && constant.bits == sign)) {
    return kNone;
  }
  const int length = type.is_vector ? pieces_of(type).length : 0;
  const int prefix = is_double ? k66 : 0;
  const Register given = this->constant(type, constant.bits);
  const Register found =
      vector(evex(prefix, k0F, 0, is_most ? 0x5f : 0x5d), length, given, read(other, piece));
  if (!is_most || constant.bits != 0) return found;
  return vector(evex(prefix, k0F, 0, 0x58), length, found, given);
}

// Narrowing integers: bytes are put together within 16 bytes, and those with each other.
std::vector<Register> FunctionWriter::packed(const std::vector<Register>& from, const Type& before,
                                             const Type& after) {
  const Pieces of = pieces_of(before);
  const int wide = before.bits() / 8, narrow = after.bits() / 8;
  Operand order;
  order.kind = Operand::kLanes;
  order.type.element = Element::kI8;
  order.type.is_vector = true;
  order.type.lanes = 16;
  for (int i = 0; i < 16; ++i) {
    const int lane = i / narrow;
    order.lanes.push_back(
        static_cast<uint64_t>(lane < 16 / wide ? lane * wide + i % narrow : 0x80));
  }
  const Register known = read(order);
  std::vector<Register> made;
  for (Register r : from) {
    for (int at = 0; at < of.bytes; at += 16) {
      made.push_back(vector(evex(k66, k0F38, 0, 0x00), 0, part(r, of.bytes, at, 16), known));
    }
  }
  const int lanes = of.bytes < 16 ? of.lanes : 16 / wide;
  return joined(std::move(made), lanes * narrow, pieces_of(after).bytes);
}

// Conversions. Both levels: x is of integers of 32 or 64 bits.

std::vector<Register> FunctionWriter::floats_from(const Operand& x, const Type& after,
                                                  bool is_signed) {
  const Type before = x.type;
  const bool to_double = after.element == Element::kDouble, is_long = before.bits() == 64;
  if (is_v4() || (is_signed && !is_long)) {
    const int prefix = is_signed ? (to_double ? kF3 : 0) : to_double ? kF3 : kF2;
    const int opcode = !is_signed ? 0x7a : to_double ? 0xe6 : 0x5b;
    return converted(evex(prefix, k0F, is_long, opcode), before, after, x);
  }
  if (is_long && !to_double) {
    std::vector<Register> lanes;
    const std::vector<Register> all = read_all(x);
    for (int lane = 0; lane < before.lanes; ++lane) {
      lanes.push_back(float_from_long(lane_number(all, lane), after.element, is_signed));
    }
    return joined(std::move(lanes), 4, pieces_of(after).bytes);
  }
  const Type doubles = with_element(after, Element::kDouble);
  const int length = pieces_of(before).length;
  const Code exclusive = evex(k66, k0F, 0, 0xef), sum = evex(k66, k0F, 0, 0x58);
  std::vector<Register> made;
  if (is_long) {
    // The upper and the lower half as floats, by writing them into the mantissas of 2^84 and 2^52:
    // only the last sum rounds.
    const uint64_t high = 0x4530000000000000 | (is_signed ? 0x80000000 : 0);
    const uint64_t both = is_signed ? 0x4530000080100000 : 0x4530000000100000;
    for (Register r : read_all(x)) {
      const Register above =
          with_lanes(exclusive, length, shifted(r, length, 64, 32, false), high, 8);
      const Register below = with_lanes(
          evex(k66, k0F, 0, 0xeb), length,
          with_lanes(evex(k66, k0F, 0, 0xdb), length, r, 0xffffffff, 8), 0x4330000000000000, 8);
      made.push_back(
          vector(sum, length, with_lanes(evex(k66, k0F, 0, 0x5c), length, above, both, 8), below));
    }
    return made;
  }
  // Numbers of 32 bits less 2^31 are signed, and doubles hold them.
  std::vector<Register> less;
  for (Register r : read_all(x)) less.push_back(with_lanes(exclusive, length, r, 0x80000000, 4));
  made = converted(evex(kF3, k0F, 0, 0xe6), before, doubles, given(before, less));
  for (Register& r : made) {
    r = with_lanes(sum, pieces_of(doubles).length, r, 0x41e0000000000000, 8);
  }
  if (to_double) return made;
  return converted(evex(k66, k0F, 1, 0x5a), doubles, after, given(doubles, made));
}

// One long integer as a float: an unsigned one that is not a signed one is halved first, without
// losing whether there is a rest, and doubled after.
Register FunctionWriter::float_from_long(Register x, Element to, bool is_signed) {
  const bool is_double = to == Element::kDouble;
  Type type;
  type.element = to;
  auto general = [&](Shape shape, int digit, Register a, Register b, int64_t immediate) {
    Op op{};
    op.shape = shape;
    op.digit = static_cast<uint8_t>(digit);
    op.a = a;
    op.b = b;
    op.has_immediate = b == kNone;
    op.immediate = immediate;
    op.d = body_.fresh(Class::kGeneral);
    return add(op).d;
  };
  Register from = x;
  if (!is_signed) {
    const Register half = general(Shape::kShiftNumber, 5, x, kNone, 1);
    const Register low = general(Shape::kArithmetic, 4, x, kNone, 1);
    const Register both = general(Shape::kArithmetic, 1, half, low, 0);
    Op compare{};
    compare.shape = Shape::kCompare;
    compare.has_effect = compare.has_immediate = true;
    compare.a = x;
    add(compare);
    from = general(Shape::kChoose, kLess, both, x, 0);
  }
  Op op = binary(evex(is_double ? kF2 : kF3, k0F, 1, 0x2a), type, 0);
  op.a = constant(type, 0);
  op.b = from;
  const Register found = add(op).d;
  if (is_signed) return found;
  const Register twice = vector(evex(is_double ? kF2 : kF3, k0F, 0, 0x58), 0, found, found);
  Op sign{};
  sign.shape = Shape::kVector;
  sign.code = evex(k66, k0F, 1, 0x6e);
  sign.b = is_double ? x : general(Shape::kShiftNumber, 5, x, kNone, 32);
  sign.d = body_.fresh(Class::kVector);
  const Register mask = add(sign).d;
  return blended(is_double ? 64 : 32, 0, mask, twice, found);
}

// Floats truncated to integers of 32 or 64 bits; numbers beyond give anything.
std::vector<Register> FunctionWriter::integers_from(const Operand& x, const Type& after,
                                                    bool is_signed) {
  const Type before = x.type;
  const bool from_double = before.element == Element::kDouble, is_long = after.bits() == 64;
  if (is_v4() || (is_signed && !is_long)) {
    Code code;
    if (is_signed) {
      code = is_long       ? evex(k66, k0F, from_double, 0x7a)
             : from_double ? evex(k66, k0F, 1, 0xe6)
                           : evex(kF3, k0F, 0, 0x5b);
    } else {
      code = is_long ? evex(k66, k0F, from_double, 0x78) : evex(0, k0F, from_double, 0x78);
    }
    return converted(code, before, after, x);
  }
  const Pieces of = pieces_of(before), to = pieces_of(after);
  std::vector<Register> made = read_all(x);
  if (from_double && !is_long) {
    // In the sum with 2^52, the lower half of the bits is the integer.
    for (Register& r : made) {
      r = vector_of(evex(k66, k0F3A, 1, 0x09), of.length, r, 11);
      r = with_lanes(evex(k66, k0F, 0, 0x58), of.length, r, 0x4330000000000000, 8);
    }
    return packed(made, with_element(before, Element::kI64), after);
  }
  // What is too great for a signed integer is made less by the sign bit, which is set again.
  std::vector<Register> greats;
  if (!is_signed) {
    const int prefix = from_double ? k66 : 0, bytes = from_double ? 8 : 4;
    const uint64_t limit = from_double ? 0x43e0000000000000 : is_long ? 0x5f000000 : 0x4f000000;
    for (Register& r : made) {
      const Register great = with_lanes(evex(prefix, k0F, 0, 0xc2), of.length, r, limit, bytes);
      body_.ops.back().has_immediate = true;
      body_.ops.back().immediate = 0x1d;
      greats.push_back(great);
      const Register by = with_lanes(evex(k66, k0F, 0, 0xdb), of.length, great, limit, bytes);
      r = vector(evex(prefix, k0F, 0, 0x5c), of.length, r, by);
    }
  }
  if (!is_long) {
    made = converted(evex(kF3, k0F, 0, 0x5b), before, after, given(before, made));
  } else {
    std::vector<Register> lanes;
    for (int lane = 0; lane < before.lanes; ++lane) {
      const int bytes = before.bits() / 8;
      Op op{};
      op.shape = Shape::kVector;
      op.code = evex(from_double ? kF2 : kF3, k0F, 1, 0x2c);
      op.b = part(made[static_cast<size_t>(lane / of.lanes)], of.bytes, lane % of.lanes * bytes,
                  bytes);
      op.d = body_.fresh(Class::kGeneral);
      Op move{};
      move.shape = Shape::kVector;
      move.code = evex(k66, k0F, 1, 0x6e);
      move.b = add(op).d;
      move.d = body_.fresh(Class::kVector);
      lanes.push_back(add(move).d);
    }
    made = joined(std::move(lanes), 8, to.bytes);
  }
  if (is_signed) return made;
  if (is_long && !from_double) {
    const Type narrow = with_element(before, Element::kI32);
    greats = widened(given(narrow, greats), after, true);
  }
  for (size_t i = 0; i < made.size(); ++i) {
    const Register sign = shifted(greats[i], to.length, after.bits(), after.bits() - 1, true);
    made[i] = vector(evex(k66, k0F, 0, 0xef), to.length, made[i], sign);
  }
  return made;
}

}  // namespace kiln::assembler
