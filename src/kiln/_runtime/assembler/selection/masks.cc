// Masks: the lanes for which something holds.
//
// A mask of up to 64 lanes is a number of as many bits: in a mask register for x86-64-v4, in a
// general-purpose one for x86-64-v3. There, instructions that compare give vectors instead, all
// ones or zeros in each lane, and those that select want them. So a mask that was computed from
// vectors also keeps them: whoever wants lanes of the same size takes the vectors, whoever wants
// bits the number, and what nobody takes is dropped.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {

Class FunctionWriter::mask_class() const { return is_v4() ? Class::kMask : Class::kGeneral; }

// A number in a general-purpose register, as a mask; `is_long` if it may have more than 32 bits.
Register FunctionWriter::as_mask(Register number, bool is_long) {
  if (!is_v4()) return number;
  Op move{};
  move.shape = Shape::kVector;
  move.code = vex(kF2, k0F, is_long, 0x92);
  move.b = number;
  move.d = body_.fresh(Class::kMask);
  return add(move).d;
}

// The opposite.
Register FunctionWriter::as_number(Register mask, bool is_long) {
  if (!is_v4()) return mask;
  Op move{};
  move.shape = Shape::kVector;
  move.code = vex(kF2, k0F, is_long, 0x93);
  move.b = mask;
  move.d = body_.fresh(Class::kGeneral);
  return add(move).d;
}

Register FunctionWriter::mask_constant(uint64_t bits) {
  Op op{};
  op.shape = Shape::kImmediate;
  op.immediate = static_cast<int64_t>(bits);
  op.d = body_.fresh(Class::kGeneral);
  return as_mask(add(op).d, true);
}

Register FunctionWriter::shifted_mask(Register mask, int by, bool left) {
  if (by == 0) return mask;
  Op op{};
  if (is_v4()) {
    op.shape = Shape::kVector;
    op.code = vex(k66, k0F3A, 1, left ? 0x33 : 0x31);  // kshiftlq, kshiftrq
    op.b = mask;
  } else {
    op.shape = Shape::kShiftNumber;
    op.digit = left ? 4 : 5;
    op.a = mask;
  }
  op.has_immediate = true;
  op.immediate = by;
  op.d = body_.fresh(mask_class());
  return add(op).d;
}

// Both masks, by the opcode of the instruction on mask registers.
Register FunctionWriter::combined_mask(uint8_t opcode, Register a, Register b) {
  constexpr uint8_t kAnd = 0x41, kAndNot = 0x42, kOr = 0x45;
  Op op{};
  op.a = a;
  op.b = b;
  if (is_v4()) {
    op.shape = Shape::kVector;
    op.code = vex(0, k0F, 1, opcode);
    op.length = 1;
  } else if (opcode == kAndNot) {
    op.shape = Shape::kVector;
    op.code = vex(0, k0F38, 1, 0xf2);  // andn
  } else {
    op.shape = Shape::kArithmetic;
    op.digit = opcode == kAnd ? 4 : opcode == kOr ? 1 : 6;
  }
  op.d = body_.fresh(mask_class());
  return add(op).d;
}

// A mask with bits beyond the given number of lanes cleared.
Register FunctionWriter::cleaned(Register mask, int lanes) {
  if (lanes >= 64) return mask;
  if (!is_v4()) {
    Op op{};
    op.width = 4;
    if (lanes == 32) {
      op.shape = Shape::kExtend;
      op.b = mask;
    } else {
      op.shape = Shape::kArithmetic;
      op.digit = 4;
      op.a = mask;
      op.has_immediate = true;
      op.immediate = (int64_t{1} << lanes) - 1;
    }
    op.d = body_.fresh(Class::kGeneral);
    return add(op).d;
  }
  if (lanes >= 8) {
    Op op{};
    op.shape = Shape::kVector;
    op.code = lanes == 8    ? vex(k66, k0F, 0, 0x90)
              : lanes == 16 ? vex(0, k0F, 0, 0x90)
                            : vex(k66, k0F, 1, 0x90);
    op.b = mask;
    op.d = body_.fresh(Class::kMask);
    return add(op).d;
  }
  return shifted_mask(shifted_mask(mask, 64 - lanes, true), 64 - lanes, false);
}

// A range of lanes of a mask. Bits beyond them may be set, unless the mask has no more lanes.
Register FunctionWriter::mask_part(const Operand& mask, int at, int lanes) {
  if (mask.kind != Operand::kNamed) {
    uint64_t bits = 0;
    for (int i = 0; i < lanes; ++i) {
      bits |= (mask.kind == Operand::kLanes ? mask.lanes[static_cast<size_t>(at + i)] : mask.bits)
              << i;
    }
    return mask_constant(bits);
  }
  return shifted_mask(read(mask, at / 64), at % 64, false);
}

