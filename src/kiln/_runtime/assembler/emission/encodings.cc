// The table of encodings.
#include "assembler/emission/encodings.h"

#include <array>

namespace kiln::assembler {
namespace {

constexpr uint8_t kNoPrefix = 0, k66 = 1, kF3 = 2, kF2 = 3;
constexpr uint8_t k0F = 1, k0F38 = 2, k0F3A = 3;

// What the bit W of EVEX becomes in VEX.
enum W : uint8_t {
  kNoVex,    // only EVEX encodes this
  kDropped,  // sizes of masked or broadcast elements: VEX has neither
  kSame,
  kOnlyShort,  // with the bit set it is another instruction, which VEX cannot encode
};

struct Row {
  uint8_t prefix, map;
  W w;
  std::array<uint8_t, 24> opcodes;  // up to the first 0; a row may start with opcode 0
};

// By prefix, map and what W means.
constexpr Row kRows[] = {
    // Moves, and arithmetic of floats: packed singles, packed doubles, scalars.
    {kNoPrefix,
     k0F,
     kDropped,
     {0x10, 0x11, 0x28, 0x50, 0x51, 0x58, 0x59, 0x5a, 0x5c, 0x5d, 0x5e, 0x5f, 0xc2}},
    {k66,
     k0F,
     kDropped,
     {0x10, 0x11, 0x28, 0x50, 0x51, 0x58, 0x59, 0x5a, 0x5c, 0x5d, 0x5e, 0x5f, 0xc2}},
    {kF3, k0F, kDropped, {0x10, 0x11, 0x51, 0x58, 0x59, 0x5a, 0x5c, 0x5d, 0x5e, 0x5f, 0xc2}},
    {kF2, k0F, kDropped, {0x10, 0x11, 0x51, 0x58, 0x59, 0x5a, 0x5c, 0x5d, 0x5e, 0x5f, 0xc2}},
    // Conversions between floats and integers; W selects long integers.
    {kNoPrefix, k0F, kOnlyShort, {0x5b}},
    {k66, k0F, kDropped, {0xe6}},
    {kF3, k0F, kOnlyShort, {0x5b, 0xe6}},
    {kF3, k0F, kSame, {0x2a, 0x2c}},
    {kF2, k0F, kSame, {0x2a, 0x2c}},
    {k66, k0F38, kOnlyShort, {0x13}},
    {k66, k0F3A, kOnlyShort, {0x1d}},
    // Moves between registers of two kinds, and of parts of vectors.
    {k66, k0F, kSame, {0x6e, 0x7e}},
    {kF3, k0F, kDropped, {0x7e}},
    {k66, k0F, kDropped, {0xc4, 0xd6, 0xd7}},
    {k66, k0F3A, kOnlyShort, {0x14, 0x15, 0x20, 0x38, 0x39}},
    // Integers: unpack, pack, compare, add, subtract, multiply, shift, combine bits, extremes.
    {k66, k0F, kDropped, {0x60, 0x61, 0x62, 0x63, 0x6c, 0x71, 0x73, 0x74, 0x75, 0x76,
                          0xd4, 0xd5, 0xda, 0xdb, 0xde, 0xdf, 0xea, 0xeb, 0xee, 0xef}},
    {k66,
     k0F,
     kDropped,
     {0x64, 0x65, 0x66, 0xf4, 0xf5, 0xf6, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe}},
    {k66, k0F, kOnlyShort, {0x72}},
    {k66, k0F38, kDropped, {0x00, 0x04, 0x29, 0x37, 0x1c, 0x1d, 0x38, 0x3a, 0x3c, 0x3e}},
    {k66, k0F38, kOnlyShort, {0x1e, 0x39, 0x3b, 0x3d, 0x3f, 0x40, 0x46}},
    {k66, k0F38, kSame, {0x45, 0x47}},
    // Widening, by sign or zeros; numbers in all lanes.
    {k66,
     k0F38,
     kDropped,
     {0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x58, 0x59, 0x78,
      0x79}},
    {k66, k0F3A, kSame, {0x00, 0x16, 0x22}},
    // Multiply-add, gather, rounding.
    {k66, k0F38, kSame, {0x90, 0x91, 0x92, 0x93, 0x98, 0x99}},
    {k66, k0F3A, kDropped, {0x08, 0x09, 0x0a, 0x0b}},
};

constexpr size_t place_of(int prefix, int map, int opcode) {
  return static_cast<size_t>((map << 2 | prefix) << 8 | opcode);
}

constexpr std::array<uint8_t, 16 << 8> by_opcode() {
  std::array<uint8_t, 16 << 8> found{};
  for (const Row& row : kRows) {
    for (size_t i = 0; i < row.opcodes.size() && (i == 0 || row.opcodes[i] != 0); ++i) {
      found[place_of(row.prefix, row.map, row.opcodes[i])] = row.w;
    }
  }
  return found;
}

constexpr auto kByOpcode = by_opcode();

}  // namespace

void to_vex(Op& op) {
  if (op.shape > Shape::kSigns || op.code.encoding != kEvex) return;
  const uint8_t w = kByOpcode[place_of(op.code.prefix, op.code.map, op.code.opcode)];
  if (w == kNoVex || (w == kOnlyShort && op.code.w != 0) || op.mask != kNone || op.broadcasts ||
      op.zeroes || op.length > vectors_of(Level::kV3).length) {
    throw NotUnderstood{"an instruction that only x86-64-v4 has"};
  }
  if (w == kDropped) op.code.w = 0;
  op.code.encoding = kVex;
}

}  // namespace kiln::assembler
