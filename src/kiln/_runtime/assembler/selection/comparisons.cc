// Comparisons and selections, of scalars and of vectors.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

struct Relation {
  std::string_view name;
  uint8_t condition, predicate;  // for jumps, for vpcmp
  bool is_signed;
};

constexpr Relation kRelations[] = {
    {"eq", kEqual, 0, false},      {"ne", kNotEqual, 4, false},  {"slt", kLess, 1, true},
    {"sle", kNotGreater, 2, true}, {"sgt", kGreater, 6, true},   {"sge", kNotLess, 5, true},
    {"ult", kBelow, 1, false},     {"ule", kNotAbove, 2, false}, {"ugt", kAbove, 6, false},
    {"uge", kNotBelow, 5, false},
};

struct FloatRelation {
  std::string_view name;
  uint8_t predicate;
};

constexpr FloatRelation kFloatRelations[] = {
    {"oeq", 0x00}, {"olt", 0x11}, {"ole", 0x12}, {"ogt", 0x1e}, {"oge", 0x1d},
    {"one", 0x0c}, {"ord", 0x07}, {"uno", 0x03}, {"une", 0x04}, {"ueq", 0x08},
    {"ult", 0x19}, {"ule", 0x1a}, {"ugt", 0x16}, {"uge", 0x15},
};

template <typename T, size_t n>
const T& found_in(const T (&table)[n], std::string_view name) {
  for (const T& each : table) {
    if (each.name == name) return each;
  }
  throw NotUnderstood{"the comparison " + std::string(name)};
}

}  // namespace

// Comparisons.

void FunctionWriter::icmp(std::string_view name) {
  const Relation relation = found_in(kRelations, text_.word());
  text_.expect(" ");
  const Type type = text_.type();
  const Operand x = text_.operand(type);
  text_.expect(", ");
  const Operand y = text_.operand(type);
  Type result = type;
  result.element = Element::kI1;
  const int size = type.bits();
  if (!type.is_vector) {
    const bool are_addresses = type.is(Element::kPointer);
    if (!is_integer(type.element) && (!are_addresses || y.kind == Operand::kConstant)) {
      throw NotUnderstood{"a comparison of such values"};
    }
    if (size == 1 && relation.is_signed) throw NotUnderstood{"a comparison of truths"};
    Op op{};
    op.shape = Shape::kSet;
    op.digit = relation.condition;
    op.width = size == 64 ? 8 : 4;
    op.a = are_addresses ? address(memory(x)) : extended(x, relation.is_signed);
    const int64_t limit = y.kind == Operand::kConstant ? relation.is_signed || size >= 32
                                                             ? signed_of(y.bits, size)
                                                             : static_cast<int64_t>(y.bits)
                                                       : 0;
    if (y.kind == Operand::kConstant && fits(limit)) {
      op.has_immediate = true;
      op.immediate = limit;
    } else {
      op.b = are_addresses ? address(memory(y)) : extended(y, relation.is_signed);
    }
    op.d = body_.fresh(Class::kGeneral);
    const Op kept = op;
    add(op);
    Value& value = define(name, result);
    value.pieces = {kept.d};
    value.left = kept.a;
    value.right = kept.b;
    value.limit = kept.immediate;
    value.condition = relation.condition;
    value.width = kept.width;
    return;
  }
  const Pieces of = pieces_of(type);
  if (type.is_mask()) {
    std::vector<Register> made;
    for (int i = 0; i < of.count; ++i) {
      const Register a = read(x, i), b = read(y, i);
      const std::string_view how = relation.name;
      // Unsigned, false is less than true; signed, greater.
      const bool swaps = how == "ugt" || how == "uge" || how == "slt" || how == "sle";
      const Register low = swaps ? b : a, high = swaps ? a : b;
      Register found;
      if (how == "eq" || how == "ne") {
        found = combined_mask(0x47, a, b);
      } else if (how == "ult" || how == "ugt" || how == "slt" || how == "sgt") {
        found = combined_mask(0x42, low, high);
      } else {
        found = combined_mask(0x42, high, low);
      }
      if (how != "ne" && how != "ult" && how != "ugt" && how != "slt" && how != "sgt") {
        Type piece = type;
        piece.lanes = of.lanes;
        found = combined_mask(0x47, found, constant(piece, 1));
      }
      made.push_back(found);
    }
    define(name, result, std::move(made));
    return;
  }
  if (!is_v4()) {
    std::vector<Register> parts;
    const std::string_view how = relation.name;
    const bool swaps = relation.condition == kLess || relation.condition == kNotLess ||
                       relation.condition == kBelow || relation.condition == kNotBelow;
    const bool inverts = how == "ne" || how.substr(1) == "le" || how.substr(1) == "ge";
    for (int i = 0; i < of.count; ++i) {
      const Register a = read(x, i), b = read(y, i);
      Register found = how == "eq" || how == "ne" ? equal(size, of.length, a, b)
                                                  : greater(size, of.length, swaps ? b : a,
                                                            swaps ? a : b, relation.is_signed);
      if (inverts) found = with_lanes(evex(k66, k0F, 0, 0xef), of.length, found, ~uint64_t{0}, 8);
      parts.push_back(found);
    }
    define_truths(name, type, std::move(parts));
    return;
  }
  const bool is_narrow = size <= 16;
  const int opcode =
      (is_narrow ? 0x3e : 0x1e) + (relation.is_signed || relation.predicate % 4 == 0);
  std::vector<Register> parts;
  for (int i = 0; i < of.count; ++i) {
    Op op = binary(evex(k66, k0F3A, size == 16 || size == 64, opcode), type, of.length);
    op.d = body_.fresh(Class::kMask);
    op.a = read(x, i);
    last(op, y, i);
    op.has_immediate = true;
    op.immediate = relation.predicate;
    parts.push_back(add(op).d);
  }
  define_truths(name, type, std::move(parts));
}

