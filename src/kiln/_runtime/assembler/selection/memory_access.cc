// Addresses, loads and stores, including masked ones, gathers and scatters.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

// Moves of whole vectors, by element type so that a mask applies to elements.
Code move_of(int bits, bool is_store) {
  if (bits == 32) return evex(0, k0F, 0, is_store ? 0x11 : 0x10);
  if (bits == 64) return evex(k66, k0F, 1, is_store ? 0x11 : 0x10);
  return evex(kF2, k0F, bits == 16, is_store ? 0x7f : 0x6f);
}

}  // namespace

// An address plus an offset in bytes.
Memory FunctionWriter::moved(Memory at, int64_t by) {
  if (by == 0) return at;
  const int64_t sum = at.displacement + by;
  if (at.kind != Memory::kSymbol && fits(sum)) {
    at.displacement = static_cast<int32_t>(sum);
    return at;
  }
  Memory found;
  found.kind = Memory::kRegisters;
  found.base = address(at);
  if (fits(by)) {
    found.displacement = static_cast<int32_t>(by);
    return found;
  }
  Type wide;
  wide.element = Element::kI64;
  found.index = constant(wide, static_cast<uint64_t>(by));
  return found;
}

void FunctionWriter::get_address(std::string_view name) {
  const Type of = text_.type();
  text_.expect(", ");
  const Operand base = text_.operand();
  text_.expect(", ");
  const Operand index = text_.operand();
  const int size = of.bits() / 8;
  if (size == 0 || index.type.element != Element::kI64) throw NotUnderstood{"an address of this"};
  Memory at = memory(base);
  if (index.type.is_vector) {
    if (at.index != kNone || at.kind == Memory::kSymbol) {
      const Register first = address(at);
      at = {};
      at.kind = Memory::kRegisters;
      at.base = first;
    }
    at.scale = static_cast<uint8_t>(size);
    Type pointers = index.type;
    pointers.element = Element::kPointer;
    std::vector<Register> found = read_all(index);
    Value& value = define(name, pointers);
    value.kind = Value::kAddresses;
    value.memory = at;
    value.pieces = std::move(found);
    return;
  }
  if (index.kind == Operand::kConstant) {
    at = moved(at, static_cast<int64_t>(index.bits) * size);
  } else {
    const Value& number = value(index);
    Register root = read(index);
    if (number.root != kNone && fits(number.added * size)) {
      const int64_t sum = at.displacement + number.added * size;
      if (fits(sum) && at.kind != Memory::kSymbol) {
        at.displacement = static_cast<int32_t>(sum);
        root = number.root;
      }
    }
    if (at.index != kNone || at.kind == Memory::kSymbol) {
      const int32_t rest = at.kind == Memory::kSymbol ? 0 : at.displacement;
      at.displacement -= rest;
      const Register first = address(at);
      at = {};
      at.kind = Memory::kRegisters;
      at.base = first;
      at.displacement = rest;
    }
    at.index = root;
    at.scale = static_cast<uint8_t>(size);
  }
  Type pointer;
  pointer.element = Element::kPointer;
  Value& value = define(name, pointer);
  value.kind = Value::kAddress;
  value.memory = at;
}

