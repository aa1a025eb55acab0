// Arithmetic, comparisons and selections, of scalars and of vectors.
#include <array>

#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

// Opcodes of integer operations by element size: 8, 16, 32 and 64 bits.
struct IntegerCode {
  std::string_view name;
  uint8_t map;
  std::array<uint8_t, 4> opcodes;  // 0: none
};

constexpr IntegerCode kIntegers[] = {
    {"add", k0F, {0xfc, 0xfd, 0xfe, 0xd4}}, {"sub", k0F, {0xf8, 0xf9, 0xfa, 0xfb}},
    {"and", k0F, {0xdb, 0xdb, 0xdb, 0xdb}}, {"or", k0F, {0xeb, 0xeb, 0xeb, 0xeb}},
    {"xor", k0F, {0xef, 0xef, 0xef, 0xef}}, {"mul", k0F38, {0, 0, 0x40, 0x40}},
    {"shl", k0F38, {0, 0x12, 0x47, 0x47}},  {"lshr", k0F38, {0, 0x10, 0x45, 0x45}},
    {"ashr", k0F38, {0, 0x11, 0x46, 0x46}},
};

int place_of(int bits) { return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3; }

}  // namespace

bool FunctionWriter::arithmetic(std::string_view name, std::string_view op) {
  if (op == "fadd" || op == "fsub" || op == "fmul" || op == "fdiv") {
    const uint8_t opcode = op == "fadd" ? 0x58 : op == "fsub" ? 0x5c : op == "fmul" ? 0x59 : 0x5e;
    float_binary(name, opcode, text_.type());
    return true;
  }
  const bool is_division = op == "sdiv" || op == "udiv" || op == "srem" || op == "urem";
  bool is_known = is_division;
  for (const IntegerCode& each : kIntegers) is_known |= each.name == op;
  if (!is_known) return false;
  const Type type = text_.type();
  if (!is_integer(type.element)) throw NotUnderstood{"integer arithmetic of another type"};
  if (type.is_mask()) masks(name, op, type);
  else if (type.is_vector && is_division) divide_lanes(name, op, type);
  else if (type.is_vector) integer_vector(name, op, type);
  else integer_scalar(name, op, type);
  return true;
}

// Scalars.

void FunctionWriter::integer_scalar(std::string_view name, std::string_view op, Type type) {
  const Operand x = text_.operand(type);
  text_.expect(", ");
  const Operand y = text_.operand(type);
  const int size = type.bits();
  const bool is_shift = op == "shl" || op == "lshr" || op == "ashr";
  if (size == 1 && op != "and" && op != "or" && op != "xor") {
    throw NotUnderstood{"arithmetic of truths"};
  }
  Op made{};
  made.width = size == 64 ? 8 : 4;
  if (op == "sdiv" || op == "udiv" || op == "srem" || op == "urem") {
    const bool is_signed = op[0] == 's';
    made.shape = Shape::kDivide;
    made.digit = static_cast<uint8_t>((is_signed ? 1 : 0) | (op.substr(1) == "rem" ? 2 : 0));
    made.a = extended(x, is_signed);
    made.b = extended(y, is_signed);
  } else if (is_shift) {
    const bool is_signed = op == "ashr";
    const Register a = op == "shl" ? read(x) : extended(x, is_signed);
    if (y.kind == Operand::kConstant) {
      if (y.bits >= static_cast<uint64_t>(size)) throw NotUnderstood{"a shift by too much"};
      made.shape = Shape::kShiftNumber;
      made.digit = op == "shl" ? 4 : is_signed ? 7 : 5;
      made.a = a;
      made.has_immediate = true;
      made.immediate = static_cast<int64_t>(y.bits);
    } else {
      // shlx, shrx, sarx: the count is in vvvv.
      made.shape = Shape::kVector;
      made.code = vex(op == "shl" ? k66 : is_signed ? kF3 : kF2, k0F38, size == 64, 0xf7);
      made.b = a;
      made.a = extended(y, false);
    }
  } else if (op == "mul") {
    made.shape = Shape::kMultiply;
    const bool is_number = y.kind == Operand::kConstant && fits(signed_of(y.bits, size));
    made.a = read(x);
    if (is_number) {
      made.has_immediate = true;
      made.immediate = signed_of(y.bits, size);
    } else {
      made.b = read(y);
    }
  } else {
    made.shape = Shape::kArithmetic;
    made.digit = op == "add" ? 0 : op == "or" ? 1 : op == "and" ? 4 : op == "sub" ? 5 : 6;
    const bool is_number =
        y.kind == Operand::kConstant && size > 1 && fits(signed_of(y.bits, size));
    made.a = read(x);
    if (is_number || (size == 1 && y.kind == Operand::kConstant)) {
      made.has_immediate = true;
      made.immediate = size == 1 ? static_cast<int64_t>(y.bits) : signed_of(y.bits, size);
    } else {
      made.b = read(y);
    }
  }
  made.d = body_.fresh(Class::kGeneral, made.shape == Shape::kVector ? made.b : made.a);
  const Op kept = made;
  add(made);
  Value& value = define(name, type);
  value.pieces = {kept.d};
  if (size == 64 && op == "add" && kept.has_immediate) {
    Register root = kept.a;
    int64_t added = kept.immediate;
    if (x.kind == Operand::kNamed) {
      const Value& before = this->value(x);
      if (before.root != kNone && fits(before.added + added)) {
        root = before.root;
        added += before.added;
      }
    }
    value.root = root;
    value.added = added;
  }
}

