// Encodes operations as bytes: register locations, vectors, jumps.
#include "assembler/emission/emitter.h"

namespace kiln::assembler {

void Emitter::run() {
  begin();
  size_t next = 0;
  places_.assign(body_.blocks.size(), 0);
  for (size_t i = 0; i < allocation_.order.size(); ++i) {
    while (next < allocation_.starts.size() && allocation_.starts[next] == i) {
      places_[body_.placed[next++]] = x_.at();
    }
    const Op& op = body_.ops[allocation_.order[i]];
    if (op.shape == Shape::kJumpIf && block_at(next, i + 2) == op.number) {
      // The next block needs no jump: jump to the other one.
      jump(op.digit ^ 1, body_.ops[allocation_.order[++i]].number);
      continue;
    }
    following_ = block_at(next, i + 1);
    place_ = static_cast<uint32_t>(i);
    emit(op);
  }
  if (next != allocation_.starts.size()) throw NotUnderstood{"a block without an end"};
  for (auto [at, block] : jumps_) x_.set_distance(at, places_[block]);
}

// The block that begins at an operation, if it is the next one; otherwise -1.
int64_t Emitter::block_at(size_t next, size_t i) const {
  const bool is_next = next < allocation_.starts.size() && allocation_.starts[next] == i;
  return is_next ? static_cast<int64_t>(body_.placed[next]) : -1;
}

// The register of a value to be read, reloaded if it was spilled.
int Emitter::read(Register r) {
  if (!is_on_stack(r)) return location(r).number;
  switch (class_of(r)) {
    case Class::kGeneral: {
      if (general_reloads_ == 3) throw NotUnderstood{"too many values on the stack"};
      const int to = general_reloads_ == 0 ? 10 : general_reloads_ == 1 ? 11 : kRax;
      ++general_reloads_;
      x_.general(0x8b, to, slot(r), true);
      return to;
    }
    case Class::kVector: {
      if (vector_reloads_ == 3) throw NotUnderstood{"too many values on the stack"};
      const int to = vectors_.scratch() + vector_reloads_++;
      load_vector(to, slot(r));
      return to;
    }
    default: {
      if (mask_reloads_ == 2) throw NotUnderstood{"too many values on the stack"};
      const int to = 6 + mask_reloads_++;
      x_.vector(kMoveMask, 0, to, -1, slot(r));
      return to;
    }
  }
}

// The register in which a value is to be computed.
int Emitter::written(Register r) const {
  if (!is_on_stack(r)) return location(r).number;
  switch (class_of(r)) {
    case Class::kGeneral: return kRax;
    case Class::kVector: return vectors_.result();
    default: return 7;
  }
}

void Emitter::store(Register r) {
  if (!is_on_stack(r)) return;
  switch (class_of(r)) {
    case Class::kGeneral: x_.general(0x89, kRax, slot(r), true); break;
    case Class::kVector: store_vector(vectors_.result(), slot(r)); break;
    default: x_.vector(kStoreMask, 0, 7, -1, slot(r));
  }
}

Place Emitter::place(const Memory& memory) {
  Place place;
  place.kind = Place::kMemory;
  place.scale = memory.scale;
  place.displacement = memory.displacement;
  place.number = memory.number;
  switch (memory.kind) {
    case Memory::kPool:
    case Memory::kSymbol:
      place.kind = Place::kRelative;
      place.in_pool = memory.kind == Memory::kPool;
      return place;
    case Memory::kFrame: place.base = kRsp; break;
    default: place.base = read(memory.base);
  }
  if (memory.index != kNone) place.index = read(memory.index);
  return place;
}

// The last operand: a register, memory, or a spilled value as memory.
Place Emitter::last(const Op& op) {
  if (op.memory.kind != Memory::kNothing) return place(op.memory);
  if (class_of(op.b) == Class::kVector && is_on_stack(op.b)) return slot(op.b);
  return Place::of(read(op.b));
}

void Emitter::emit(const Op& op) {
  general_reloads_ = vector_reloads_ = mask_reloads_ = 0;
  switch (op.shape) {
    case Shape::kVector:
    case Shape::kReversed:
    case Shape::kShift:
    case Shape::kStore:
    case Shape::kFlags:
    case Shape::kSigns:
    case Shape::kTied:
    case Shape::kGather:
    case Shape::kScatter: emit_vector(op); break;
    case Shape::kFused:
    case Shape::kFactor: emit_fused(op); break;
    case Shape::kJump: jump(-1, op.number); break;
    case Shape::kJumpIf: jump(op.digit, op.number); break;
    case Shape::kCall: emit_call(op); break;
    case Shape::kReturn: emit_return(op); break;
    case Shape::kParameters: emit_parameters(op); break;
    default: emit_general(op);
  }
}

void Emitter::emit_vector(const Op& op) {
  int immediate = op.has_immediate ? static_cast<int>(op.immediate & 0xff) : -1;
  const int mask = op.mask == kNone ? 0 : read(op.mask);
  auto put = [&](int reg, int vvvv, const Place& rm) {
    x_.vector(op.code, op.length, reg, vvvv, rm, mask, op.zeroes, op.broadcasts, immediate);
  };
  switch (op.shape) {
    case Shape::kVector: {
      if (op.b == kNone && op.memory.kind == Memory::kNothing) {
        // x xor x is zero.
        const int d = written(op.d);
        put(d, d, Place::of(d));
        break;
      }
      const int a = op.a == kNone ? -1 : read(op.a);
      if (op.c != kNone) immediate = read(op.c) << 4;
      const Place b = last(op);
      put(written(op.d), a, b);
      break;
    }
    case Shape::kSigns: put(written(op.d), -1, Place::of(read(op.b))); break;
    case Shape::kReversed: put(read(op.b), -1, Place::of(written(op.d))); break;
    case Shape::kShift: {
      // Only with the EVEX prefix may the operand be memory.
      const Place b = encoding_ == kEvex ? last(op) : Place::of(read(op.b));
      put(op.digit, written(op.d), b);
      break;
    }
    case Shape::kStore:
    case Shape::kScatter: {
      const int a = read(op.a), b = op.b == kNone ? -1 : read(op.b);
      put(a, b, place(op.memory));
      return;
    }
    case Shape::kFlags: {
      const int a = read(op.a);
      put(a, -1, Place::of(read(op.b)));
      return;
    }
    default: {  // kTied, kGather
      const int a = op.a == kNone ? -1 : read(op.a);
      const Place b = last(op);
      const int d = written(op.d);
      if (is_on_stack(op.c)) {
        load_vector(d, slot(op.c));
      } else if (location(op.c).number != d) {
        move_vector(d, location(op.c).number);
      }
      put(d, a, b);
    }
  }
  store(op.d);
}

// Fused multiply-add overwrites one of its operands. By its opcode 0x98, 0xa8 or 0xb8 (or one more,
// of scalars) d = d * c + b, b * d + c or b * c + d: c is the last operand.
void Emitter::emit_fused(const Op& op) {
  Code code = op.code;
  auto put = [&](int opcode, int d, int b, const Place& c) {
    code.opcode = static_cast<uint8_t>(op.code.opcode + opcode);
    x_.vector(code, op.length, d, b, c, 0, false, op.broadcasts);
  };
  auto move = [&](int d, int from) {
    if (d != from) move_vector(d, from);
  };
  const int a = read(op.a);
  if (op.shape == Shape::kFactor) {
    const int c = read(op.c);
    int d = written(op.d);
    if (d == c && d != a) {
      const int aside = vectors_.scratch() + 2;
      move(aside, c);
      move(d, a);
      put(0x00, d, aside, place(op.memory));
    } else {
      move(d, a);
      put(0x00, d, c, place(op.memory));
    }
    store(op.d);
    return;
  }
  const int b = read(op.b);
  const int d = written(op.d);
  if (op.memory.kind != Memory::kNothing) {
    const Place c = place(op.memory);
    if (d == b) {
      put(0x10, d, a, c);
    } else {
      move(d, a);
      put(0x10, d, b, c);
    }
  } else {
    const int c = read(op.c);
    if (d == a) {
      put(0x10, d, b, Place::of(c));
    } else if (d == b) {
      put(0x10, d, a, Place::of(c));
    } else {
      move(d, c);
      put(0x20, d, a, Place::of(b));
    }
  }
  store(op.d);
}

void Emitter::jump(int condition, uint32_t block) {
  if (condition < 0 && following_ == static_cast<int64_t>(block)) return;
  jumps_.emplace_back(x_.jump(condition), block);
}

void emit(Body& body, const Allocation& allocation, ObjectImage& image) {
  Emitter(body, allocation, image).run();
}

}  // namespace kiln::assembler
