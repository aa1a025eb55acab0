// Conversions between number types, and lane shuffles.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {

bool FunctionWriter::conversion(std::string_view name, std::string_view op) {
  const bool is_integer_only = op == "zext" || op == "sext" || op == "trunc";
  const bool is_with_floats = op == "sitofp" || op == "uitofp" || op == "fptosi" ||
                              op == "fptoui" || op == "fpext" || op == "fptrunc";
  if (!is_integer_only && !is_with_floats && op != "bitcast") return false;
  const Operand x = text_.operand();
  text_.expect(" to ");
  const Type after = text_.type();
  if (after.lanes != x.type.lanes) throw NotUnderstood{"a conversion of the number of lanes"};
  if (is_integer_only) integer_conversion(name, op, x, after);
  else if (is_with_floats) float_conversion(name, op, x, after);
  else bitcast(name, x, after);
  return true;
}

// Widening integers.
std::vector<Register> FunctionWriter::widened(const Operand& x, Type after, bool is_signed) {
  const int from = x.type.bits(), to = after.bits();
  const int low = from == 8    ? (to == 16   ? 0
                                  : to == 32 ? 1
                                             : 2)
                  : from == 16 ? (to == 32 ? 3 : 4)
                               : 5;
  return converted(evex(k66, k0F38, 0, (is_signed ? 0x20 : 0x30) + low), x.type, after, x);
}

// Narrowing integers.
std::vector<Register> FunctionWriter::narrowed(const std::vector<Register>& from,
                                               const Type& before, Type after) {
  if (!is_v4()) return packed(from, before, after);
  const int size = before.bits(), to = after.bits();
  const int low = size == 16 ? 0 : size == 32 ? (to == 8 ? 1 : 3) : to == 8 ? 2 : to == 16 ? 4 : 5;
  const Pieces of = pieces_of(before);
  std::vector<Register> made;
  for (Register r : from) made.push_back(reversed(evex(kF3, k0F38, 0, 0x30 + low), of.length, r));
  return joined(std::move(made), of.lanes * to / 8, pieces_of(after).bytes);
}

// One instruction per vector of the wider type, which reads or writes a part of the narrower one.
std::vector<Register> FunctionWriter::converted(Code code, const Type& before, const Type& after,
                                                const Operand& x, int immediate) {
  const Pieces from = pieces_of(before), to = pieces_of(after);
  std::vector<Register> made;
  if (after.bits() >= before.bits()) {
    for (int i = 0; i < to.count; ++i) {
      const int first = i * to.lanes;
      const Register source =
          part(read(x, first / from.lanes), from.bytes, first % from.lanes * before.bits() / 8,
               to.lanes * before.bits() / 8);
      made.push_back(vector_of(code, to.length, source, immediate));
    }
    return made;
  }
  for (int i = 0; i < from.count; ++i) {
    made.push_back(vector_of(code, from.length, read(x, i), immediate));
  }
  return joined(std::move(made), from.lanes * after.bits() / 8, to.bytes);
}

