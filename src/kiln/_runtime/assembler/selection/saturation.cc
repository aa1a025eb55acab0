// Saturating float-to-integer conversion: the nearest representable integer, and 0 for nan.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {

void FunctionWriter::saturated(std::string_view name, Type type, bool is_signed) {
  const Operand x = text_.operand();
  if (type.is_vector) {
    define(name, type, saturated_lanes(x, type, is_signed));
    return;
  }
  // A scalar, as the first lane of a vector.
  Type from = x.type, to = type;
  from.lanes = to.lanes = from.element == Element::kDouble || type.bits() == 64 ? 2 : 4;
  from.is_vector = to.is_vector = true;
  if (type.bits() < 32) to.element = Element::kI32;
  std::vector<Register> found = saturated_lanes(given(from, {read(x)}), to, is_signed, type.bits());
  Op op{};
  op.shape = Shape::kReversed;
  op.code = evex(k66, k0F, type.bits() == 64, 0x7e);
  op.b = found[0];
  op.d = body_.fresh(Class::kGeneral);
  define(name, type, {add(op).d});
}

// The same for vectors, to integers of at most this many bits.
std::vector<Register> FunctionWriter::saturated_lanes(const Operand& x, Type type, bool is_signed,
                                                      int most_bits) {
  const Type from = x.type;
  if (!is_float(from.element) || !is_integer(type.element) || type.element == Element::kI1 ||
      from.lanes != type.lanes) {
    throw NotUnderstood{"a conversion of this kind"};
  }
  const bool is_double = from.element == Element::kDouble;
  const int size = most_bits == 0 ? type.bits() : most_bits;
  const bool is_long = size == 64;
  Type wide = type;
  if (size < 32) wide.element = Element::kI32;
  const int prefix = is_double ? k66 : 0;
  // The operand of the conversion.
  const Pieces source = pieces_of(from);
  std::vector<Register> floats = read_all(x);
  if (!is_signed) {
    // The second operand if either is nan.
    const Register zero = constant(from, 0);
    for (Register& r : floats) {
      r = vector(evex(prefix, k0F, is_double, 0x5f), source.length, r, zero);
    }
  }
  std::vector<Register> made = integers_from(given(from, floats), wide, is_signed);
  if (!is_v4()) {
    saturate(made, floats, from, wide, is_signed);
  } else if (is_signed) {
    const uint64_t limit = is_double ? (is_long ? 0x43e0000000000000 : 0x41e0000000000000)
                           : is_long ? 0x5f000000
                                     : 0x4f000000;
    // Overflow and nan, by masks over all lanes.
    std::vector<Register> above, unordered;
    for (int i = 0; i < source.count; ++i) {
      for (auto* to : {&above, &unordered}) {
        Op op = binary(evex(prefix, k0F, is_double, 0xc2), from, source.length);
        op.d = body_.fresh(Class::kMask);
        op.a = floats[static_cast<size_t>(i)];
        if (to == &above) {
          in_all_lanes(op, limit, is_double ? 8 : 4);
        } else {
          op.b = op.a;
        }
        op.has_immediate = true;
        op.immediate = to == &above ? 0x1d : 3;
        const Register found = add(op).d;
        to->push_back(source.bytes < 16 ? cleaned(found, source.lanes) : found);
      }
    }
    above = masks_joined(std::move(above), source.lanes, type.lanes);
    unordered = masks_joined(std::move(unordered), source.lanes, type.lanes);
    const Pieces of = pieces_of(wide);
    const uint64_t greatest = ~uint64_t{0} >> (65 - wide.bits());
    for (int i = 0; i < of.count; ++i) {
      auto mask = [&](const std::vector<Register>& all) {
        const int at = i * of.lanes;
        return shifted_mask(all[static_cast<size_t>(at / 64)], at % 64, false);
      };
      Register& r = made[static_cast<size_t>(i)];
      Op most = binary(evex(k66, k0F38, is_long, 0x64), wide, of.length);
      most.mask = mask(above);
      most.a = r;
      in_all_lanes(most, greatest, wide.bits() / 8);
      r = add(most).d;
      Op none = binary(evex(k66, k0F38, is_long, 0x64), wide, of.length);
      none.mask = mask(unordered);
      none.a = r;
      in_all_lanes(none, 0, wide.bits() / 8);
      r = add(none).d;
    }
  }
  if (size < 32) {
    const Pieces of = pieces_of(wide);
    const uint64_t most = is_signed ? ~uint64_t{0} >> (65 - size) : ~uint64_t{0} >> (64 - size);
    for (Register& r : made) {
      Op op = binary(evex(k66, k0F38, 0, is_signed ? 0x39 : 0x3b), wide, of.length);
      op.a = r;
      in_all_lanes(op, most, 4);
      r = add(op).d;
      if (!is_signed) continue;
      Op least = binary(evex(k66, k0F38, 0, 0x3d), wide, of.length);
      least.a = r;
      in_all_lanes(least, ~most & 0xffffffff, 4);
      r = add(least).d;
    }
    if (type != wide) made = narrowed(made, wide, type);
  }
  return made;
}

// For x86-64-v3: the greatest integer where floats are beyond it, and 0 for nan. (For x86-64-v4, a
// conversion to unsigned integers itself does so, except for negative numbers; both have zeros
// there by now.) Floats that are less than any integer gave the least one.
void FunctionWriter::saturate(std::vector<Register>& made, const std::vector<Register>& floats,
                              const Type& from, const Type& wide, bool is_signed) {
  const bool is_double = from.bits() == 64, is_long = wide.bits() == 64;
  const Pieces source = pieces_of(from), of = pieces_of(wide);
  // 2^31, 2^32, 2^63 or 2^64.
  const int exponent = wide.bits() - (is_signed ? 1 : 0);
  const uint64_t limit = is_double ? static_cast<uint64_t>(1023 + exponent) << 52
                                   : static_cast<uint64_t>(127 + exponent) << 23;
  auto where = [&](int predicate) {
    std::vector<Register> found;
    for (Register r : floats) {
      const Code code = evex(is_double ? k66 : 0, k0F, is_double, 0xc2);
      found.push_back(predicate == 3 ? vector(code, source.length, r, r)
                                     : with_lanes(code, source.length, r, limit, from.bits() / 8));
      body_.ops.back().has_immediate = true;
      body_.ops.back().immediate = predicate;
    }
    if (is_double == is_long) return found;
    const std::vector<Register> bits = bits_of(found, from);
    found.clear();
    for (int i = 0; i < of.count; ++i) {
      const int at = i * of.lanes;
      const Register mask = shifted_mask(bits[static_cast<size_t>(at / 64)], at % 64, false);
      found.push_back(spread_bits(mask, wide.bits(), of.lanes));
    }
    return found;
  };
  const std::vector<Register> above = where(0x1d);
  const uint64_t greatest = ~uint64_t{0} >> (65 - wide.bits());
  for (size_t i = 0; i < made.size(); ++i) {
    if (!is_signed) {
      made[i] = vector(evex(k66, k0F, 0, 0xeb), of.length, made[i], above[i]);
      continue;
    }
    made[i] = blended(wide.bits(), of.length, above[i], constant(wide, greatest), made[i]);
  }
  if (!is_signed) return;
  const std::vector<Register> unordered = where(3);
  for (size_t i = 0; i < made.size(); ++i) {
    made[i] = vector(evex(k66, k0F, 0, 0xdf), of.length, unordered[i], made[i]);
  }
}

}  // namespace kiln::assembler