// A load of one piece, or a store of `a`; the address is that of the first piece.
Op FunctionWriter::access(const Memory& first, const Type& type, int piece, bool is_store) {
  const Pieces of = pieces_of(type);
  const Memory at = moved(first, static_cast<int64_t>(piece) * of.bytes);
  Op op{};
  op.memory = at;
  op.has_effect = is_store;
  if (type.is_mask() || type.element == Element::kI1 || type.element == Element::kHalf) {
    throw NotUnderstood{"truths in memory"};
  }
  if (!type.is_vector && !is_float(type.element)) {
    op.shape = is_store ? Shape::kPut : Shape::kLoad;
    op.width = static_cast<uint8_t>(of.bytes);
    return op;
  }
  op.shape = is_store ? Shape::kStore : Shape::kVector;
  if (!type.is_vector) {
    op.code = evex(of.bytes == 8 ? kF2 : kF3, k0F, of.bytes == 8, is_store ? 0x11 : 0x10);
    return op;
  }
  op.length = static_cast<uint8_t>(of.length);
  switch (of.bytes) {
    case 2:
      op.code = is_store ? evex(k66, k0F3A, 0, 0x15) : evex(k66, k0F38, 0, 0x79);
      op.has_immediate = is_store;
      break;
    case 4: op.code = evex(k66, k0F, 0, is_store ? 0x7e : 0x6e); break;
    case 8: op.code = is_store ? evex(k66, k0F, 1, 0xd6) : evex(kF3, k0F, 1, 0x7e); break;
    case 16:
    case 32:
    case 64: op.code = evex(0, k0F, 0, is_store ? 0x11 : 0x10); break;
    default: throw NotUnderstood{"a vector of this size in memory"};
  }
  return op;
}

void FunctionWriter::load(std::string_view name) {
  const Type type = text_.type();
  text_.expect(", ");
  const Memory at = memory(text_.operand());
  std::vector<Register> found;
  const bool is_vector = type.is_vector || is_float(type.element);
  for (int i = 0; i < pieces_of(type).count; ++i) {
    Op op = access(at, type, i, false);
    op.d = body_.fresh(is_vector ? Class::kVector : Class::kGeneral);
    found.push_back(add(op).d);
  }
  define(name, type, std::move(found));
}

void FunctionWriter::store() {
  const Operand stored = text_.operand();
  text_.expect(", ");
  const Memory at = memory(text_.operand());
  const Type type = stored.type;
  for (int i = 0; i < pieces_of(type).count; ++i) {
    Op op = access(at, type, i, true);
    const auto n = static_cast<int64_t>(stored.bits);
    const bool is_short =
        op.shape == Shape::kPut && stored.kind == Operand::kConstant && (op.width < 8 || fits(n));
    if (is_short) {
      op.has_immediate = true;
      op.immediate = n;
    } else {
      op.a = read(stored, i);
    }
    add(op);
  }
}

// Masked memory accesses.

void FunctionWriter::masked_load(std::string_view name, Type type) {
  text_.expect("ptr align ");
  text_.integer();
  Type pointer;
  pointer.element = Element::kPointer;
  const Memory at = memory(text_.operand(pointer));
  text_.expect(", ");
  const Operand mask = text_.operand();
  text_.expect(", ");
  const Operand instead = text_.operand();
  if (mask.type.lanes != type.lanes || !mask.type.is_mask() || instead.type != type) {
    throw NotUnderstood{"a masked load of this kind"};
  }
  const Pieces of = pieces_of(type);
  const int size = type.bits();
  if (!is_v4() && size < 32 && !mask.is_number(1)) {
    define(name, type, loaded_lanes(at, type, mask, instead));
    return;
  }
  std::vector<Register> found;
  for (int i = 0; i < of.count; ++i) {
    Op op{};
    if (mask.is_number(1)) {
      op = access(at, type, i, false);
    } else if (!is_v4()) {
      op.shape = Shape::kVector;
      op.code = vex(k66, k0F38, 0, size == 64 ? 0x2d : 0x2c);  // vmaskmovpd, vmaskmovps
      op.length = static_cast<uint8_t>(of.length);
      op.memory = moved(at, static_cast<int64_t>(i) * of.bytes);
      op.a = spread(mask, size, i * of.lanes, of.lanes, true);
      if (!instead.is_number(0)) {
        op.d = body_.fresh(Class::kVector);
        const Register chosen = op.a, loaded = add(op).d;
        found.push_back(blended(size, of.length, chosen, loaded, read(instead, i)));
        continue;
      }
    } else {
      op.shape = Shape::kVector;
      op.code = move_of(type.bits(), false);
      op.length = static_cast<uint8_t>(of.length);
      op.memory = moved(at, static_cast<int64_t>(i) * of.bytes);
      op.mask = mask_part(mask, i * of.lanes, of.lanes);
      if (instead.is_number(0)) {
        op.zeroes = true;
      } else {
        op.shape = Shape::kTied;
        op.is_early = true;
        op.c = read(instead, i);
      }
    }
    op.d = body_.fresh(Class::kVector);
    found.push_back(add(op).d);
  }
  define(name, type, std::move(found));
}

