// Machine code before register allocation: a list of operations on virtual registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln::assembler {

// Why a text cannot be assembled. Caught in `assembler.cc`: the engine falls back to LLVM for such
// texts.
struct NotUnderstood {
  std::string why;
};

// The microarchitecture level of x86-64 to assemble for.
enum class Level : uint8_t { kV3, kV4 };

// Vector registers of a level: this many hold values, the three after them are for reloads of
// spilled values, and one more is for results.
struct VectorFile {
  int8_t values;
  uint8_t arguments;      // of a call, at most
  uint8_t bytes, length;  // `length` as in `Op`

  int scratch() const { return values; }
  int result() const { return values + 3; }
};

constexpr VectorFile vectors_of(Level level) {
  return level == Level::kV4 ? VectorFile{28, 16, 64, 2} : VectorFile{12, 12, 32, 1};
}

using Register = int32_t;  // virtual
constexpr Register kNone = -1;

enum class Class : uint8_t { kGeneral, kVector, kMask };

// An address: registers, the stack frame, or an offset in the object.
struct Memory {
  enum Kind : uint8_t { kNothing, kRegisters, kFrame, kPool, kSymbol };
  Kind kind = kNothing;
  uint8_t scale = 1;
  Register base = kNone, index = kNone;  // the index may be a vector (gather and scatter)
  int32_t displacement = 0;
  uint32_t number = 0;  // of a constant in the pool, or of a symbol
};

// Operand encodings of operations. `d` is written, `a`, `b` and `c` are read.
enum class Shape : uint8_t {
  // Instructions with a VEX or EVEX prefix.
  kVector,    // reg = d, vvvv = a if there is one, rm = b or memory; c in the immediate (blends)
  kReversed,  // rm = d, reg = b
  kShift,     // vvvv = d, reg = a digit, rm = b
  kStore,     // reg = a, vvvv = b if there is one, rm = memory
  kFused,     // d = a * b + c, where c may be memory
  kFactor,    // d = a * memory + c
  kTied,      // reg = d, which holds c before; vvvv = a, rm = b or memory
  kGather,    // as kTied, with memory at vectors; the mask is destroyed
  kScatter,   // memory at vectors = a; the mask is destroyed
  kFlags,     // reg = a, rm = b: sets only flags
  kSigns,     // reg = d, rm = b, which cannot be memory
  // Instructions on general-purpose registers; `width` is in bytes.
  kMove,         // d = b
  kImmediate,    // d = immediate
  kAddress,      // d = address of memory
  kArithmetic,   // d = a op (b or immediate): `digit` is the operation
  kMultiply,     // d = a * (b or immediate)
  kShiftNumber,  // d = a shifted by immediate: `digit`
  kUnary,        // d = op a: `digit` 2 complements, 3 negates
  kExtend,       // d = b, extended from `width` bytes to eight: `digit` 1 with the sign
  kLoad,         // d = memory, extended from `width` bytes: `digit` 1 with the sign
  kPut,          // memory = a, or the immediate, of `width` bytes
  kCompare,      // flags of a - (b or immediate)
  kTest,         // flags of a & (b or immediate)
  kSet,          // d = condition `digit` of a - (b or immediate)
  kChoose,       // d = a if condition `digit`, else b
  kCount,        // d = population count of a; `digit` 1: leading zeros
  kDivide,       // d = a / b: `digit` 1 signed, 2 the remainder
  // Control.
  kJump,        // to block `number`
  kJumpIf,      // on condition `digit` to block `number`
  kCall,        // of symbol `number`; `first` and `count` are arguments, `results` follow them
  kReturn,      // `first` and `count` are the returned values
  kParameters,  // `first` and `count` are the parameters
};

constexpr uint8_t kLegacy = 0, kVex = 1, kEvex = 2;

// An instruction: opcode, its prefix (0: none, 1: 66, 2: F3, 3: F2), its map (1: 0F, 2: 0F38,
// 3: 0F3A), W and the encoding.
struct Code {
  uint8_t opcode = 0, prefix = 0, map = 1, w = 0, encoding = kEvex;
};

struct Op {
  Shape shape;
  Code code{};
  uint8_t length = 0;  // of vectors: 0 for 16 bytes, 1 for 32, 2 for 64; bit L of masks
  uint8_t digit = 0, width = 8;
  bool zeroes = false;      // zero masked-out lanes; otherwise keep them
  bool broadcasts = false;  // memory operand is broadcast
  bool has_immediate = false;
  bool is_early = false;    // writes d before all operands are read
  bool has_effect = false;  // must stay if d is not read
  Register d = kNone, a = kNone, b = kNone, c = kNone, mask = kNone;
  Memory memory{};
  int64_t immediate = 0;
  uint32_t number = 0, first = 0;
  uint16_t count = 0, results = 0;
};

// Conditions of jumps.
constexpr uint8_t kBelow = 2, kNotBelow = 3, kEqual = 4, kNotEqual = 5, kNotAbove = 6, kAbove = 7,
                  kLess = 12, kNotLess = 13, kNotGreater = 14, kGreater = 15;

struct Block {
  uint32_t first = 0, end = 0;  // its operations, except the copies at its end
  uint32_t last = 0;            // position of its first jump
  bool is_placed = false;
  std::vector<uint32_t> copies;
  std::vector<Register> carried;  // into the next iteration of a loop, by these copies
};

// A function over virtual registers.
struct Body {
  Level level = Level::kV4;
  std::vector<Op> ops;
  std::vector<Register> lists;   // arguments and results of calls
  std::vector<Class> classes;    // of registers
  std::vector<Register> hints;   // the register to coalesce with, if possible
  std::vector<Block> blocks;     // in the order of the text
  std::vector<uint32_t> placed;  // numbers of blocks, in the order of the text
  int64_t frame = 0;             // stack bytes that the text allocates
  bool calls = false;
  bool returns_vector = false;

  Register fresh(Class of, Register hint = kNone) {
    if (of == Class::kMask && level != Level::kV4) throw NotUnderstood{"a mask register"};
    classes.push_back(of);
    hints.push_back(hint);
    return static_cast<Register>(classes.size() - 1);
  }
};

// The location of a register.
struct Location {
  static constexpr int16_t kUnused = -1, kStack = -2;
  int16_t number = kUnused;
  int32_t slot = 0;  // on the stack
};

struct Allocation {
  std::vector<Location> of;
  std::vector<uint32_t> order;   // operations in the order of execution
  std::vector<uint32_t> starts;  // per block in `placed`: its position in `order`
  // Registers saved around a call, by the position of the call in `order`.
  struct Kept {
    uint32_t call;
    Register of;
    int32_t slot;
  };
  std::vector<Kept> kept;
  int64_t frame = 0;
  uint32_t saved = 0;  // callee-saved registers in use: a bit each
};

Allocation allocate(Body& body);

}  // namespace kiln::assembler