// Vectors.

// A template of an operation d = a op b on whole vectors.
Op FunctionWriter::binary(Code code, const Type& type, int length) {
  Op op{};
  op.shape = Shape::kVector;
  op.code = code;
  op.length = static_cast<uint8_t>(type.is_vector ? length : 0);
  op.d = body_.fresh(Class::kVector);
  return op;
}

void FunctionWriter::integer_vector(std::string_view name, std::string_view op, Type type) {
  Operand x = text_.operand(type);
  text_.expect(", ");
  Operand y = text_.operand(type);
  const int size = type.bits();
  const Pieces of = pieces_of(type);
  const IntegerCode* found = nullptr;
  for (const IntegerCode& each : kIntegers) {
    if (each.name == op) found = &each;
  }
  if (found == nullptr) throw NotUnderstood{"the instruction " + std::string(op) + " of vectors"};
  const bool is_shift = op == "shl" || op == "lshr" || op == "ashr";
  uint8_t opcode = found->opcodes[static_cast<size_t>(place_of(size))], map = found->map;
  if (op == "mul" && size == 16) opcode = 0xd5, map = k0F;
  if (opcode == 0) {
    as_wider(name, op, type, x, y);
    return;
  }
  if (!is_v4() && is_shift && size == 16 && y.kind != Operand::kConstant) {
    as_wider(name, op, type, x, y);
    return;
  }
  if (!is_v4() && size == 64 && (op == "mul" || op == "ashr")) {
    if (y.kind == Operand::kConstant && op == "ashr" && y.bits >= 64) {
      throw NotUnderstood{"a shift by too much"};
    }
    std::vector<Register> longs;
    for (int i = 0; i < of.count; ++i) {
      longs.push_back(op == "mul" ? long_product(of.length, read(x, i), read(y, i))
                                  : long_right_shift(of.length, read(x, i), y, i));
    }
    define(name, type, std::move(longs));
    return;
  }
  std::vector<Register> made;
  if (is_shift && y.kind == Operand::kConstant) {
    if (y.bits >= static_cast<uint64_t>(size)) throw NotUnderstood{"a shift by too much"};
    for (int i = 0; i < of.count; ++i) {
      Op shift{};
      shift.shape = Shape::kShift;
      const bool is_signed = op == "ashr";
      // vpsraq is vpsrad with W set.
      const int code = size == 16 ? 0x71 : size == 32 || is_signed ? 0x72 : 0x73;
      shift.code = evex(k66, k0F, size == 64, code);
      shift.digit = op == "shl" ? 6 : is_signed ? 4 : 2;
      shift.length = static_cast<uint8_t>(of.length);
      shift.has_immediate = true;
      shift.immediate = static_cast<int64_t>(y.bits);
      shift.b = read(x, i);
      shift.d = body_.fresh(Class::kVector, shift.b);
      made.push_back(add(shift).d);
    }
    define(name, type, std::move(made));
    return;
  }
  const bool commutes = op != "sub" && !is_shift;
  if (commutes && x.kind == Operand::kConstant) std::swap(x, y);
  const bool is_wide = size == 64 || (is_shift && size == 16);
  for (int i = 0; i < of.count; ++i) {
    Op each = binary(evex(k66, map, is_wide, opcode), type, of.length);
    each.a = read(x, i);
    last(each, y, i);
    body_.hints[static_cast<size_t>(each.d)] = each.a;
    made.push_back(add(each).d);
  }
  define(name, type, std::move(made));
}

// Integer division of vectors, through floats with more bits: no quotient is rounded up to an
// integer.
void FunctionWriter::divide_lanes(std::string_view name, std::string_view op, Type type) {
  const Operand x = text_.operand(type);
  text_.expect(", ");
  const Operand y = text_.operand(type);
  const int size = type.bits();
  if (size == 64) throw NotUnderstood{"quotients of vectors of long integers"};
  const bool is_signed = op[0] == 's', is_double = size == 32;
  Type wide = type, floats = type;
  wide.element = Element::kI32;
  floats.element = is_double ? Element::kDouble : Element::kFloat;
  const int length = pieces_of(floats).length;
  // Narrower unsigned integers fit in signed ones.
  const bool fits_signed = is_signed || !is_double;
  std::vector<Register> operands[2];
  for (int i = 0; i < 2; ++i) {
    Operand each = i == 0 ? x : y;
    if (!is_double) each = given(wide, widened(each, wide, is_signed));
    operands[i] = floats_from(each, floats, fits_signed);
  }
  std::vector<Register> quotients;
  for (size_t i = 0; i < operands[0].size(); ++i) {
    quotients.push_back(vector(evex(is_double ? k66 : 0, k0F, is_double, 0x5e), length,
                               operands[0][i], operands[1][i]));
  }
  std::vector<Register> made = integers_from(given(floats, quotients), wide, fits_signed);
  if (op.substr(1) == "rem") {
    const std::vector<Register> a = is_double ? read_all(x) : widened(x, wide, is_signed);
    const std::vector<Register> b = is_double ? read_all(y) : widened(y, wide, is_signed);
    const int all = pieces_of(wide).length;
    for (size_t i = 0; i < made.size(); ++i) {
      const Register product = vector(evex(k66, k0F38, 0, 0x40), all, made[i], b[i]);
      made[i] = vector(evex(k66, k0F, 0, 0xfa), all, a[i], product);
    }
  }
  if (!is_double) made = narrowed(made, wide, type);
  define(name, type, std::move(made));
}