// Concatenates masks of equal numbers of lanes into one or more masks of `all` lanes.
std::vector<Register> FunctionWriter::masks_joined(std::vector<Register> parts, int lanes,
                                                   int all) {
  const int wanted = all < 64 ? all : 64;
  while (lanes < wanted) {
    if (lanes < 8 && is_v4()) throw NotUnderstood{"masks as short as this, joined"};
    std::vector<Register> pairs;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      if (!is_v4()) {
        pairs.push_back(combined_mask(0x45, parts[i], shifted_mask(parts[i + 1], lanes, true)));
        continue;
      }
      Op op{};
      op.shape = Shape::kVector;
      op.code = lanes == 8    ? vex(k66, k0F, 0, 0x4b)
                : lanes == 16 ? vex(0, k0F, 0, 0x4b)
                              : vex(0, k0F, 1, 0x4b);
      op.length = 1;
      op.a = parts[i + 1];
      op.b = parts[i];
      op.d = body_.fresh(Class::kMask);
      pairs.push_back(add(op).d);
    }
    parts = std::move(pairs);
    lanes *= 2;
  }
  return parts;
}

// Define the truths that instructions found: masks for x86-64-v4, and for x86-64-v3 pieces of
// vectors with the lanes of `compared`.
void FunctionWriter::define_truths(std::string_view name, const Type& compared,
                                   std::vector<Register> parts) {
  const Pieces of = pieces_of(compared);
  Type result = compared;
  result.element = Element::kI1;
  if (is_v4()) {
    for (Register& r : parts) {
      if (of.bytes < 16) r = cleaned(r, of.lanes);
    }
    define(name, result, masks_joined(std::move(parts), of.lanes, compared.lanes));
    return;
  }
  std::vector<Register> bits = bits_of(parts, compared);
  Value& value = define(name, result);
  value.pieces = std::move(bits);
  value.wide = std::move(parts);
  value.wide_bits = compared.bits();
}

// The signs of all lanes of a vector as a mask, for x86-64-v3.
std::vector<Register> FunctionWriter::bits_of(const std::vector<Register>& wide, const Type& type) {
  const Pieces of = pieces_of(type);
  const int size = type.bits();
  std::vector<Register> parts;
  for (Register r : wide) {
    Op op{};
    op.shape = Shape::kSigns;
    op.code = size == 32   ? evex(0, k0F, 0, 0x50)     // vmovmskps
              : size == 64 ? evex(k66, k0F, 0, 0x50)   // vmovmskpd
                           : evex(k66, k0F, 0, 0xd7);  // vpmovmskb
    op.length = static_cast<uint8_t>(of.length);
    op.b = r;
    if (size == 16) {
      // Saturating to bytes preserves all ones.
      const Register high = of.bytes == 32 ? part(r, 32, 16, 16) : r;
      op.b = vector(evex(k66, k0F, 0, 0x63), 0, r, high);
      op.length = 0;
    }
    op.d = body_.fresh(Class::kGeneral);
    const Register found = add(op).d;
    const bool has_more = of.bytes < 16 || (size == 16 && of.bytes == 16);
    parts.push_back(has_more ? cleaned(found, of.lanes) : found);
  }
  return masks_joined(std::move(parts), of.lanes, type.lanes);
}

// Lanes of a mask as one vector of elements of a size, all ones or zeros, for x86-64-v3. Those
// beyond may be anything unless `is_clean`, which makes them zeros.
Register FunctionWriter::spread(const Operand& mask, int size, int first, int lanes,
                                bool is_clean) {
  Type type;
  type.element = integer_of(size);
  type.is_vector = true;
  type.lanes = lanes;
  const uint64_t ones = ~uint64_t{0} >> (64 - size);
  const Operand& given = known(mask);
  if (given.kind != Operand::kNamed) {
    Operand all;
    all.kind = Operand::kLanes;
    all.type = type;
    for (int i = 0; i < lanes; ++i) {
      const bool is_set = given.kind == Operand::kLanes
                              ? given.lanes[static_cast<size_t>(first + i)] != 0
                              : given.bits != 0;
      all.lanes.push_back(is_set ? ones : 0);
    }
    return this->lanes(all, 0);
  }
  const bool is_short = lanes * size < 128;
  const Value& found = value(mask);
  if (found.wide_bits == size && !(is_clean && is_short)) {
    Type whole = type;
    whole.lanes = mask.type.lanes;
    const Pieces of = pieces_of(whole);
    return part(found.wide.at(static_cast<size_t>(first / of.lanes)), of.bytes,
                first % of.lanes * size / 8, lanes * size / 8);
  }
  for (const Spread& each : found.spreads) {
    if (each.size == size && each.first == first && each.lanes == lanes && each.block == current_) {
      return each.in;
    }
  }
  const Register made = spread_bits(mask_part(mask, first, lanes), size, lanes);
  value(mask).spreads.push_back({size, first, lanes, current_, made});
  return made;
}

