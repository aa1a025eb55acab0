#include "assembler/emission/encoder.h"

#include <cstring>

namespace kiln::assembler {

void Encoder::immediate(int64_t n, int bytes) {
  image_.code.append(reinterpret_cast<const char*>(&n), static_cast<size_t>(bytes));
}

void Encoder::vector(Code code, int length, int reg, int vvvv, const Place& rm, int mask,
                     bool zeroes, bool broadcasts, int immediate) {
  if (code.encoding == kVex) {
    vex(code, length, reg, vvvv, rm);
  } else {
    const bool is_register = rm.kind == Place::kRegister;
    const int high = is_register ? rm.base >> 4 : rm.index >= 0 ? rm.index >> 3 & 1 : 0;
    const int low = rm.base >= 0 ? rm.base >> 3 & 1 : 0;
    const int v = vvvv < 0 ? 0 : vvvv;
    // The fifth bit of a vector index is in the place of that of vvvv.
    const int fifth = !is_register && rm.index >= 16 ? 1 : v >> 4;
    byte(0x62);
    byte((~reg >> 3 & 1) << 7 | (~high & 1) << 6 | (~low & 1) << 5 | (~reg >> 4 & 1) << 4 |
         code.map);
    byte(code.w << 7 | (~v & 15) << 3 | 4 | code.prefix);
    byte((zeroes ? 0x80 : 0) | length << 5 | (broadcasts ? 0x10 : 0) | (~fifth & 1) << 3 | mask);
  }
  byte(code.opcode);
  operand(reg, rm, immediate >= 0 ? 1 : 0, code.encoding == kEvex);
  if (immediate >= 0) byte(immediate);
}

void Encoder::vex(Code code, int length, int reg, int vvvv, const Place& rm) {
  const int index = rm.kind != Place::kRegister && rm.index >= 0 ? rm.index >> 3 & 1 : 0;
  const int base = rm.base >= 0 ? rm.base >> 3 & 1 : 0;
  const int v = vvvv < 0 ? 0 : vvvv;
  byte(0xc4);
  byte((~reg >> 3 & 1) << 7 | (~index & 1) << 6 | (~base & 1) << 5 | code.map);
  byte(code.w << 7 | (~v & 15) << 3 | length << 2 | code.prefix);
}

void Encoder::general(int opcode, int reg, const Place& rm, bool wide, int rest, bool is_byte,
                      int prefix) {
  if (prefix != 0) byte(prefix);
  const int index = rm.kind != Place::kRegister && rm.index >= 0 ? rm.index >> 3 & 1 : 0;
  const int base = rm.base >= 0 ? rm.base >> 3 & 1 : 0;
  const int rex = (wide ? 8 : 0) | (reg >> 3 & 1) << 2 | index << 1 | base;
  // Without the prefix, the encodings of some low bytes mean the high bytes of other registers.
  if (rex != 0 || is_byte) byte(0x40 | rex);
  if (opcode > 0xff) byte(opcode >> 8);
  byte(opcode & 0xff);
  operand(reg, rm, rest, false);
}

// The register and the register-or-memory operand. One-byte displacements of vectors are scaled by
// the vector length; four-byte ones always work.
void Encoder::operand(int reg, const Place& rm, int rest, bool is_scaled) {
  const int low = (reg & 7) << 3;
  if (rm.kind == Place::kRegister) {
    byte(0xc0 | low | (rm.base & 7));
    return;
  }
  if (rm.kind == Place::kRelative) {
    byte(low | 5);
    image_.refer({static_cast<uint32_t>(at()), static_cast<uint32_t>(rest), rm.in_pool, rm.number});
    immediate(0, 4);
    return;
  }
  const int32_t d = rm.displacement;
  const bool is_short = !is_scaled && d >= -128 && d <= 127;
  const bool has_none = d == 0 && (rm.base & 7) != kRbp;
  const int mode = has_none ? 0 : is_short ? 0x40 : 0x80;
  if (rm.index >= 0 || (rm.base & 7) == kRsp) {
    const int scale = rm.scale == 8 ? 3 : rm.scale == 4 ? 2 : rm.scale == 2 ? 1 : 0;
    const int index = rm.index >= 0 ? rm.index & 7 : 4;
    byte(mode | low | 4);
    byte(scale << 6 | index << 3 | (rm.base & 7));
  } else {
    byte(mode | low | (rm.base & 7));
  }
  if (!has_none) immediate(d, is_short ? 1 : 4);
}

size_t Encoder::jump(int condition) {
  if (condition < 0) {
    byte(0xe9);
  } else {
    byte(0x0f);
    byte(0x80 | condition);
  }
  immediate(0, 4);
  return at() - 4;
}

void Encoder::set_distance(size_t at, size_t to) {
  const auto distance =
      static_cast<int32_t>(static_cast<int64_t>(to) - static_cast<int64_t>(at) - 4);
  std::memcpy(image_.code.data() + at, &distance, sizeof distance);
}

}  // namespace kiln::assembler