void FunctionWriter::masked_store() {
  const Operand stored = text_.operand();
  text_.expect(", ptr align ");
  text_.integer();
  Type pointer;
  pointer.element = Element::kPointer;
  const Memory at = memory(text_.operand(pointer));
  text_.expect(", ");
  const Operand mask = text_.operand();
  const Type type = stored.type;
  if (mask.type.lanes != type.lanes || !mask.type.is_mask() || !type.is_vector) {
    throw NotUnderstood{"a masked store of this kind"};
  }
  const Pieces of = pieces_of(type);
  const int size = type.bits();
  if (!is_v4() && size < 32 && !mask.is_number(1)) {
    store_lanes(at, stored, mask);
    return;
  }
  for (int i = 0; i < of.count; ++i) {
    Op op{};
    if (mask.is_number(1)) {
      op = access(at, type, i, true);
    } else if (!is_v4()) {
      op.shape = Shape::kStore;
      op.has_effect = true;
      op.code = vex(k66, k0F38, 0, size == 64 ? 0x2f : 0x2e);
      op.length = static_cast<uint8_t>(of.length);
      op.memory = moved(at, static_cast<int64_t>(i) * of.bytes);
      op.b = spread(mask, size, i * of.lanes, of.lanes, true);
    } else {
      op.shape = Shape::kStore;
      op.has_effect = true;
      op.code = move_of(type.bits(), true);
      op.length = static_cast<uint8_t>(of.length);
      op.memory = moved(at, static_cast<int64_t>(i) * of.bytes);
      op.mask = mask_part(mask, i * of.lanes, of.lanes);
    }
    op.a = read(stored, i);
    add(op);
  }
}

// Gathers and scatters: a register of addresses at a time.

void FunctionWriter::gather(std::string_view name, Type type) {
  const Type pointers = text_.type();
  text_.expect(" align ");
  text_.integer();
  const Operand places = text_.operand(pointers);
  text_.expect(", ");
  const Operand mask = text_.operand();
  text_.expect(", ");
  const Operand instead = text_.operand();
  const int size = type.bits();
  if (pointers.lanes != type.lanes || mask.type.lanes != type.lanes || !mask.type.is_mask() ||
      instead.type != type || places.kind != Operand::kNamed) {
    throw NotUnderstood{"a gather of this kind"};
  }
  const Value at = value(places);
  if (at.kind != Value::kAddresses) throw NotUnderstood{"a gather of this kind"};
  if (size < 32) {
    define(name, type, gathered_lanes(at, type, mask, instead));
    return;
  }
  const int most = vectors_of(body_.level).bytes / 8;
  const int lanes = type.lanes < most ? type.lanes : most;
  const int length = lanes <= 2 ? 0 : lanes == 4 ? 1 : 2;
  Type part = type;
  part.lanes = lanes;
  std::vector<Register> parts;
  for (int i = 0; i < type.lanes / lanes; ++i) {
    Register before;
    if (instead.kind == Operand::kConstant) {
      before = constant(part, instead.bits);
    } else {
      const Pieces of = pieces_of(type);
      const int first = i * lanes;
      before = this->part(read(instead, first / of.lanes), of.bytes, first % of.lanes * size / 8,
                          lanes * size / 8);
    }
    Op copy{};  // the instruction clears the mask
    copy.shape = Shape::kVector;
    copy.has_effect = true;
    Op op{};
    if (is_v4()) {
      copy.code = vex(0, k0F, 1, 0x90);
      copy.b = mask_part(mask, i * lanes, lanes);
      copy.d = body_.fresh(Class::kMask);
      op.mask = add(copy).d;
    } else {
      copy.code = evex(0, k0F, 0, 0x28);
      copy.b = spread(mask, size, i * lanes, lanes);
      copy.length = lanes * size > 128;
      copy.d = body_.fresh(Class::kVector);
      op.a = add(copy).d;
    }
    op.shape = Shape::kGather;
    op.is_early = true;
    op.code = evex(k66, k0F38, size == 64, is_float(type.element) ? 0x93 : 0x91);
    op.length = static_cast<uint8_t>(length);
    op.memory = at.memory;
    op.memory.index = at.pieces.at(static_cast<size_t>(i));
    op.c = before;
    op.d = body_.fresh(Class::kVector);
    parts.push_back(add(op).d);
  }
  define(name, type, joined(parts, lanes * size / 8, pieces_of(type).bytes));
}

