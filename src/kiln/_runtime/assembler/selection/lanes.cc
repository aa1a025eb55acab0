// Inserting, extracting and shuffling vector lanes.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {

// A scalar in the first lane, which a shuffle then broadcasts.
void FunctionWriter::insert(std::string_view name) {
  const Type type = text_.type();
  text_.expect(" poison, ");
  Operand number = text_.operand();
  text_.expect(", i32 0");
  if (number.type.element != type.element || number.type.is_vector) {
    throw NotUnderstood{"a lane of another type"};
  }
  Value& value = define(name, type);
  value.kind = Value::kFirstLane;
  value.constant = number;
}

void FunctionWriter::extract(std::string_view name) {
  const Operand x = text_.operand();
  text_.expect(", i32 0");
  // One-element vectors are scalars.
  if (x.type.is_vector || x.kind != Operand::kNamed) throw NotUnderstood{"a lane of a vector"};
  const Value copy = value(x);
  alias(name, copy);
}

void FunctionWriter::broadcast(std::string_view name, Type type, const Operand& number) {
  const Pieces of = pieces_of(type);
  const bool is_constant =
      number.kind == Operand::kConstant ||
      (number.kind == Operand::kNamed && value(number).kind == Value::kConstant);
  if (is_constant) {
    Operand splat;
    splat.type = type;
    splat.bits = number.kind == Operand::kConstant ? number.bits : value(number).constant.bits;
    Value& made = define(name, type);
    made.kind = Value::kConstant;
    made.constant = splat;
    return;
  }
  Register found;
  if (type.is_mask()) {
    // All ones or all zeros, with one bit per lane.
    Op negative{};
    negative.shape = Shape::kUnary;
    negative.digit = 3;
    negative.a = read(number);
    negative.d = body_.fresh(Class::kGeneral);
    found = cleaned(as_mask(add(negative).d, true), of.lanes);
  } else {
    const int size = type.bits();
    const bool is_float = assembler::is_float(type.element);
    const int opcode = is_float     ? (size == 32 ? 0x58 : 0x59)
                       : size == 8  ? 0x7a
                       : size == 16 ? 0x7b
                                    : 0x7c;
    Register from = read(number);
    int from_vector = opcode;
    if (!is_v4() && !is_float) {
      Op move{};
      move.shape = Shape::kVector;
      move.code = evex(k66, k0F, size == 64, 0x6e);
      move.b = from;
      move.d = body_.fresh(Class::kVector);
      from = add(move).d;
      from_vector = size == 8 ? 0x78 : size == 16 ? 0x79 : size == 32 ? 0x58 : 0x59;
    }
    found = vector_of(evex(k66, k0F38, size == 64, from_vector), of.length, from);
  }
  define(name, type, std::vector<Register>(static_cast<size_t>(of.count), found));
}

