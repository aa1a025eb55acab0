// Memory accesses lane by lane: of bytes and words, and scatters, for which there may be no
// instruction.
//
// Lanes that a mask leaves out must not be accessed. If the mask is a constant, nothing is
// generated for them; otherwise their address is replaced by that of memory on the stack.
#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

bool is_set(const Operand& mask, int lane) {
  return (mask.kind == Operand::kLanes ? mask.lanes[static_cast<size_t>(lane)] : mask.bits) != 0;
}

// How many bytes, at most 8, may be accessed together from a lane on.
int run_of(const Operand& mask, int lane, int first, int end, int size) {
  int run = size;
  while (run < 8) {
    const int lanes = 2 * run / size;
    if ((lane - first) % lanes != 0 || lane + lanes > end) break;
    bool are_set = true;
    for (int i = lane; i < lane + lanes; ++i) are_set &= is_set(mask, i);
    if (!are_set) break;
    run *= 2;
  }
  return run;
}

// Insert a number into a vector, or extract it.
Code insertion(int bytes) {
  if (bytes == 2) return evex(k66, k0F, 0, 0xc4);
  return evex(k66, k0F3A, bytes == 8, bytes == 1 ? 0x20 : 0x22);
}

Code extraction(int bytes) {
  return evex(k66, k0F3A, bytes == 8, bytes == 1 ? 0x14 : bytes == 2 ? 0x15 : 0x16);
}

}  // namespace

// Memory that may be read and written without effect.
Register FunctionWriter::nowhere() {
  if (nowhere_.kind == Memory::kNothing) {
    body_.frame = (body_.frame + 7) / 8 * 8;
    nowhere_.kind = Memory::kFrame;
    nowhere_.displacement = static_cast<int32_t>(body_.frame);
    body_.frame += 8;
  }
  return address(nowhere_);
}

// An address if a bit of a number is set, otherwise another one.
Memory FunctionWriter::memory_if(Register bits, int lane, const Memory& at, Register nowhere) {
  const Register here = address(at);
  Op shift{};
  shift.shape = Shape::kShiftNumber;
  shift.digit = 5;
  shift.a = bits;
  shift.has_immediate = true;
  shift.immediate = lane;
  shift.d = body_.fresh(Class::kGeneral);
  Op low{};
  low.shape = Shape::kArithmetic;
  low.digit = 4;
  low.width = 4;
  low.a = lane == 0 ? bits : add(shift).d;
  low.has_immediate = true;
  low.immediate = 1;
  low.d = body_.fresh(Class::kGeneral);
  Op test{};
  test.shape = Shape::kTest;
  test.has_effect = true;
  test.width = 4;
  test.a = add(low).d;
  add(test);
  Op choose{};
  choose.shape = Shape::kChoose;
  choose.digit = kNotEqual;
  choose.a = here;
  choose.b = nowhere;
  choose.d = body_.fresh(Class::kGeneral);
  Memory found;
  found.kind = Memory::kRegisters;
  found.base = add(choose).d;
  return found;
}

// A masked load.
std::vector<Register> FunctionWriter::loaded_lanes(const Memory& at, const Type& type,
                                                   const Operand& mask, const Operand& instead) {
  const Operand chosen = known(mask);
  const int size = type.bits() / 8;
  const Pieces of = pieces_of(type);
  const int chunk = of.bytes < 16 ? of.lanes : 16 / size;
  const bool is_known = chosen.kind != Operand::kNamed;
  std::vector<Register> parts;
  for (int first = 0; first < type.lanes; first += chunk) {
    const Register before =
        part(read(instead, first / of.lanes), of.bytes, first % of.lanes * size, chunk * size);
    Register found = before;
    auto load = [&](const Memory& from, int place, int bytes) {
      Op op{};
      op.shape = Shape::kVector;
      op.code = insertion(bytes);
      op.a = found;
      op.memory = from;
      op.has_immediate = true;
      op.immediate = place;
      op.d = body_.fresh(Class::kVector, found);
      found = add(op).d;
    };
    if (is_known) {
      for (int lane = first; lane < first + chunk;) {
        if (!is_set(chosen, lane)) {
          ++lane;
          continue;
        }
        const int run = run_of(chosen, lane, first, first + chunk, size);
        load(moved(at, int64_t{lane} * size), (lane - first) * size / run, run);
        lane += run / size;
      }
    } else {
      const Register none = nowhere();
      const Register bits = as_number(mask_part(chosen, first, chunk), true);
      for (int i = 0; i < chunk; ++i) {
        load(memory_if(bits, i, moved(at, int64_t{first + i} * size), none), i, size);
      }
      found = chosen_lanes(bits, size, chunk, found, before);
    }
    parts.push_back(found);
  }
  return joined(std::move(parts), chunk * size, of.bytes);
}

// Bytes or words of 16 bytes where bits of a number are set, otherwise of `no`.
Register FunctionWriter::chosen_lanes(Register bits, int size, int lanes, Register yes,
                                      Register no) {
  if (!is_v4()) return blended(8 * size, 0, spread_bits(bits, 8 * size, lanes), yes, no);
  Op op{};
  op.shape = Shape::kVector;
  op.code = evex(k66, k0F38, size == 2, 0x66);
  op.mask = as_mask(bits, true);
  op.a = no;
  op.b = yes;
  op.d = body_.fresh(Class::kVector);
  return add(op).d;
}

