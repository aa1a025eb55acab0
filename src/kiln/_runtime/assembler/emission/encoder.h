// Encodes x86-64 instructions. Registers are hardware numbers.
#pragma once

#include <cstdint>

#include "assembler/emission/machine.h"
#include "assembler/emission/object_image.h"

namespace kiln::assembler {

// Physical registers.
constexpr int kRax = 0, kRcx = 1, kRdx = 2, kRbx = 3, kRsp = 4, kRbp = 5, kRsi = 6, kRdi = 7;

// The register-or-memory operand.
struct Place {
  enum Kind : uint8_t { kRegister, kMemory, kRelative };
  Kind kind = kRegister;
  uint8_t scale = 1;
  bool in_pool = false;
  int base = -1;  // or the register
  int index = -1;
  int32_t displacement = 0;
  uint32_t number = 0;  // of the symbol or constant

  static Place of(int number) {
    Place place;
    place.base = number;
    return place;
  }
  static Place at(int base, int32_t displacement) {
    Place place;
    place.kind = kMemory;
    place.base = base;
    place.displacement = displacement;
    return place;
  }
};

class Encoder {
 public:
  explicit Encoder(ObjectImage& image) : image_(image) {}

  // `length` and what follows `rm` are those of `Op`; `vvvv` is -1 if there is none.
  void vector(Code code, int length, int reg, int vvvv, const Place& rm, int mask = 0,
              bool zeroes = false, bool broadcasts = false, int immediate = -1);
  // An opcode of up to two bytes (0F and another); `rest` bytes follow as an immediate.
  void general(int opcode, int reg, const Place& rm, bool wide, int rest = 0, bool is_byte = false,
               int prefix = 0);
  void byte(int n) { image_.code += static_cast<char>(n); }
  void immediate(int64_t n, int bytes);
  size_t at() const { return image_.code.size(); }
  // Jumps: the position of their displacement.
  size_t jump(int condition);
  void set_distance(size_t at, size_t to);

 private:
  void vex(Code code, int length, int reg, int vvvv, const Place& rm);
  void operand(int reg, const Place& rm, int rest, bool is_scaled);

  ObjectImage& image_;
};

}  // namespace kiln::assembler