void FunctionWriter::shuffle(std::string_view name) {
  const Operand x = text_.operand();
  text_.expect(", ");
  const Operand y = text_.operand();
  text_.expect(", ");
  // The permutation is a vector of i32, even for one lane.
  const Operand order = [&] {
    Type type = text_.type();
    text_.skip_spaces();
    if (type.is_vector) return text_.operand(type);
    if (text_.take("zeroinitializer")) {
      Operand zero;
      zero.type = type;
      return zero;
    }
    text_.expect("<i32 ");
    Operand one;
    one.type = type;
    one.bits = static_cast<uint64_t>(text_.integer());
    text_.expect(">");
    return one;
  }();
  const int count = order.type.lanes, all = x.type.lanes;
  std::vector<uint64_t> lanes = order.lanes;
  if (lanes.empty()) lanes.assign(static_cast<size_t>(count), order.bits);
  Type type = x.type;
  type.lanes = count;
  type.is_vector = count > 1;
  if (!x.type.is_vector) throw NotUnderstood{"a shuffle of one number"};
  if (x.kind == Operand::kNamed && value(x).kind == Value::kFirstLane) {
    if (order.kind != Operand::kConstant || order.bits != 0 || !type.is_vector) {
      throw NotUnderstood{"a shuffle of one lane"};
    }
    const Operand number = value(x).constant;
    broadcast(name, type, number);
    return;
  }
  if (x.type.is_mask()) {
    shuffled_mask(name, x, lanes);
    return;
  }
  const Pieces of = pieces_of(x.type);
  const int size = x.type.bits();
  bool is_run = true, is_turned = count == all;
  for (int i = 0; i < count; ++i) {
    const uint64_t lane = lanes[static_cast<size_t>(i)];
    is_run &= lane == lanes[0] + static_cast<uint64_t>(i);
    is_turned &= lane == static_cast<uint64_t>(all - 1 - i);
  }
  const auto first = static_cast<int>(lanes[0]);
  if (is_run && count < all && first % count == 0) {
    const Pieces to = pieces_of(type);
    std::vector<Register> made;
    if (count == 1) {
      const Register source = read(x, first / of.lanes);
      const int at = first % of.lanes;
      Register lane = part(source, of.bytes, at * size / 8, size / 8);
      if (!is_float(type.element)) {
        Op op{};
        op.shape = Shape::kReversed;
        op.code = evex(k66, k0F, size == 64, 0x7e);
        op.b = lane;
        op.d = body_.fresh(Class::kGeneral);
        lane = add(op).d;
      }
      made.push_back(lane);
    } else {
      for (int i = 0; i < to.count; ++i) {
        const int at = first + i * to.lanes;
        made.push_back(part(read(x, at / of.lanes), of.bytes, at % of.lanes * size / 8, to.bytes));
      }
    }
    define(name, type, std::move(made));
    return;
  }
  if (is_turned) {
    define(name, type, turned(read_all(x), type));
    return;
  }
  if (count != all) throw NotUnderstood{"a shuffle of this order"};
  std::vector<Register> sources = read_all(x);
  for (Register each : read_all(y)) sources.push_back(each);
  std::vector<Register> made;
  for (int i = 0; i < of.count; ++i) {
    const auto begin = lanes.begin() + i * of.lanes;
    made.push_back(chosen_from(sources, type, {begin, begin + of.lanes}));
  }
  define(name, type, std::move(made));
}

// A vector with the given lanes of several.
Register FunctionWriter::chosen_from(const std::vector<Register>& sources, const Type& type,
                                     const std::vector<uint64_t>& order) {
  const Pieces of = pieces_of(type);
  const int size = type.bits();
  const auto lanes = static_cast<uint64_t>(of.lanes);
  if (size < 32 || of.bytes < 32) throw NotUnderstood{"a shuffle of short elements"};
  Register found = kNone;
  std::vector<bool> is_there(sources.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t from = order[i] / lanes;
    if (is_there[from]) continue;
    is_there[from] = true;
    // Lanes of this source join those that are there already.
    Operand places;
    places.kind = Operand::kLanes;
    places.type.element = integer_of(size);
    places.type.is_vector = true;
    places.type.lanes = of.lanes;
    for (size_t j = 0; j < order.size(); ++j) {
      const bool is_new = order[j] / lanes == from;
      places.lanes.push_back(is_new ? order[j] % lanes + (found == kNone ? 0 : lanes) : j);
    }
    if (!is_v4()) {
      found = joined_lanes(found, sources[from], places);
    } else if (found == kNone) {
      found = vector(evex(k66, k0F38, size == 64, 0x36), of.length, read(places), sources[from]);
    } else {
      Op op{};
      op.shape = Shape::kTied;
      op.code = evex(k66, k0F38, size == 64, 0x7e);
      op.length = static_cast<uint8_t>(of.length);
      op.a = read(places);
      op.b = sources[from];
      op.c = found;
      op.d = body_.fresh(Class::kVector, found);
      found = add(op).d;
    }
  }
  return found;
}

// As `chosen_from` joins one source, for x86-64-v3: by words of 32 bits, and a blend. Places from the
// number of lanes on are those of the source.
Register FunctionWriter::joined_lanes(Register found, Register source, const Operand& places) {
  const int words = 8 / places.type.lanes;
  Operand order = places;
  order.type.element = Element::kI32;
  order.type.lanes = 8;
  order.lanes.clear();
  int64_t new_words = 0;
  for (int i = 0; i < 8; ++i) {
    const uint64_t place = places.lanes[static_cast<size_t>(i / words)];
    const uint64_t word = place * static_cast<uint64_t>(words) + static_cast<uint64_t>(i % words);
    order.lanes.push_back(word % 8);
    new_words |= int64_t{word >= 8} << i;
  }
  const Register moved = vector(vex(k66, k0F38, 0, 0x36), 1, read(order), source);
  if (found == kNone) return moved;
  const Register joined = vector(vex(k66, k0F3A, 0, 0x02), 1, found, moved);
  Op& op = body_.ops.back();
  op.has_immediate = true;
  op.immediate = new_words;
  return joined;
}