// A masked store.
void FunctionWriter::store_lanes(const Memory& at, const Operand& stored, const Operand& mask) {
  const Operand chosen = known(mask);
  const int size = stored.type.bits() / 8;
  const Pieces of = pieces_of(stored.type);
  const int chunk = of.bytes < 16 ? of.lanes : 16 / size;
  const bool is_known = chosen.kind != Operand::kNamed;
  for (int first = 0; first < stored.type.lanes; first += chunk) {
    const Register from =
        part(read(stored, first / of.lanes), of.bytes, first % of.lanes * size, chunk * size);
    auto store = [&](const Memory& to, int place, int bytes) {
      Op op{};
      op.shape = Shape::kStore;
      op.has_effect = true;
      op.code = extraction(bytes);
      op.a = from;
      op.memory = to;
      op.has_immediate = true;
      op.immediate = place;
      add(op);
    };
    if (is_known) {
      for (int lane = first; lane < first + chunk;) {
        if (!is_set(chosen, lane)) {
          ++lane;
          continue;
        }
        const int run = run_of(chosen, lane, first, first + chunk, size);
        store(moved(at, int64_t{lane} * size), (lane - first) * size / run, run);
        lane += run / size;
      }
      continue;
    }
    const Register none = nowhere();
    const Register bits = as_number(mask_part(chosen, first, chunk), true);
    for (int i = 0; i < chunk; ++i) {
      store(memory_if(bits, i, moved(at, int64_t{first + i} * size), none), i, size);
    }
  }
}

// The offset that one lane adds to an address.
Register FunctionWriter::lane_number(const std::vector<Register>& of, int lane) {
  const int bytes = vectors_of(body_.level).bytes, lanes = bytes / 8;
  if (lane >= static_cast<int>(of.size()) * lanes) throw NotUnderstood{"a lane that is missing"};
  const Register piece = of[static_cast<size_t>(lane / lanes)];
  Op op{};
  op.shape = Shape::kReversed;
  op.code = evex(k66, k0F, 1, 0x7e);
  op.b = part(piece, bytes, lane % lanes * 8, 8);
  op.d = body_.fresh(Class::kGeneral);
  return add(op).d;
}

std::vector<Register> FunctionWriter::gathered_lanes(const Value& at, const Type& type,
                                                     const Operand& mask, const Operand& instead) {
  const Operand chosen = known(mask);
  const bool is_known = chosen.kind != Operand::kNamed;
  const int size = type.bits() / 8;
  const Pieces of = pieces_of(type);
  const int chunk = type.lanes * size < 16 ? type.lanes : 16 / size;
  std::vector<Register> parts;
  for (int first = 0; first < type.lanes; first += chunk) {
    const Register before =
        part(read(instead, first / of.lanes), of.bytes, first % of.lanes * size, chunk * size);
    Register found = before;
    const Register none = is_known ? kNone : nowhere();
    const Register bits = is_known ? kNone : as_number(mask_part(chosen, first, chunk), true);
    for (int lane = first; lane < first + chunk; ++lane) {
      if (is_known && !is_set(chosen, lane)) continue;
      Op load{};
      load.shape = Shape::kLoad;
      load.width = static_cast<uint8_t>(size);
      load.memory = at.memory;
      load.memory.index = lane_number(at.pieces, lane);
      if (!is_known) load.memory = memory_if(bits, lane - first, load.memory, none);
      load.d = body_.fresh(Class::kGeneral);
      const Register number = add(load).d;
      found = vector(insertion(size), 0, found, number);
      Op& insert = body_.ops.back();
      insert.has_immediate = true;
      insert.immediate = lane - first;
    }
    if (!is_known) found = chosen_lanes(bits, size, chunk, found, before);
    parts.push_back(found);
  }
  return joined(std::move(parts), chunk * size, of.bytes);
}

// Lanes are stored in their order: of those with one address, the last one stays.
void FunctionWriter::scatter_lanes(const Value& at, const Operand& stored, const Operand& mask) {
  const Operand chosen = known(mask);
  const bool is_known = chosen.kind != Operand::kNamed;
  const int size = stored.type.bits() / 8, lanes = stored.type.lanes;
  const Pieces of = pieces_of(stored.type);
  const Register none = is_known ? kNone : nowhere();
  Register bits = kNone;
  for (int lane = 0; lane < lanes; ++lane) {
    if (is_known && !is_set(chosen, lane)) continue;
    if (!is_known && lane % 64 == 0) bits = as_number(read(chosen, lane / 64), true);
    const int place = lane % of.lanes * size;
    const Register from = part(read(stored, lane / of.lanes), of.bytes, place / 16 * 16, 16);
    Memory to = at.memory;
    to.index = lane_number(at.pieces, lane);
    if (!is_known) to = memory_if(bits, lane % 64, to, none);
    if (size < 4) {
      Op extract{};
      extract.shape = Shape::kReversed;
      extract.code = extraction(size);
      extract.b = from;
      extract.has_immediate = true;
      extract.immediate = place % 16 / size;
      extract.d = body_.fresh(Class::kGeneral);
      const Register number = add(extract).d;
      Op put{};
      put.shape = Shape::kPut;
      put.has_effect = true;
      put.width = static_cast<uint8_t>(size);
      put.a = number;
      put.memory = to;
      add(put);
      continue;
    }
    Op put{};
    put.shape = Shape::kStore;
    put.has_effect = true;
    put.code = extraction(size);
    put.a = from;
    put.memory = to;
    put.has_immediate = true;
    put.immediate = place % 16 / size;
    add(put);
  }
}

}  // namespace kiln::assembler
