// Values of the text in registers: constants, addresses, parts of vectors.
#include <cstring>

#include "assembler/selection/function_writer.h"

namespace kiln::assembler {

Pieces FunctionWriter::pieces_of(const Type& type) const {
  if (!type.is_vector) return {1, 1, type.bits() / 8, 0};
  const int bytes = type.bytes();
  if (type.element == Element::kI1) {
    const int lanes = type.lanes < 64 ? type.lanes : 64;
    return {type.lanes / lanes, lanes, 8, 0};
  }
  const int most = vectors_of(body_.level).bytes, size = bytes < most ? bytes : most;
  return {bytes / size, size * 8 / type.bits(), size, size <= 16 ? 0 : size == 32 ? 1 : 2};
}

namespace {

bool is_in_vector(const Type& type) {
  return type.is_vector || is_float(type.element) || type.element == Element::kHalf;
}

Class class_of(const Type& type) { return is_in_vector(type) ? Class::kVector : Class::kGeneral; }

}  // namespace

Op& FunctionWriter::add(Op op) {
  if (!is_v4()) to_vex(op);
  body_.ops.push_back(op);
  return body_.ops.back();
}

FunctionWriter::Value& FunctionWriter::value(const Operand& operand) {
  const auto found = values_.find(operand.name);
  if (found == values_.end()) {
    throw NotUnderstood{"a value that is not defined before: " + std::string(operand.name)};
  }
  return found->second;
}

FunctionWriter::Value& FunctionWriter::define(std::string_view name, Type type) {
  auto [found, is_new] = values_.try_emplace(name);
  if (!is_new) throw NotUnderstood{"two values of one name"};
  found->second.kind = Value::kRegisters;
  found->second.type = type;
  return found->second;
}

void FunctionWriter::define(std::string_view name, Type type, std::vector<Register> pieces) {
  define(name, type).pieces = std::move(pieces);
}

void FunctionWriter::alias(std::string_view name, const Value& value) {
  Value copy = value;
  define(name, copy.type) = std::move(copy);
}

// Constants.

Memory FunctionWriter::pool(std::string_view bytes) {
  Memory memory;
  memory.kind = Memory::kPool;
  memory.number = image_.constant(bytes);
  return memory;
}

Memory FunctionWriter::pool_number(uint64_t bits, int bytes) {
  char text[8];
  std::memcpy(text, &bits, sizeof text);
  return pool({text, static_cast<size_t>(bytes)});
}

// A constant in all lanes, as the last operand.
void FunctionWriter::in_all_lanes(Op& op, uint64_t bits, int size) {
  op.broadcasts = is_v4();
  if (op.broadcasts) {
    op.memory = pool_number(bits, size);
    return;
  }
  char text[32];
  for (int at = 0; at < 32; at += size) std::memcpy(text + at, &bits, static_cast<size_t>(size));
  op.memory = pool({text, sizeof text});
}

// A constant with the same bits in all lanes of one piece.
Register FunctionWriter::constant(Type type, uint64_t bits) {
  if (type.is_mask()) {
    const int lanes = pieces_of(type).lanes;
    return mask_constant(bits == 0 ? 0 : ~uint64_t{0} >> (64 - lanes));
  }
  Op op{};
  if (class_of(type) == Class::kGeneral) {
    op.shape = Shape::kImmediate;
    op.immediate = static_cast<int64_t>(bits);
    op.d = body_.fresh(Class::kGeneral);
    return add(op).d;
  }
  op.shape = Shape::kVector;
  op.d = body_.fresh(Class::kVector);
  op.length = static_cast<uint8_t>(pieces_of(type).length);
  if (bits == 0) {
    op.code = evex(k66, k0F, 0, 0xef);
    op.length = 0;
    return add(op).d;
  }
  const int size = type.bits() / 8;
  op.memory = pool_number(bits, size);
  if (!type.is_vector) {
    op.code = size == 8 ? evex(kF2, k0F, 1, 0x10) : evex(kF3, k0F, 0, 0x10);
    if (size == 2) throw NotUnderstood{"a constant of type half"};
  } else {
    const int opcode = size == 1 ? 0x78 : size == 2 ? 0x79 : size == 4 ? 0x58 : 0x59;
    op.code = evex(k66, k0F38, size == 8, opcode);
  }
  return add(op).d;
}

Register FunctionWriter::lanes(const Operand& operand, int piece) {
  const Pieces of = pieces_of(operand.type);
  if (operand.type.is_mask()) {
    uint64_t bits = 0;
    for (int i = 0; i < of.lanes; ++i) {
      bits |= operand.lanes[static_cast<size_t>(piece * of.lanes + i)] << i;
    }
    return mask_constant(bits);
  }
  std::string bytes;
  for (int i = 0; i < of.lanes; ++i) {
    const uint64_t lane = operand.lanes[static_cast<size_t>(piece * of.lanes + i)];
    bytes.append(reinterpret_cast<const char*>(&lane),
                 static_cast<size_t>(operand.type.bits() / 8));
  }
  // Values shorter than a register are padded, so that whole registers may be read.
  if (bytes.size() < 16) bytes.resize(16);
  Op op{};
  op.shape = Shape::kVector;
  op.code = evex(0, k0F, 0, 0x10);
  op.length = static_cast<uint8_t>(of.length);
  op.memory = pool(bytes);
  op.d = body_.fresh(Class::kVector);
  return add(op).d;
}

// Operands.

// The constant that an operand stands for, if it does.
const Operand& FunctionWriter::known(const Operand& operand) {
  if (operand.kind != Operand::kNamed) return operand;
  const Value& found = value(operand);
  return found.kind == Value::kConstant ? found.constant : operand;
}

Register FunctionWriter::read(const Operand& operand, int piece) {
  switch (operand.kind) {
    case Operand::kConstant: return constant(operand.type, operand.bits);
    case Operand::kLanes: return lanes(operand, piece);
    case Operand::kSymbol: {
      Memory memory;
      memory.kind = Memory::kSymbol;
      memory.number = image_.symbol(operand.name);
      return address(memory);
    }
    case Operand::kNamed: break;
  }
  const Value& found = value(operand);
  if (found.type != operand.type) throw NotUnderstood{"a value of another type"};
  switch (found.kind) {
    case Value::kConstant: {
      const Operand constant = found.constant;
      return read(constant, piece);
    }
    case Value::kAddress: return address(found.memory);
    case Value::kRegisters: return found.pieces.at(static_cast<size_t>(piece));
    default: throw NotUnderstood{"a value of this kind as an operand"};
  }
}

std::vector<Register> FunctionWriter::read_all(const Operand& operand) {
  std::vector<Register> found;
  const int count = pieces_of(operand.type).count;
  for (int i = 0; i < count; ++i) found.push_back(read(operand, i));
  return found;
}

// Wraps registers as an operand. Valid until the next one is created.
Operand FunctionWriter::given(Type type, std::vector<Register> pieces) {
  Operand operand;
  operand.kind = Operand::kNamed;
  operand.type = type;
  // No name in the text is empty.
  values_.erase(operand.name);
  define(operand.name, type, std::move(pieces));
  return operand;
}

// Use an operand in a register-or-memory position: constants stay in the object. False if it is in
// `op.b`.
bool FunctionWriter::last(Op& op, const Operand& operand, int piece) {
  const Operand* given = &operand;
  if (operand.kind == Operand::kNamed) {
    const Value& found = value(operand);
    if (found.kind == Value::kConstant) given = &found.constant;
  }
  const Type type = given->type;
  if (type.is_mask() || !is_in_vector(type) || given->kind == Operand::kNamed) {
    op.b = read(operand, piece);
    return false;
  }
  if (given->kind == Operand::kLanes && pieces_of(type).bytes >= 16) {
    const Operand copy = *given;
    op.b = read(copy, piece);
    return false;
  }
  const int size = type.bits() / 8;
  if (given->kind != Operand::kConstant || size < 4) {
    op.b = read(operand, piece);
    return false;
  }
  if (type.is_vector) in_all_lanes(op, given->bits, size);
  else op.memory = pool_number(given->bits, size);
  return true;
}

// An integer narrower than 32 bits, extended to 32.
Register FunctionWriter::extended(const Operand& operand, bool is_signed) {
  const int size = operand.type.bits();
  if (operand.kind == Operand::kConstant && size < 32) {
    const uint64_t sign = is_signed && size > 1 ? uint64_t{1} << (size - 1) : 0;
    Type wide;
    wide.element = Element::kI64;
    return constant(wide, (operand.bits ^ sign) - sign);
  }
  const Register found = read(operand);
  if (size >= 32 || size == 1) return found;
  Op op{};
  op.shape = Shape::kExtend;
  op.width = static_cast<uint8_t>(size / 8);
  op.digit = is_signed;
  op.b = found;
  op.d = body_.fresh(Class::kGeneral);
  return add(op).d;
}

// Addresses.

Register FunctionWriter::address(const Memory& memory) {
  if (memory.kind == Memory::kRegisters && memory.index == kNone && memory.displacement == 0) {
    return memory.base;
  }
  Op op{};
  op.shape = Shape::kAddress;
  op.memory = memory;
  op.d = body_.fresh(Class::kGeneral);
  return add(op).d;
}

Memory FunctionWriter::memory(const Operand& operand) {
  Memory memory;
  if (operand.kind == Operand::kSymbol) {
    memory.kind = Memory::kSymbol;
    memory.number = image_.symbol(operand.name);
    return memory;
  }
  if (!operand.type.is(Element::kPointer)) throw NotUnderstood{"an address that is not a pointer"};
  if (operand.kind == Operand::kNamed) {
    const Value& found = value(operand);
    if (found.kind == Value::kAddress) return found.memory;
  }
  memory.kind = Memory::kRegisters;
  memory.base = read(operand);
  return memory;
}

// Vectors.

Register FunctionWriter::vector(Code code, int length, Register a, Register b) {
  Op op{};
  op.shape = Shape::kVector;
  op.code = code;
  op.length = static_cast<uint8_t>(length);
  op.a = a;
  op.b = b;
  op.d = body_.fresh(Class::kVector, a);
  return add(op).d;
}

Register FunctionWriter::vector_of(Code code, int length, Register b, int immediate) {
  Op op{};
  op.shape = Shape::kVector;
  op.code = code;
  op.length = static_cast<uint8_t>(length);
  op.b = b;
  op.has_immediate = immediate >= 0;
  op.immediate = immediate;
  op.d = body_.fresh(Class::kVector);
  return add(op).d;
}

Register FunctionWriter::reversed(Code code, int length, Register b, int immediate) {
  Op op{};
  op.shape = Shape::kReversed;
  op.code = code;
  op.length = static_cast<uint8_t>(length);
  op.b = b;
  op.has_immediate = immediate >= 0;
  op.immediate = immediate;
  op.d = body_.fresh(Class::kVector);
  return add(op).d;
}

// Some bytes of a register of a given size; the bytes after them are undefined.
Register FunctionWriter::part(Register of, int bytes, int at, int size) {
  if (at == 0) return of;
  if (size == 32) return reversed(evex(k66, k0F3A, 1, 0x3b), 2, of, at / 32);
  Register found = of;
  if (at >= 16) found = reversed(evex(k66, k0F3A, 0, 0x39), bytes == 64 ? 2 : 1, of, at / 16);
  if (at % 16 == 0) return found;
  Op op{};
  op.shape = Shape::kShift;
  op.code = evex(k66, k0F, 0, 0x73);
  op.digit = 3;
  op.b = found;
  op.has_immediate = true;
  op.immediate = at % 16;
  op.d = body_.fresh(Class::kVector);
  return add(op).d;
}

// Concatenates vectors pairwise until they have the requested size.
std::vector<Register> FunctionWriter::joined(std::vector<Register> parts, int bytes, int wanted) {
  while (bytes < wanted && parts.size() > 1) {
    std::vector<Register> pairs;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      if (bytes == 8) {
        pairs.push_back(vector(evex(k66, k0F, 1, 0x6c), 0, parts[i], parts[i + 1]));
        continue;
      }
      if (bytes < 8) {
        const int opcode = bytes == 4 ? 0x62 : bytes == 2 ? 0x61 : 0x60;
        pairs.push_back(vector(evex(k66, k0F, 0, opcode), 0, parts[i], parts[i + 1]));
        continue;
      }
      pairs.push_back(vector(bytes == 16 ? evex(k66, k0F3A, 0, 0x38) : evex(k66, k0F3A, 1, 0x3a),
                             bytes == 16 ? 1 : 2, parts[i], parts[i + 1]));
      Op& op = body_.ops.back();
      op.has_immediate = true;
      op.immediate = 1;
    }
    parts = std::move(pairs);
    bytes *= 2;
  }
  return parts;
}

}  // namespace kiln::assembler
