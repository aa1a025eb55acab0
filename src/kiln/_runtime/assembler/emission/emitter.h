// Encodes operations whose registers are allocated.
//
// A spilled value is reloaded before the operation that reads it, and stored after the one that
// computes it: some registers are reserved for that.
#pragma once

#include <vector>

#include "assembler/emission/encoder.h"
#include "assembler/emission/machine.h"
#include "assembler/emission/object_image.h"

namespace kiln::assembler {

constexpr int kArguments[] = {kRdi, kRsi, kRdx, kRcx, 8, 9};
constexpr int kSavedRegisters[] = {kRbx, 12, 13, 14, 15};
inline constexpr Code kMoveMask{0x90, 0, 1, 1, kVex};  // kmovq
inline constexpr Code kStoreMask{0x91, 0, 1, 1, kVex};
inline constexpr Code kClearUpper{0x77, 0, 1, 0, kVex};

class Emitter {
 public:
  Emitter(Body& body, const Allocation& allocation, ObjectImage& image)
      : body_(body),
        allocation_(allocation),
        image_(image),
        x_(image),
        vectors_(vectors_of(body.level)),
        encoding_(body.level == Level::kV4 ? kEvex : kVex) {}
  void run();

 private:
  int64_t block_at(size_t next, size_t i) const;

  // The stack frame.
  void begin();
  void finish();
  void push(int r);
  void pop(int r);

  // Register locations.

  const Location& location(Register r) const { return allocation_.of[static_cast<size_t>(r)]; }
  Class class_of(Register r) const { return body_.classes[static_cast<size_t>(r)]; }
  bool is_on_stack(Register r) const { return location(r).number == Location::kStack; }
  Place slot(Register r) const { return Place::at(kRsp, location(r).slot); }
  // Moves of whole vectors.
  void move_vector(int d, int from) { whole(0x28, d, Place::of(from)); }  // vmovaps
  void load_vector(int d, const Place& from) { whole(0x10, d, from); }    // vmovups
  void store_vector(int from, const Place& to) { whole(0x11, from, to); }
  void whole(int opcode, int reg, const Place& rm) {
    x_.vector({static_cast<uint8_t>(opcode), 0, 1, 0, encoding_}, vectors_.length, reg, -1, rm);
  }
  int read(Register r);
  int written(Register r) const;
  void store(Register r);
  Place place(const Memory& memory);
  Place last(const Op& op);

  // Operations.
  void emit(const Op& op);
  void emit_vector(const Op& op);
  void emit_fused(const Op& op);
  void move(int to, int from);
  void number(int to, int64_t n);
  void with_number(int digit, int r, int64_t n, bool wide);
  void compare(const Op& op);
  void emit_general(const Op& op);
  void emit_arithmetic(const Op& op);
  void jump(int condition, uint32_t block);

  // A parallel move. A location is a register, or a stack slot (from kSlots on).
  static constexpr int kSlots = 64;
  struct Move {
    int to, from;
  };

  int where(Register r) const;
  void move_one(Class of, int to, int from);
  void move_all(Class of, std::vector<Move>& moves);
  void pass(uint32_t first, uint32_t count, bool out);
  void keep(size_t first, size_t end, bool out);
  void emit_call(const Op& op);
  // vzeroupper has no operands.
  void drop_operand() { image_.code.pop_back(); }
  void emit_return(const Op& op);
  void emit_parameters(const Op& op) { pass(op.first, op.count, false); }

  Body& body_;
  const Allocation& allocation_;
  ObjectImage& image_;
  Encoder x_;
  const VectorFile vectors_;
  const uint8_t encoding_;  // of vector instructions
  std::vector<std::pair<size_t, uint32_t>> jumps_;
  std::vector<size_t> places_;
  int64_t following_ = -1;
  uint32_t place_ = 0;  // of an operation, by position
  size_t kept_ = 0;     // how many of `Allocation::kept` are done
  // Spilled values that the present operation has reloaded.
  int general_reloads_ = 0, vector_reloads_ = 0, mask_reloads_ = 0;
  bool has_frame_ = false;
};

}  // namespace kiln::assembler