void FunctionWriter::integer_conversion(std::string_view name, std::string_view op,
                                        const Operand& x, Type after) {
  const Type before = x.type;
  if (!is_integer(before.element) || !is_integer(after.element)) {
    throw NotUnderstood{"a conversion of this kind"};
  }
  const bool is_signed = op == "sext";
  if (op == "trunc" ? after.bits() >= before.bits() : after.bits() <= before.bits()) {
    throw NotUnderstood{"a conversion in the wrong direction"};
  }
  std::vector<Register> made;
  if (after.element == Element::kI1) {
    // The lowest bit.
    if (!after.is_vector) {
      Op low{};
      low.shape = Shape::kArithmetic;
      low.digit = 4;
      low.width = 4;
      low.a = read(x);
      low.has_immediate = true;
      low.immediate = 1;
      low.d = body_.fresh(Class::kGeneral);
      made.push_back(add(low).d);
    } else {
      const Pieces of = pieces_of(before);
      const int size = before.bits();
      for (int i = 0; i < of.count; ++i) {
        Op test{};
        test.shape = Shape::kVector;
        test.code = evex(k66, k0F38, size == 16 || size == 64, size <= 16 ? 0x26 : 0x27);
        test.length = static_cast<uint8_t>(of.length);
        test.a = read(x, i);
        Type piece = before;
        piece.lanes = of.lanes;
        test.b = constant(piece, 1);
        test.d = body_.fresh(mask_class());
        if (is_v4()) {
          made.push_back(add(test).d);
          continue;
        }
        const Register low = vector(evex(k66, k0F, 0, 0xdb), of.length, test.a, test.b);
        made.push_back(equal(size, of.length, low, test.b));
      }
      define_truths(name, before, std::move(made));
      return;
    }
    define(name, after, std::move(made));
    return;
  }
  if (!after.is_vector) {
    if (op == "trunc") {
      define(name, after, {read(x)});
      return;
    }
    const Register from = read(x);
    Op made_{};
    made_.d = body_.fresh(Class::kGeneral, from);
    if (before.element == Element::kI1) {
      made_.shape = is_signed ? Shape::kUnary : Shape::kMove;
      made_.digit = 3;
      (is_signed ? made_.a : made_.b) = from;
    } else {
      made_.shape = Shape::kExtend;
      made_.width = static_cast<uint8_t>(before.bits() / 8);
      made_.digit = is_signed;
      made_.b = from;
    }
    made.push_back(add(made_).d);
  } else if (before.is_mask()) {
    const Pieces of = pieces_of(after);
    const int size = after.bits();
    for (int i = 0; i < of.count; ++i) {
      if (!is_v4()) {
        const Register all = spread(x, size, i * of.lanes, of.lanes);
        made.push_back(
            is_signed ? all : with_lanes(evex(k66, k0F, 0, 0xdb), of.length, all, 1, size / 8));
        continue;
      }
      const Register mask = mask_part(x, i * of.lanes, of.lanes);
      if (is_signed) {
        made.push_back(vector_of(
            evex(kF3, k0F38, size == 16 || size == 64, size <= 16 ? 0x28 : 0x38), of.length, mask));
        continue;
      }
      // Ones where the mask is set.
      const int opcode = size == 8 ? 0x78 : size == 16 ? 0x79 : size == 32 ? 0x58 : 0x59;
      Op one = binary(evex(k66, k0F38, size == 64, opcode), after, of.length);
      one.memory = pool_number(1, size / 8);
      one.mask = mask;
      one.zeroes = true;
      made.push_back(add(one).d);
    }
  } else if (op == "trunc") {
    made = narrowed(read_all(x), before, after);
  } else {
    made = widened(x, after, is_signed);
  }
  define(name, after, std::move(made));
}