// The same, of a mask that is a number; lanes beyond are zeros.
Register FunctionWriter::spread_bits(Register bits, int size, int lanes) {
  Type type;
  type.element = integer_of(size);
  type.is_vector = true;
  type.lanes = lanes * size < 128 ? 128 / size : lanes;
  if (type.lanes != lanes) bits = cleaned(bits, lanes);
  // Each lane gets all bits, keeps its own, and compares it. Lanes beyond the mask have none.
  const int length = pieces_of(type).length;
  Op move{};
  move.shape = Shape::kVector;
  move.code = evex(k66, k0F, 0, 0x6e);
  move.b = bits;
  move.d = body_.fresh(Class::kVector);
  const Register low = add(move).d;
  const int all = size == 64 ? 0x59 : size == 16 ? 0x79 : 0x58;
  Register found = vector_of(evex(k66, k0F38, 0, all), length, low);
  Operand own;
  own.kind = Operand::kLanes;
  own.type = type;
  if (size == 8) {
    Operand order = own;
    for (int i = 0; i < type.lanes; ++i) order.lanes.push_back(static_cast<uint64_t>(i / 8));
    found = vector(evex(k66, k0F38, 0, 0x00), length, found, read(order));
  }
  for (int i = 0; i < type.lanes; ++i) own.lanes.push_back(uint64_t{1} << (size == 8 ? i % 8 : i));
  const Register bit = read(own);
  found = vector(evex(k66, k0F, 0, 0xdb), length, found, bit);
  return equal(size, length, found, bit);
}

// A truth as the sign of the first lane, for x86-64-v3.
Register FunctionWriter::spread_scalar(const Operand& truth, int size) {
  if (truth.kind == Operand::kNamed && value(truth).wide_bits == size) return value(truth).wide[0];
  Op negative{};
  negative.shape = Shape::kUnary;
  negative.digit = 3;
  negative.a = read(truth);
  negative.d = body_.fresh(Class::kGeneral);
  Op move{};
  move.shape = Shape::kVector;
  move.code = evex(k66, k0F, 1, 0x6e);
  move.b = add(negative).d;
  move.d = body_.fresh(Class::kVector);
  return add(move).d;
}

// Lanes of `yes` where the vector `mask` has ones, otherwise of `no`, for x86-64-v3.
Register FunctionWriter::blended(int size, int length, Register mask, Register yes, Register no) {
  Op op{};
  op.shape = Shape::kVector;
  op.code = vex(k66, k0F3A, 0, size == 32 ? 0x4a : size == 64 ? 0x4b : 0x4c);
  op.length = static_cast<uint8_t>(length);
  op.a = no;
  op.b = yes;
  op.c = mask;
  op.d = body_.fresh(Class::kVector);
  return add(op).d;
}

// Truths of vectors combined: also as vectors, if both are known as such.
std::vector<Register> FunctionWriter::wide_of_both(std::string_view op, const Operand& x,
                                                   const Operand& y, int& size) {
  size = 0;
  if (is_v4() || x.kind != Operand::kNamed) return {};
  const bool inverts = op == "xor" && y.is_number(1);
  if (!inverts && y.kind != Operand::kNamed) return {};
  const std::vector<Register> a = value(x).wide;
  const int found = value(x).wide_bits;
  if (found == 0 || (!inverts && value(y).wide_bits != found)) return {};
  Type type = x.type;
  type.element = integer_of(found);
  const int length = pieces_of(type).length;
  const Code code = evex(k66, k0F, 0, op == "and" ? 0xdb : op == "or" ? 0xeb : 0xef);
  std::vector<Register> made;
  for (size_t i = 0; i < a.size(); ++i) {
    if (inverts) made.push_back(with_lanes(code, length, a[i], ~uint64_t{0}, 8));
    else made.push_back(vector(code, length, a[i], value(y).wide.at(i)));
  }
  size = found;
  return made;
}

}  // namespace kiln::assembler
