// Operations whose registers are chosen, as bytes.
#include <algorithm>
#include <cstring>

#include "encoder.h"
#include "object_image.h"
#include "operands.h"

namespace kiln::assembler {
namespace {

constexpr int kVectorScratch = 28;  // and those after it; the last is for results
constexpr int kVectorResult = 31;
constexpr int kArguments[] = {kRdi, kRsi, kRdx, kRcx, 8, 9};
constexpr int kSavedRegisters[] = {kRbx, 12, 13, 14, 15};
constexpr Code kMoveVector{0x28, 0, 1, 0, kEvex};       // vmovaps
constexpr Code kLoadVector{0x10, 0, 1, 0, kEvex};       // vmovups
constexpr Code kStoreVector{0x11, 0, 1, 0, kEvex};
constexpr Code kMoveMask{0x90, 0, 1, 1, kVex};          // kmovq
constexpr Code kStoreMask{0x91, 0, 1, 1, kVex};
constexpr Code kClearUpper{0x77, 0, 1, 0, kVex};

class Emitter {
 public:
  Emitter(Body& body, const Allocation& allocation, ObjectImage& image)
      : body_(body), allocation_(allocation), image_(image), x_(image) {}

  void run() {
    begin();
    size_t next = 0;
    places_.assign(body_.blocks.size(), 0);
    for (size_t i = 0; i < allocation_.order.size(); ++i) {
      while (next < allocation_.starts.size() && allocation_.starts[next] == i) {
        places_[body_.placed[next++]] = x_.at();
      }
      const Op& op = body_.ops[allocation_.order[i]];
      if (op.shape == Shape::kJumpIf && block_at(next, i + 2) == op.number) {
        // The block that follows needs no jump: the other one is jumped to.
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

 private:
  // The block that begins with an operation, if it is the next one; else -1.
  int64_t block_at(size_t next, size_t i) const {
    const bool is_next = next < allocation_.starts.size() && allocation_.starts[next] == i;
    return is_next ? static_cast<int64_t>(body_.placed[next]) : -1;
  }

  // The frame.

  void begin() {
    has_frame_ = allocation_.frame > 0 || body_.calls || allocation_.saved != 0;
    if (!has_frame_) return;
    push(kRbp);
    x_.general(0x8b, kRbp, Place::of(kRsp), true);
    for (int r : kSavedRegisters) {
      if (allocation_.saved >> r & 1) push(r);
    }
    x_.general(0x83, 4, Place::of(kRsp), true, 1);  // and rsp, -64
    x_.byte(0xc0);
    if (allocation_.frame > 0) {
      x_.general(0x81, 5, Place::of(kRsp), true, 4);
      x_.immediate(allocation_.frame, 4);
    }
  }

  void finish() {
    if (has_frame_) {
      int saved = 0;
      for (int r : kSavedRegisters) saved += allocation_.saved >> r & 1;
      x_.general(0x8d, kRsp, Place::at(kRbp, -8 * saved), true);
      for (int i = 4; i >= 0; --i) {
        const int r = kSavedRegisters[i];
        if (allocation_.saved >> r & 1) pop(r);
      }
      pop(kRbp);
    }
    x_.byte(0xc3);
  }

  void push(int r) {
    if (r >= 8) x_.byte(0x41);
    x_.byte(0x50 | (r & 7));
  }
  void pop(int r) {
    if (r >= 8) x_.byte(0x41);
    x_.byte(0x58 | (r & 7));
  }

  // Where registers lie.

  const Location& location(Register r) const { return allocation_.of[static_cast<size_t>(r)]; }
  Class class_of(Register r) const { return body_.classes[static_cast<size_t>(r)]; }
  bool is_on_stack(Register r) const { return location(r).number == Location::kStack; }
  Place slot(Register r) const { return Place::at(kRsp, location(r).slot); }

  // The register of a value that is read, which may have to be fetched.
  int read(Register r) {
    if (!is_on_stack(r)) return location(r).number;
    switch (class_of(r)) {
      case Class::kGeneral: {
        if (generals_ == 3) throw NotUnderstood{"too many values on the stack"};
        const int to = generals_ == 0 ? 10 : generals_ == 1 ? 11 : kRax;
        ++generals_;
        x_.general(0x8b, to, slot(r), true);
        return to;
      }
      case Class::kVector: {
        if (vectors_ == 3) throw NotUnderstood{"too many values on the stack"};
        const int to = kVectorScratch + vectors_++;
        x_.vector(kLoadVector, 2, to, -1, slot(r));
        return to;
      }
      default: {
        if (masks_ == 2) throw NotUnderstood{"too many values on the stack"};
        const int to = 6 + masks_++;
        x_.vector(kMoveMask, 0, to, -1, slot(r));
        return to;
      }
    }
  }

  // The register that a value is to be computed in.
  int written(Register r) const {
    if (!is_on_stack(r)) return location(r).number;
    return class_of(r) == Class::kGeneral  ? kRax
           : class_of(r) == Class::kVector ? kVectorResult
                                           : 7;
  }

  void store(Register r) {
    if (!is_on_stack(r)) return;
    switch (class_of(r)) {
      case Class::kGeneral: x_.general(0x89, kRax, slot(r), true); break;
      case Class::kVector: x_.vector(kStoreVector, 2, kVectorResult, -1, slot(r)); break;
      default: x_.vector(kStoreMask, 0, 7, -1, slot(r));
    }
  }

  Place place(const Memory& memory) {
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

  // The last operand: a register, memory, or a value on the stack as memory.
  Place last(const Op& op) {
    if (op.memory.kind != Memory::kNothing) return place(op.memory);
    if (op.code.encoding == kEvex && class_of(op.b) == Class::kVector && is_on_stack(op.b)) {
      return slot(op.b);
    }
    return Place::of(read(op.b));
  }

  // Operations.

  void emit(const Op& op) {
    generals_ = vectors_ = masks_ = 0;
    switch (op.shape) {
      case Shape::kVector:
      case Shape::kReversed:
      case Shape::kShift:
      case Shape::kStore:
      case Shape::kFlags:
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

  void emit_vector(const Op& op) {
    const int immediate = op.has_immediate ? static_cast<int>(op.immediate & 0xff) : -1;
    const int mask = op.mask == kNone ? 0 : read(op.mask);
    auto put = [&](int reg, int vvvv, const Place& rm) {
      x_.vector(op.code, op.length, reg, vvvv, rm, mask, op.zeroes, op.broadcasts, immediate);
    };
    switch (op.shape) {
      case Shape::kVector: {
        if (op.b == kNone && op.memory.kind == Memory::kNothing) {
          // A number and itself, exclusive: zero.
          const int d = written(op.d);
          put(d, d, Place::of(d));
          break;
        }
        const int a = op.a == kNone ? -1 : read(op.a);
        const Place b = last(op);
        put(written(op.d), a, b);
        break;
      }
      case Shape::kReversed: put(read(op.b), -1, Place::of(written(op.d))); break;
      case Shape::kShift: {
        const Place b = last(op);
        put(op.digit, written(op.d), b);
        break;
      }
      case Shape::kStore:
      case Shape::kScatter: {
        const int a = read(op.a);
        put(a, -1, place(op.memory));
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
          x_.vector(kLoadVector, 2, d, -1, slot(op.c));
        } else if (location(op.c).number != d) {
          x_.vector(kMoveVector, 2, d, -1, Place::of(location(op.c).number));
        }
        put(d, a, b);
      }
    }
    store(op.d);
  }

  // Multiply-add writes one of its operands. By its opcode 0x98, 0xa8 or 0xb8 (or one more, of
  // scalars) d = d * c + b, b * d + c or b * c + d: c is the last operand.
  void emit_fused(const Op& op) {
    Code code = op.code;
    auto put = [&](int opcode, int d, int b, const Place& c) {
      code.opcode = static_cast<uint8_t>(op.code.opcode + opcode);
      x_.vector(code, op.length, d, b, c, 0, false, op.broadcasts);
    };
    auto move = [&](int d, int from) {
      if (d != from) x_.vector(kMoveVector, 2, d, -1, Place::of(from));
    };
    const int a = read(op.a);
    if (op.shape == Shape::kFactor) {
      const int c = read(op.c);
      int d = written(op.d);
      if (d == c && d != a) {
        move(kVectorScratch + 2, c);
        move(d, a);
        put(0x00, d, kVectorScratch + 2, place(op.memory));
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

  void move(int to, int from) {
    if (to != from) x_.general(0x8b, to, Place::of(from), true);
  }

  void number(int to, int64_t n) {
    if (n == static_cast<int64_t>(static_cast<uint32_t>(n))) {
      if (to >= 8) x_.byte(0x41);
      x_.byte(0xb8 | (to & 7));
      x_.immediate(n, 4);
    } else if (n == static_cast<int32_t>(n)) {
      x_.general(0xc7, 0, Place::of(to), true, 4);
      x_.immediate(n, 4);
    } else {
      x_.byte(0x48 | to >> 3);
      x_.byte(0xb8 | (to & 7));
      x_.immediate(n, 8);
    }
  }

  // `op r, immediate`: the opcode is that of numbers of four bytes.
  void with_number(int digit, int r, int64_t n, bool wide) {
    const bool is_short = n >= -128 && n <= 127;
    x_.general(is_short ? 0x83 : 0x81, digit, Place::of(r), wide, is_short ? 1 : 4);
    x_.immediate(n, is_short ? 1 : 4);
  }

  void compare(const Op& op) {
    const int a = read(op.a);
    const bool wide = op.width == 8;
    if (op.has_immediate) {
      with_number(7, a, op.immediate, wide);
    } else {
      x_.general(0x3b, a, Place::of(read(op.b)), wide);
    }
  }

  void emit_general(const Op& op) {
    const bool wide = op.width == 8;
    switch (op.shape) {
      case Shape::kMove: {
        const int b = read(op.b);
        move(written(op.d), b);
        break;
      }
      case Shape::kImmediate: number(written(op.d), op.immediate); break;
      case Shape::kAddress: {
        const Place from = place(op.memory);
        x_.general(0x8d, written(op.d), from, true);
        break;
      }
      case Shape::kArithmetic: emit_arithmetic(op); break;
      case Shape::kMultiply: {
        const int a = read(op.a);
        if (op.has_immediate) {
          x_.general(0x69, written(op.d), Place::of(a), wide, 4);
          x_.immediate(op.immediate, 4);
          break;
        }
        const int b = read(op.b), d = written(op.d);
        if (d == b) {
          x_.general(0x0faf, d, Place::of(a), wide);
        } else {
          move(d, a);
          x_.general(0x0faf, d, Place::of(b), wide);
        }
        break;
      }
      case Shape::kShiftNumber: {
        const int a = read(op.a), d = written(op.d);
        move(d, a);
        x_.general(0xc1, op.digit, Place::of(d), wide, 1);
        x_.byte(static_cast<int>(op.immediate));
        break;
      }
      case Shape::kUnary: {
        const int a = read(op.a), d = written(op.d);
        move(d, a);
        x_.general(0xf7, op.digit, Place::of(d), wide);
        break;
      }
      case Shape::kExtend: {
        const int b = read(op.b), d = written(op.d);
        const bool is_signed = op.digit != 0;
        if (op.width == 4) {
          x_.general(is_signed ? 0x63 : 0x8b, d, Place::of(b), is_signed);
        } else {
          const int opcode = (op.width == 1 ? 0x0fb6 : 0x0fb7) + (is_signed ? 8 : 0);
          x_.general(opcode, d, Place::of(b), true, 0, true);
        }
        break;
      }
      case Shape::kLoad: {
        const Place from = place(op.memory);
        const int d = written(op.d);
        if (op.width >= 4) x_.general(0x8b, d, from, wide);
        else x_.general(op.width == 1 ? 0x0fb6 : 0x0fb7, d, from, false);
        break;
      }
      case Shape::kPut: {
        if (op.has_immediate) {
          const Place to = place(op.memory);
          const int rest = op.width == 8 ? 4 : op.width;
          x_.general(op.width == 1 ? 0xc6 : 0xc7, 0, to, wide, rest, false,
                     op.width == 2 ? 0x66 : 0);
          x_.immediate(op.immediate, rest);
          return;
        }
        const int a = read(op.a);
        const Place to = place(op.memory);
        x_.general(op.width == 1 ? 0x88 : 0x89, a, to, wide, 0, op.width == 1,
                   op.width == 2 ? 0x66 : 0);
        return;
      }
      case Shape::kCompare: compare(op); return;
      case Shape::kTest: {
        const int a = read(op.a);
        x_.general(0x85, a, Place::of(a), wide);
        return;
      }
      case Shape::kSet: {
        compare(op);
        x_.byte(0x0f);
        x_.byte(0x90 | op.digit);
        x_.byte(0xc0);  // al
        x_.general(0x0fb6, written(op.d), Place::of(kRax), false);
        break;
      }
      case Shape::kChoose: {
        const int a = read(op.a), b = read(op.b), d = written(op.d);
        if (d == a) {
          x_.general(0x0f40 | (op.digit ^ 1), d, Place::of(b), true);
        } else {
          move(d, b);
          x_.general(0x0f40 | op.digit, d, Place::of(a), true);
        }
        break;
      }
      case Shape::kCount: {
        const int a = read(op.a);
        x_.general(op.digit ? 0x0fbd : 0x0fb8, written(op.d), Place::of(a), wide, 0, false, 0xf3);
        break;
      }
      case Shape::kDivide: {
        const int a = read(op.a), b = read(op.b);
        move(11, b == 11 ? 11 : b);
        move(kRax, a);
        move(10, kRdx);
        if (op.digit & 1) {
          if (wide) x_.byte(0x48);
          x_.byte(0x99);  // the sign into rdx
        } else {
          number(kRdx, 0);
        }
        x_.general(0xf7, op.digit & 1 ? 7 : 6, Place::of(11), wide);
        if (op.digit & 2) move(kRax, kRdx);
        move(kRdx, 10);
        move(written(op.d), kRax);
        break;
      }
      default: throw NotUnderstood{"an operation of another kind"};
    }
    store(op.d);
  }

  void emit_arithmetic(const Op& op) {
    const bool wide = op.width == 8;
    const int a = read(op.a), add = 0, subtract = 5;
    if (op.has_immediate) {
      const int d = written(op.d);
      if (op.digit == add && d != a) {
        x_.general(0x8d, d, Place::at(a, static_cast<int32_t>(op.immediate)), wide);
        store(op.d);
        return;
      }
      move(d, a);
      with_number(op.digit, d, op.immediate, wide);
      store(op.d);
      return;
    }
    const int b = read(op.b), d = written(op.d);
    const int opcode = op.digit << 3 | 3;
    if (d == b && d != a) {
      if (op.digit == subtract) {
        x_.general(0xf7, 3, Place::of(d), wide);
        x_.general(0x03, d, Place::of(a), wide);
      } else {
        x_.general(opcode, d, Place::of(a), wide);
      }
    } else {
      move(d, a);
      x_.general(opcode, d, Place::of(b), wide);
    }
    store(op.d);
  }

  void jump(int condition, uint32_t block) {
    if (condition < 0 && following_ == static_cast<int64_t>(block)) return;
    jumps_.emplace_back(x_.jump(condition), block);
  }

  // Several values move at once. A place is a register, or a slot on the stack (from kSlots on).
  static constexpr int kSlots = 64;
  struct Move {
    int to, from;
  };

  int where(Register r) const {
    const Location& at = location(r);
    return at.number >= 0 ? at.number : kSlots + at.slot;
  }

  void move_one(Class of, int to, int from) {
    if (to == from) return;
    const bool is_general = of == Class::kGeneral;
    const int register_ = to >= kSlots ? from : to;
    const Place other = to >= kSlots     ? Place::at(kRsp, to - kSlots)
                        : from >= kSlots ? Place::at(kRsp, from - kSlots)
                                         : Place::of(from);
    if (is_general) x_.general(to >= kSlots ? 0x89 : 0x8b, register_, other, true);
    else x_.vector(to >= kSlots ? kStoreVector : kLoadVector, 2, register_, -1, other);
  }

  void move_all(Class of, std::vector<Move>& moves) {
    const int spare = of == Class::kGeneral ? kRax : kVectorResult;
    while (!moves.empty()) {
      bool has_moved = false;
      for (size_t i = 0; i < moves.size(); ++i) {
        const int to = moves[i].to;
        const bool is_read = std::any_of(moves.begin(), moves.end(), [&](const Move& other) {
          return &other != &moves[i] && other.from == to;
        });
        if (is_read) continue;
        move_one(of, to, moves[i].from);
        moves.erase(moves.begin() + static_cast<std::ptrdiff_t>(i));
        has_moved = true;
        break;
      }
      if (has_moved) continue;
      // All that is left goes round in circles.
      const int from = moves.front().from;
      move_one(of, spare, from);
      for (Move& each : moves) {
        if (each.from == from) each.from = spare;
      }
    }
  }

  // Move registers to or from where functions are given them.
  void pass(uint32_t first, uint32_t count, bool out) {
    std::vector<Move> generals, vectors;
    for (uint32_t i = 0; i < count; ++i) {
      const Register r = body_.lists[first + i];
      const bool is_general = class_of(r) == Class::kGeneral;
      auto& moves = is_general ? generals : vectors;
      const size_t n = moves.size();
      if (n >= (is_general ? std::size(kArguments) : 16)) {
        throw NotUnderstood{"a function of many arguments"};
      }
      moves.push_back({is_general ? kArguments[n] : static_cast<int>(n), where(r)});
      if (!out) std::swap(moves.back().to, moves.back().from);
      // What nobody reads has no place.
      if (!out && location(r).number == Location::kUnused) moves.back().to = -1;
    }
    for (auto* moves : {&generals, &vectors}) {
      moves->erase(std::remove_if(moves->begin(), moves->end(),
                                  [](const Move& each) { return each.to < 0; }),
                   moves->end());
    }
    move_all(Class::kGeneral, generals);
    move_all(Class::kVector, vectors);
  }

  // What lives on is put on the stack, or fetched from there.
  void keep(size_t first, size_t end, bool out) {
    for (size_t i = first; i < end; ++i) {
      const Allocation::Kept& each = allocation_.kept[i];
      const Location& at = location(each.of);
      // It may have been given a place there for all of its life.
      if (at.number < 0) continue;
      const bool is_vector = class_of(each.of) == Class::kVector;
      x_.vector(is_vector ? (out ? kStoreVector : kLoadVector) : out ? kStoreMask : kMoveMask,
                is_vector ? 2 : 0, at.number, -1, Place::at(kRsp, each.slot));
    }
  }

  void emit_call(const Op& op) {
    const auto& kept = allocation_.kept;
    const size_t first = kept_;
    while (kept_ < kept.size() && kept[kept_].call == place_) ++kept_;
    keep(first, kept_, true);
    pass(op.first, op.count, true);
    const bool is_here = image_.is_defined(op.number) || op.digit != 0;
    if (!is_here) x_.vector(kClearUpper, 0, 0, -1, Place::of(0), 0), drop_operand();
    x_.byte(0xe8);
    image_.refer({static_cast<uint32_t>(x_.at()), 0, false, op.number});
    x_.immediate(0, 4);
    std::vector<Move> vectors;
    for (uint32_t i = 0; i < op.results; ++i) {
      const Register r = body_.lists[op.first + op.count + i];
      if (location(r).number == Location::kUnused) continue;
      if (class_of(r) == Class::kGeneral) move_one(Class::kGeneral, where(r), kRax);
      else vectors.push_back({where(r), static_cast<int>(i)});
    }
    move_all(Class::kVector, vectors);
    keep(first, kept_, false);
  }

  // vzeroupper has no operands.
  void drop_operand() { image_.code.pop_back(); }

  void emit_return(const Op& op) {
    if (op.count > 0 && class_of(body_.lists[op.first]) == Class::kGeneral) {
      move_one(Class::kGeneral, kRax, where(body_.lists[op.first]));
    } else {
      pass(op.first, op.count, true);
    }
    if (!body_.returns_vector) {
      x_.vector(kClearUpper, 0, 0, -1, Place::of(0));
      drop_operand();
    }
    finish();
  }

  void emit_parameters(const Op& op) { pass(op.first, op.count, false); }

  Body& body_;
  const Allocation& allocation_;
  ObjectImage& image_;
  Encoder x_;
  std::vector<std::pair<size_t, uint32_t>> jumps_;
  std::vector<size_t> places_;
  int64_t following_ = -1;
  uint32_t place_ = 0;  // of an operation in the order
  size_t kept_ = 0;     // so many of `Allocation::kept` are done
  int generals_ = 0, vectors_ = 0, masks_ = 0;
  bool has_frame_ = false;
};

}  // namespace

void emit(Body& body, const Allocation& allocation, ObjectImage& image) {
  Emitter(body, allocation, image).run();
}

}  // namespace kiln::assembler