void FunctionWriter::fcmp(std::string_view name) {
  const FloatRelation relation = found_in(kFloatRelations, text_.word());
  text_.expect(" ");
  const Type type = text_.type();
  const Operand x = text_.operand(type);
  text_.expect(", ");
  const Operand y = text_.operand(type);
  if (!is_float(type.element)) throw NotUnderstood{"a float comparison of another type"};
  const bool is_double = type.element == Element::kDouble;
  const int prefix = type.is_vector ? (is_double ? k66 : 0) : is_double ? kF2 : kF3;
  const Pieces of = pieces_of(type);
  Type result = type;
  result.element = Element::kI1;
  std::vector<Register> parts;
  for (int i = 0; i < of.count; ++i) {
    Op op = binary(evex(prefix, k0F, is_double, 0xc2), type, of.length);
    if (is_v4()) op.d = body_.fresh(Class::kMask);
    op.a = read(x, i);
    last(op, y, i);
    op.has_immediate = true;
    op.immediate = relation.predicate;
    parts.push_back(add(op).d);
  }
  if (type.is_vector) {
    define_truths(name, type, std::move(parts));
    return;
  }
  if (is_v4()) {
    const Register found = as_number(parts[0], false);
    define(name, result, {found});
    return;
  }
  Op move{};
  move.shape = Shape::kReversed;
  move.code = evex(k66, k0F, 0, 0x7e);
  move.b = parts[0];
  move.d = body_.fresh(Class::kGeneral);
  const Register found = cleaned(add(move).d, 1);
  Value& value = define(name, result);
  value.pieces = {found};
  value.wide = std::move(parts);
  value.wide_bits = type.bits();
}

// Selections.

void FunctionWriter::select(std::string_view name) {
  const Operand condition = text_.operand();
  text_.expect(", ");
  const Operand yes = text_.operand();
  text_.expect(", ");
  const Operand no = text_.operand();
  const Type type = yes.type;
  if (no.type != type || condition.type.element != Element::kI1 ||
      (condition.type.is_vector && condition.type.lanes != type.lanes)) {
    throw NotUnderstood{"a selection of this kind"};
  }
  const Pieces of = pieces_of(type);
  std::vector<Register> made;
  if (!condition.type.is_vector) {
    if (type.is_vector || type.element == Element::kHalf) {
      throw NotUnderstood{"a selection of vectors by one truth"};
    }
    if (is_float(type.element)) {
      if (!is_v4()) {
        const Register mask = spread_scalar(condition, type.bits());
        made.push_back(blended(type.bits(), 0, mask, read(yes), read(no)));
        define(name, type, std::move(made));
        return;
      }
      const Register mask = as_mask(read(condition), false);
      Op op = binary(evex(k66, k0F38, type.bits() == 64, 0x65), type, 0);
      op.mask = mask;
      op.a = read(no);
      op.b = read(yes);
      made.push_back(add(op).d);
      define(name, type, std::move(made));
      return;
    }
    const Register a = read(yes), b = read(no), flag = read(condition);
    Op test{};
    test.shape = Shape::kTest;
    test.has_effect = true;
    test.width = 4;
    test.a = flag;
    add(test);
    Op op{};
    op.shape = Shape::kChoose;
    op.digit = kNotEqual;
    op.a = a;
    op.b = b;
    op.d = body_.fresh(Class::kGeneral, a);
    made.push_back(add(op).d);
    define(name, type, std::move(made));
    return;
  }
  if (type.is_mask()) {
    for (int i = 0; i < of.count; ++i) {
      const Register mask = read(condition, i), a = read(yes, i), b = read(no, i);
      made.push_back(
          combined_mask(0x45, combined_mask(0x41, mask, a), combined_mask(0x42, mask, b)));
    }
    define(name, type, std::move(made));
    return;
  }
  const int size = type.bits();
  if (type.element == Element::kHalf || type.element == Element::kPointer) {
    throw NotUnderstood{"a selection of this type"};
  }
  if (!is_v4()) {
    for (int i = 0; i < of.count; ++i) {
      const Register mask = spread(condition, size, i * of.lanes, of.lanes);
      made.push_back(blended(size, of.length, mask, read(yes, i), read(no, i)));
    }
    define(name, type, std::move(made));
    return;
  }
  const bool is_double = size == 64;
  const Code code = size == 8                ? evex(k66, k0F38, 0, 0x66)
                    : size == 16             ? evex(k66, k0F38, 1, 0x66)
                    : is_float(type.element) ? evex(k66, k0F38, is_double, 0x65)
                                             : evex(k66, k0F38, is_double, 0x64);
  for (int i = 0; i < of.count; ++i) {
    Op op = binary(code, type, of.length);
    op.mask = mask_part(condition, i * of.lanes, of.lanes);
    op.a = read(no, i);
    last(op, yes, i);
    made.push_back(add(op).d);
  }
  define(name, type, std::move(made));
}

}  // namespace kiln::assembler