// Reverses vectors: the last vector first, and the lanes of each reversed.
std::vector<Register> FunctionWriter::turned(const std::vector<Register>& of, const Type& type) {
  const Pieces pieces = pieces_of(type);
  const int size = type.bits() / 8;
  std::vector<Register> made;
  for (auto each = of.rbegin(); each != of.rend(); ++each) {
    // First within 16-byte blocks, then the blocks.
    Operand order;
    order.kind = Operand::kLanes;
    order.type.element = Element::kI8;
    order.type.is_vector = true;
    order.type.lanes = pieces.bytes;
    const int run = pieces.bytes < 16 ? pieces.bytes : 16;
    for (int i = 0; i < pieces.bytes; ++i) {
      const int lane = i % run / size;
      order.lanes.push_back(static_cast<uint64_t>((run / size - 1 - lane) * size + i % size));
    }
    Register found = vector(evex(k66, k0F38, 0, 0x00), pieces.length, *each, read(order));
    if (pieces.bytes == 32) {
      found = vector_of(evex(k66, k0F3A, 1, 0x00), 1, found, 0x4e);
    } else if (pieces.bytes == 64) {
      found = vector(evex(k66, k0F3A, 1, 0x43), 2, found, found);
      Op& op = body_.ops.back();
      op.has_immediate = true;
      op.immediate = 0x1b;
    }
    made.push_back(found);
  }
  return made;
}

void FunctionWriter::shuffled_mask(std::string_view name, const Operand& x,
                                   const std::vector<uint64_t>& order) {
  Type type = x.type;
  type.lanes = static_cast<int>(order.size());
  type.is_vector = type.lanes > 1;
  if (x.kind != Operand::kNamed) {
    Operand made;
    made.kind = Operand::kLanes;
    made.type = type;
    for (uint64_t lane : order) {
      made.lanes.push_back(x.kind == Operand::kLanes ? x.lanes[lane] : x.bits);
    }
    if (!type.is_vector) throw NotUnderstood{"one lane of a constant"};
    std::vector<Register> found = read_all(made);
    define(name, type, std::move(found));
    return;
  }
  bool is_run = true, is_turned = type.lanes == x.type.lanes;
  for (size_t i = 0; i < order.size(); ++i) {
    is_run &= order[i] == order[0] + i;
    is_turned &= order[i] == order.size() - 1 - i;
  }
  if (is_turned && type.is_vector && type.lanes <= 64) {
    // Convert to bytes, and back.
    Type bytes = type;
    bytes.element = Element::kI8;
    const Pieces of = pieces_of(bytes);
    if (!is_v4()) {
      std::vector<Register> all;
      for (int i = 0; i < of.count; ++i) all.push_back(spread(x, 8, i * of.lanes, of.lanes));
      define(name, type, bits_of(turned(all, bytes), bytes));
      return;
    }
    const std::vector<Register> found =
        turned({vector_of(evex(kF3, k0F38, 0, 0x28), of.length, read(x))}, bytes);
    Op back{};
    back.shape = Shape::kVector;
    back.code = evex(kF3, k0F38, 0, 0x29);
    back.length = static_cast<uint8_t>(of.length);
    back.b = found[0];
    back.d = body_.fresh(Class::kMask);
    const Register mask = add(back).d;
    define(name, type, {cleaned(mask, type.lanes)});
    return;
  }
  if (!is_run || type.lanes >= x.type.lanes || x.type.lanes > 64) {
    throw NotUnderstood{"a shuffle of truths of this order"};
  }
  Register found = shifted_mask(read(x), static_cast<int>(order[0]), false);
  if (type.is_vector) {
    define(name, type, {cleaned(found, type.lanes)});
    return;
  }
  const Register bits = as_number(found, false);
  Op op{};
  op.shape = Shape::kArithmetic;
  op.digit = 4;
  op.width = 4;
  op.a = bits;
  op.has_immediate = true;
  op.immediate = 1;
  op.d = body_.fresh(Class::kGeneral);
  define(name, type, {add(op).d});
}

}  // namespace kiln::assembler