void FunctionWriter::float_conversion(std::string_view name, std::string_view op, const Operand& x,
                                      Type after) {
  const Type before = x.type;
  const bool to_double = after.element == Element::kDouble;
  const bool from_double = before.element == Element::kDouble;
  std::vector<Register> made;
  if (op == "fpext" || op == "fptrunc") {
    if (before.element == Element::kHalf && after.element == Element::kFloat) {
      made = converted(evex(k66, k0F38, 0, 0x13), before, after, x);
    } else if (before.element == Element::kFloat && after.element == Element::kHalf) {
      // Rounded in the processor's current mode: to nearest.
      const Pieces of = pieces_of(before);
      for (int i = 0; i < of.count; ++i) {
        made.push_back(reversed(evex(k66, k0F3A, 0, 0x1d), of.length, read(x, i), 4));
      }
      if (after.is_vector) {
        made = joined(std::move(made), of.lanes * 2, pieces_of(after).bytes);
      }
    } else if (before.element == Element::kFloat && to_double) {
      made = converted(evex(0, k0F, 0, 0x5a), before, after, x);
    } else if (from_double && after.element == Element::kFloat) {
      made = converted(evex(k66, k0F, 1, 0x5a), before, after, x);
    } else {
      throw NotUnderstood{"a conversion of these floats"};
    }
    define(name, after, std::move(made));
    return;
  }
  const bool is_signed = op == "sitofp" || op == "fptosi";
  if (op == "fptosi" || op == "fptoui") {
    const int size = after.bits();
    if (!is_float(before.element) || !after.is_vector || size < 32) {
      throw NotUnderstood{"a conversion of this kind"};
    }
    define(name, after, integers_from(x, after, is_signed));
    return;
  }
  if (!is_integer(before.element) || !is_float(after.element)) {
    throw NotUnderstood{"a conversion of this kind"};
  }
  const Pieces of = pieces_of(after);
  if (!after.is_vector) {
    const bool is_long = before.bits() == 64;
    if (before.element == Element::kI1 && is_signed) throw NotUnderstood{"a truth below zero"};
    Register from = extended(x, is_signed);
    if (!is_v4() && !is_signed) {
      if (is_long) {
        define(name, after, {float_from_long(from, after.element, false)});
        return;
      }
      // As a long integer it is a signed one.
      from = cleaned(from, 32);
    }
    const bool as_long = is_long || (!is_v4() && !is_signed);
    const int opcode = is_signed || !is_v4() ? 0x2a : 0x7b;
    // The remaining bits of the result come from a zeroed register.
    Op op_ = binary(evex(to_double ? kF2 : kF3, k0F, as_long, opcode), after, 0);
    op_.a = constant(after, 0);
    op_.b = from;
    made.push_back(add(op_).d);
    define(name, after, std::move(made));
    return;
  }
  if (before.is_mask()) {
    const int size = after.bits();
    const uint64_t one = to_double ? 0x3ff0000000000000 : 0x3f800000;
    const uint64_t sign = is_signed ? uint64_t{1} << (size - 1) : 0;
    for (int i = 0; i < of.count; ++i) {
      if (!is_v4()) {
        const Register all = spread(x, size, i * of.lanes, of.lanes);
        made.push_back(with_lanes(evex(k66, k0F, 0, 0xdb), of.length, all, one | sign, size / 8));
        continue;
      }
      Op ones = binary(evex(k66, k0F38, to_double, to_double ? 0x59 : 0x58), after, of.length);
      ones.memory = pool_number(one | sign, size / 8);
      ones.mask = mask_part(x, i * of.lanes, of.lanes);
      ones.zeroes = true;
      made.push_back(add(ones).d);
    }
    define(name, after, std::move(made));
    return;
  }
  // Narrow integers are widened first; the intermediate values are exact.
  Operand given = x;
  Type type = before;
  if (before.bits() < 32) {
    type.element = Element::kI32;
    std::vector<Register> wide = widened(x, type, is_signed);
    given = this->given(type, std::move(wide));
  }
  define(name, after, floats_from(given, after, is_signed));
}

void FunctionWriter::bitcast(std::string_view name, const Operand& x, Type after) {
  if (x.type.bits() != after.bits() || x.type.is_mask() || x.type.is(Element::kI1) ||
      x.type.element == Element::kPointer || after.element == Element::kPointer) {
    throw NotUnderstood{"bits of another length"};
  }
  auto is_in_vector = [](const Type& type) {
    return type.is_vector || is_float(type.element) || type.element == Element::kHalf;
  };
  const bool from_vector = is_in_vector(x.type), to_vector = is_in_vector(after);
  if (from_vector == to_vector) {
    define(name, after, read_all(x));
    return;
  }
  const bool is_long = after.bits() == 64;
  Op op{};
  op.shape = to_vector ? Shape::kVector : Shape::kReversed;
  op.code = evex(k66, k0F, is_long, to_vector ? 0x6e : 0x7e);
  op.b = read(x);
  op.d = body_.fresh(to_vector ? Class::kVector : Class::kGeneral);
  define(name, after, {add(op).d});
}

}  // namespace kiln::assembler