void FunctionWriter::scatter() {
  const Operand stored = text_.operand();
  text_.expect(", ");
  const Type pointers = text_.type();
  text_.expect(" align ");
  text_.integer();
  const Operand places = text_.operand(pointers);
  text_.expect(", ");
  const Operand mask = text_.operand();
  const Type type = stored.type;
  const int size = type.bits();
  if (pointers.lanes != type.lanes || mask.type.lanes != type.lanes || !mask.type.is_mask() ||
      places.kind != Operand::kNamed) {
    throw NotUnderstood{"a scatter of this kind"};
  }
  const Value at = value(places);
  if (at.kind != Value::kAddresses) throw NotUnderstood{"a scatter of this kind"};
  if (size < 32 || !is_v4()) {
    scatter_lanes(at, stored, mask);
    return;
  }
  const int lanes = type.lanes < 8 ? type.lanes : 8;
  const Pieces of = pieces_of(type);
  for (int i = 0; i < type.lanes / lanes; ++i) {
    const int first = i * lanes;
    Op op{};
    op.shape = Shape::kScatter;
    op.has_effect = true;
    op.code = evex(k66, k0F38, size == 64, is_float(type.element) ? 0xa3 : 0xa1);
    op.length = static_cast<uint8_t>(lanes <= 2 ? 0 : lanes == 4 ? 1 : 2);
    op.a = part(read(stored, first / of.lanes), of.bytes, first % of.lanes * size / 8,
                lanes * size / 8);
    Op copy{};
    copy.shape = Shape::kVector;
    copy.code = vex(0, k0F, 1, 0x90);
    copy.b = mask_part(mask, first, lanes);
    copy.d = body_.fresh(Class::kMask);
    copy.has_effect = true;
    op.mask = add(copy).d;
    op.memory = at.memory;
    op.memory.index = at.pieces.at(static_cast<size_t>(i));
    add(op);
  }
}

// Stack allocation, which lasts as long as the function runs.
void FunctionWriter::allocate_frame(std::string_view name) {
  const bool is_array = text_.take("[");
  int64_t count = 1, align = 1;
  if (is_array) {
    count = text_.integer();
    text_.expect(" x ");
  }
  const Type type = text_.type();
  if (is_array) text_.expect("]");
  if (text_.take(", i64 ")) count = text_.integer();
  if (text_.take(", align ")) align = text_.integer();
  // In any other block, each iteration of a loop would allocate again.
  if (current_ != 0) throw NotUnderstood{"memory on the stack that is made late"};
  const int64_t bytes = type.bits() * type.lanes / 8;
  constexpr int64_t kMost = 1 << 24;
  if (bytes == 0 || count < 0 || count > kMost || align > 64 || align < 1) {
    throw NotUnderstood{"memory on the stack of this kind"};
  }
  if (align < 8) align = 8;
  Memory memory;
  memory.kind = Memory::kFrame;
  body_.frame = (body_.frame + align - 1) / align * align;
  memory.displacement = static_cast<int32_t>(body_.frame);
  body_.frame += count * bytes;
  if (body_.frame > kMost) throw NotUnderstood{"much memory on the stack"};
  Type pointer;
  pointer.element = Element::kPointer;
  Value& value = define(name, pointer);
  value.kind = Value::kAddress;
  value.memory = memory;
}

}  // namespace kiln::assembler