// Products and shifts of bytes, in vectors of elements twice as wide; for x86-64-v3, also shifts of
// words by different numbers, and both in vectors of 32 bits.
void FunctionWriter::as_wider(std::string_view name, std::string_view op, Type type,
                              const Operand& x, const Operand& y) {
  const bool to_words = is_v4() || op == "mul";
  if (type.bits() != 8 && to_words) throw NotUnderstood{"integer vectors of this type"};
  Type wide = type;
  wide.element = to_words ? Element::kI16 : Element::kI32;
  const std::vector<Register> a = widened(x, wide, op == "ashr"), b = widened(y, wide, false);
  const int of_longs = op == "shl" ? 0x47 : op == "lshr" ? 0x45 : 0x46;
  const Code code = op == "mul"    ? evex(k66, k0F, 0, 0xd5)
                    : !to_words    ? evex(k66, k0F38, 0, of_longs)
                    : op == "shl"  ? evex(k66, k0F38, 1, 0x12)
                    : op == "lshr" ? evex(k66, k0F38, 1, 0x10)
                                   : evex(k66, k0F38, 1, 0x11);
  std::vector<Register> made;
  for (size_t i = 0; i < a.size(); ++i) {
    made.push_back(vector(code, pieces_of(wide).length, a[i], b[i]));
  }
  define(name, type, narrowed(made, wide, type));
}

void FunctionWriter::masks(std::string_view name, std::string_view op, Type type) {
  const Operand x = text_.operand(type);
  text_.expect(", ");
  const Operand y = text_.operand(type);
  const Pieces of = pieces_of(type);
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    if (is_v4() && op == "xor" && y.is_number(1) && of.lanes >= 8) {
      Op invert{};
      invert.shape = Shape::kVector;
      invert.code = of.lanes == 8    ? vex(k66, k0F, 0, 0x44)
                    : of.lanes == 16 ? vex(0, k0F, 0, 0x44)
                    : of.lanes == 32 ? vex(k66, k0F, 1, 0x44)
                                     : vex(0, k0F, 1, 0x44);
      invert.b = read(x, i);
      invert.d = body_.fresh(Class::kMask);
      made.push_back(add(invert).d);
      continue;
    }
    const uint8_t opcode = op == "and" ? 0x41 : op == "or" ? 0x45 : op == "xor" ? 0x47 : 0;
    if (opcode == 0) throw NotUnderstood{"arithmetic of truths"};
    const Register a = read(x, i), b = read(y, i);
    made.push_back(combined_mask(opcode, a, b));
  }
  int size = 0;
  std::vector<Register> wide = wide_of_both(op, x, y, size);
  Value& value = define(name, type);
  value.pieces = std::move(made);
  value.wide = std::move(wide);
  value.wide_bits = size;
}

void FunctionWriter::float_binary(std::string_view name, uint8_t opcode, Type type) {
  Operand x = text_.operand(type);
  text_.expect(", ");
  Operand y = text_.operand(type);
  if (!is_float(type.element)) throw NotUnderstood{"float arithmetic of another type"};
  const bool is_double = type.element == Element::kDouble;
  const int prefix = type.is_vector ? (is_double ? k66 : 0) : is_double ? kF2 : kF3;
  const Pieces of = pieces_of(type);
  // Addition and multiplication are commutative.
  const bool commutes = opcode == 0x58 || opcode == 0x59;
  if (commutes && x.kind == Operand::kConstant) std::swap(x, y);
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    Op op = binary(evex(prefix, k0F, is_double, opcode), type, of.length);
    op.a = read(x, i);
    last(op, y, i);
    body_.hints[static_cast<size_t>(op.d)] = op.a;
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

void FunctionWriter::fneg(std::string_view name) {
  const Type type = text_.type();
  const Operand x = text_.operand(type);
  if (!is_float(type.element)) throw NotUnderstood{"the negative of another type"};
  const Pieces of = pieces_of(type);
  const int size = type.bits();
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    Op op = binary(evex(k66, k0F, size == 64, 0xef), type, of.length);
    op.a = read(x, i);
    in_all_lanes(op, uint64_t{1} << (size - 1), size / 8);
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

}  // namespace kiln::assembler
