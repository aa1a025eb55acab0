// LLVM intrinsics that the text calls and for which there are instructions.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

}  // namespace

// Parse the arguments of an intrinsic that returns a value; false if it is unknown.
bool FunctionWriter::intrinsic(std::string_view name, Type type, std::string_view what) {
  if (begins(what, "masked.load.")) masked_load(name, type);
  else if (begins(what, "masked.gather.")) gather(name, type);
  else if (begins(what, "fma.")) fma(name, type);
  else if (begins(what, "fabs.")) bits_of_floats(name, type, false);
  else if (begins(what, "copysign.")) bits_of_floats(name, type, true);
  else if (begins(what, "maximum.")) extreme(name, type, true);
  else if (begins(what, "minimum.")) extreme(name, type, false);
  else if (begins(what, "floor.")) round(name, type, 9);
  else if (begins(what, "ceil.")) round(name, type, 10);
  else if (begins(what, "trunc.")) round(name, type, 11);
  else if (begins(what, "roundeven.")) round(name, type, 8);
  else if (begins(what, "sqrt.")) round(name, type, -1);
  else if (begins(what, "smax.")) integer_extreme(name, type, true, true);
  else if (begins(what, "smin.")) integer_extreme(name, type, true, false);
  else if (begins(what, "umax.")) integer_extreme(name, type, false, true);
  else if (begins(what, "umin.")) integer_extreme(name, type, false, false);
  else if (begins(what, "fptosi.sat.")) saturated(name, type, true);
  else if (begins(what, "fptoui.sat.")) saturated(name, type, false);
  else if (begins(what, "ctlz.")) counted_bits(name, type, true);
  else if (begins(what, "ctpop.")) counted_bits(name, type, false);
  else if (begins(what, "abs.")) absolute(name, type);
  else if (begins(what, "vector.reduce.or.")) any_lane(name, type);
  else return false;
  return true;
}

