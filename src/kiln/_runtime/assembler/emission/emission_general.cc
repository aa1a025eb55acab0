// Encodes operations on general-purpose registers.
#include "assembler/emission/emitter.h"

namespace kiln::assembler {

void Emitter::move(int to, int from) {
  if (to != from) x_.general(0x8b, to, Place::of(from), true);
}

void Emitter::number(int to, int64_t n) {
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

// `op r, immediate`: the opcode is the four-byte form.
void Emitter::with_number(int digit, int r, int64_t n, bool wide) {
  const bool is_short = n >= -128 && n <= 127;
  x_.general(is_short ? 0x83 : 0x81, digit, Place::of(r), wide, is_short ? 1 : 4);
  x_.immediate(n, is_short ? 1 : 4);
}

void Emitter::compare(const Op& op) {
  const int a = read(op.a);
  const bool wide = op.width == 8;
  if (op.has_immediate) {
    with_number(7, a, op.immediate, wide);
  } else {
    x_.general(0x3b, a, Place::of(read(op.b)), wide);
  }
}

void Emitter::emit_general(const Op& op) {
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
        x_.general(op.width == 1 ? 0xc6 : 0xc7, 0, to, wide, rest, false, op.width == 2 ? 0x66 : 0);
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

void Emitter::emit_arithmetic(const Op& op) {
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

}  // namespace kiln::assembler