void FunctionWriter::absolute(std::string_view name, Type type) {
  const Operand x = text_.operand();
  text_.expect(", i1 false");
  if (type.element == Element::kI1 || !is_integer(type.element) || x.type != type) {
    throw NotUnderstood{"the absolute value of this type"};
  }
  const int size = type.bits();
  std::vector<Register> made;
  if (type.is_vector) {
    const Pieces of = pieces_of(type);
    const int opcode = size == 8 ? 0x1c : size == 16 ? 0x1d : size == 32 ? 0x1e : 0x1f;
    for (int i = 0; i < of.count; ++i) {
      if (!is_v4() && size == 64) made.push_back(long_absolute(of.length, read(x, i)));
      else made.push_back(vector_of(evex(k66, k0F38, size == 64, opcode), of.length, read(x, i)));
    }
  } else {
    Op negative{};
    negative.shape = Shape::kUnary;
    negative.digit = 3;
    negative.width = size == 64 ? 8 : 4;
    const Register number = extended(x, true);
    negative.a = number;
    negative.d = body_.fresh(Class::kGeneral);
    const Register opposite = add(negative).d;
    Op compare{};
    compare.shape = Shape::kCompare;
    compare.has_effect = compare.has_immediate = true;
    compare.width = size == 64 ? 8 : 4;
    compare.a = number;
    add(compare);
    Op op{};
    op.shape = Shape::kChoose;
    op.digit = kLess;
    op.a = opposite;
    op.b = number;
    op.d = body_.fresh(Class::kGeneral);
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

// Whether any lane of a mask is set.
void FunctionWriter::any_lane(std::string_view name, Type type) {
  const Operand x = text_.operand();
  if (!type.is(Element::kI1) || !x.type.is_mask() || x.kind != Operand::kNamed) {
    throw NotUnderstood{"a reduction of this kind"};
  }
  const int count = pieces_of(x.type).count;
  Register all = read(x, 0);
  for (int i = 1; i < count; ++i) all = combined_mask(0x45, all, read(x, i));
  // As an integer: whether the mask is 0.
  const Register number = as_number(all, true);
  Op set{};
  set.shape = Shape::kSet;
  set.digit = kNotEqual;
  set.width = 8;
  set.a = number;
  set.has_immediate = true;
  set.d = body_.fresh(Class::kGeneral);
  const Register found = add(set).d;
  Value& value = define(name, type);
  value.pieces = {found};
  value.tested = all;
}

void FunctionWriter::fma(std::string_view name, Type type) {
  Operand x = text_.operand();
  text_.expect(", ");
  Operand y = text_.operand();
  text_.expect(", ");
  const Operand z = text_.operand();
  if (!is_float(type.element) || x.type != type || y.type != type || z.type != type) {
    throw NotUnderstood{"a multiply-add of this kind"};
  }
  const bool is_double = type.element == Element::kDouble;
  const Pieces of = pieces_of(type);
  auto is_constant = [&](const Operand& operand) {
    return operand.kind == Operand::kConstant ||
           (operand.kind == Operand::kNamed && value(operand).kind == Value::kConstant);
  };
  if (is_constant(x)) std::swap(x, y);
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    // Scalars have the opcode that follows.
    Op op = binary(evex(k66, k0F38, is_double, type.is_vector ? 0x98 : 0x99), type, of.length);
    op.shape = Shape::kFused;
    op.a = read(x, i);
    if (is_constant(y) && !is_constant(z)) {
      op.shape = Shape::kFactor;
      op.c = read(z, i);
      if (!last(op, y, i)) {
        op.shape = Shape::kFused;
      }
    } else {
      op.b = read(y, i);
      // `last` sets `b`, which is a factor here.
      const Register factor = op.b;
      op.b = kNone;
      if (!last(op, z, i)) op.c = op.b;
      op.b = factor;
    }
    body_.hints[static_cast<size_t>(op.d)] = op.a;
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

// Maximum or minimum; nan if either operand is nan, and -0 is less than 0.
void FunctionWriter::extreme(std::string_view name, Type type, bool is_most) {
  const Operand x = text_.operand();
  text_.expect(", ");
  const Operand y = text_.operand();
  if (!is_float(type.element)) throw NotUnderstood{"an extreme of this type"};
  const bool is_double = type.element == Element::kDouble;
  const Pieces of = pieces_of(type);
  // For a scalar the rest of the register is computed too, and ignored.
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    if (!is_v4()) {
      const int length = type.is_vector ? of.length : 0;
      Register found = extreme_with(known(y), x, i, is_most);
      if (found == kNone) found = extreme_with(known(x), y, i, is_most);
      if (found == kNone) {
        found = float_extreme(is_double, length, read(x, i), read(y, i), is_most);
      }
      made.push_back(found);
      continue;
    }
    const Register a = read(x, i), b = read(y, i);
    Op range = binary(evex(k66, k0F3A, is_double, 0x50), type, of.length);
    range.a = a;
    range.b = b;
    range.has_immediate = true;
    range.immediate = is_most ? 5 : 4;
    const Register found = add(range).d;
    Op unordered = binary(evex(is_double ? k66 : 0, k0F, is_double, 0xc2), type, of.length);
    unordered.d = body_.fresh(Class::kMask);
    unordered.a = a;
    unordered.b = b;
    unordered.has_immediate = true;
    unordered.immediate = 3;
    const Register mask = add(unordered).d;
    // A sum propagates nan.
    Op sum = binary(evex(is_double ? k66 : 0, k0F, is_double, 0x58), type, of.length);
    sum.shape = Shape::kTied;
    sum.is_early = true;
    sum.c = found;
    sum.a = a;
    sum.b = b;
    sum.mask = mask;
    made.push_back(add(sum).d);
  }
  define(name, type, std::move(made));
}

void FunctionWriter::integer_extreme(std::string_view name, Type type, bool is_signed,
                                     bool is_most) {
  const Operand x = text_.operand();
  text_.expect(", ");
  const Operand y = text_.operand();
  if (!is_integer(type.element) || type.element == Element::kI1) {
    throw NotUnderstood{"an extreme of this type"};
  }
  const int size = type.bits();
  std::vector<Register> made;
  if (!type.is_vector) {
    const Register a = extended(x, is_signed), b = extended(y, is_signed);
    Op compare{};
    compare.shape = Shape::kCompare;
    compare.has_effect = true;
    compare.width = size == 64 ? 8 : 4;
    compare.a = a;
    compare.b = b;
    add(compare);
    Op op{};
    op.shape = Shape::kChoose;
    op.digit = is_most ? (is_signed ? kGreater : kAbove) : is_signed ? kLess : kBelow;
    op.a = a;
    op.b = b;
    op.d = body_.fresh(Class::kGeneral, a);
    made.push_back(add(op).d);
    define(name, type, std::move(made));
    return;
  }
  const Pieces of = pieces_of(type);
  // Minimum and maximum, signed and unsigned, by size.
  int opcode, map = k0F38;
  if (size >= 32) opcode = (is_most ? 0x3d : 0x39) + (is_signed ? 0 : 2);
  else if (size == 8 && is_signed) opcode = is_most ? 0x3c : 0x38;
  else if (size == 16 && !is_signed) opcode = is_most ? 0x3e : 0x3a;
  else map = k0F, opcode = size == 8 ? (is_most ? 0xde : 0xda) : is_most ? 0xee : 0xea;
  for (int i = 0; i < of.count; ++i) {
    if (!is_v4() && size == 64) {
      made.push_back(long_extreme(of.length, read(x, i), read(y, i), is_signed, is_most));
      continue;
    }
    Op op = binary(evex(k66, map, size == 64, opcode), type, of.length);
    op.a = read(x, i);
    last(op, y, i);
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

// Absolute value; copysign.
void FunctionWriter::bits_of_floats(std::string_view name, Type type, bool is_copysign) {
  const Operand x = text_.operand();
  if (!is_float(type.element)) throw NotUnderstood{"the sign of another type"};
  Operand sign = x;
  if (is_copysign) {
    text_.expect(", ");
    sign = text_.operand();
  }
  const int size = type.bits();
  const uint64_t rest = ~uint64_t{0} >> (65 - size);
  const Pieces of = pieces_of(type);
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    Op op = binary(evex(k66, k0F, size == 64, 0xdb), type, of.length);
    op.a = read(x, i);
    in_all_lanes(op, rest, size / 8);
    if (is_copysign && !is_v4()) {
      const Code both = evex(k66, k0F, 0, 0xdb);
      const int length = type.is_vector ? of.length : 0;
      const Register taken = with_lanes(both, length, read(sign, i), rest + 1, size / 8);
      made.push_back(vector(evex(k66, k0F, 0, 0xeb), length, add(op).d, taken));
      continue;
    }
    if (is_copysign) {
      // Bitwise select: bits of one operand where the constant has ones, otherwise of the other.
      op.shape = Shape::kTied;
      op.is_early = true;
      op.code = evex(k66, k0F3A, size == 64, 0x25);
      op.c = op.a;
      op.a = read(sign, i);
      op.has_immediate = true;
      op.immediate = 0xe4;
    }
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

// Round in the given mode; -1 means the square root.
void FunctionWriter::round(std::string_view name, Type type, int how) {
  const Operand x = text_.operand();
  if (!is_float(type.element) || x.type != type) throw NotUnderstood{"rounding of another type"};
  const bool is_double = type.element == Element::kDouble;
  const Pieces of = pieces_of(type);
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    Code code;
    if (how >= 0) {
      code = evex(k66, k0F3A, is_double, (is_double ? 9 : 8) + (type.is_vector ? 0 : 2));
    } else {
      code = evex(type.is_vector ? (is_double ? k66 : 0)
                  : is_double    ? kF2
                                 : kF3,
                  k0F, is_double, 0x51);
    }
    Op op = binary(code, type, of.length);
    op.b = read(x, i);
    if (!type.is_vector) op.a = op.b;
    op.has_immediate = how >= 0;
    op.immediate = how;
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

// Population count: a table lookup for each nibble, then a sum.
std::vector<Register> FunctionWriter::set_bits(const std::vector<Register>& of, const Type& type) {
  const Pieces pieces = pieces_of(type);
  const int size = type.bits(), length = pieces.length;
  auto splat = [&](Element element, uint64_t bits) {
    Type all = type;
    all.element = element;
    all.lanes = pieces.bytes * 8 / assembler::bits(element);
    return constant(all, bits);
  };
  Operand table;
  table.kind = Operand::kLanes;
  table.type.element = Element::kI8;
  table.type.is_vector = true;
  table.type.lanes = pieces.bytes < 16 ? 16 : pieces.bytes;
  constexpr uint64_t counts[] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  for (int i = 0; i < table.type.lanes; ++i) table.lanes.push_back(counts[i % 16]);
  const Register known = read(table), low = splat(Element::kI8, 15);
  std::vector<Register> made;
  for (Register r : of) {
    Op shift{};
    shift.shape = Shape::kShift;
    shift.code = evex(k66, k0F, 0, 0x71);
    shift.digit = 2;
    shift.length = static_cast<uint8_t>(length);
    shift.b = r;
    shift.has_immediate = true;
    shift.immediate = 4;
    shift.d = body_.fresh(Class::kVector);
    const Register high = add(shift).d;
    const Code both = evex(k66, k0F, 0, 0xdb), look = evex(k66, k0F38, 0, 0x00);
    Register found = vector(evex(k66, k0F, 0, 0xfc), length,
                            vector(look, length, known, vector(both, length, r, low)),
                            vector(look, length, known, vector(both, length, high, low)));
    if (size == 64) {
      found = vector(evex(k66, k0F, 0, 0xf6), length, found, splat(Element::kI64, 0));
    } else if (size >= 16) {
      found = vector(evex(k66, k0F38, 0, 0x04), length, found, splat(Element::kI8, 1));
      if (size == 32) {
        found = vector(evex(k66, k0F, 0, 0xf5), length, found, splat(Element::kI16, 1));
      }
    }
    made.push_back(found);
  }
  return made;
}

// Population count, or leading zero count.
void FunctionWriter::counted_bits(std::string_view name, Type type, bool leading) {
  const Operand x = text_.operand();
  if (leading) text_.expect(", i1 false");
  const int size = type.bits();
  if (!is_integer(type.element) || size == 1 || x.type != type) {
    throw NotUnderstood{"the bits of this type"};
  }
  std::vector<Register> made;
  if (!type.is_vector) {
    Op op{};
    op.shape = Shape::kCount;
    op.digit = leading;
    op.width = size == 64 ? 8 : 4;
    op.a = extended(x, false);
    op.d = body_.fresh(Class::kGeneral);
    Register found = add(op).d;
    if (leading && size < 32) {
      Op less{};
      less.shape = Shape::kArithmetic;
      less.digit = 5;
      less.width = 4;
      less.a = found;
      less.has_immediate = true;
      less.immediate = 32 - size;
      less.d = body_.fresh(Class::kGeneral);
      found = add(less).d;
    }
    made.push_back(found);
    define(name, type, std::move(made));
    return;
  }
  if (!leading) {
    define(name, type, set_bits(read_all(x), type));
    return;
  }
  Type wide = type;
  if (size < 32) wide.element = Element::kI32;
  const Pieces of = pieces_of(wide);
  std::vector<Register> all = size < 32 ? widened(x, wide, false) : read_all(x);
  if (!is_v4()) all = leading_zeros(std::move(all), wide);
  for (Register r : all) {
    Register found = is_v4() ? vector_of(evex(k66, k0F38, size == 64, 0x44), of.length, r) : r;
    if (size < 32) {
      Op less = binary(evex(k66, k0F, 0, 0xfa), wide, of.length);
      less.a = found;
      in_all_lanes(less, static_cast<uint64_t>(32 - size), 4);
      found = add(less).d;
    }
    made.push_back(found);
  }
  define(name, type, size < 32 ? narrowed(made, wide, type) : made);
}

}  // namespace kiln::assembler
