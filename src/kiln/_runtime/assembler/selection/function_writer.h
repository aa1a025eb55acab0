// One function: translates the instructions of the text into operations on virtual registers.
//
// A vector is one or more *pieces*, each of at most a register (64 bytes for x86-64-v4, 32 for
// x86-64-v3) and all of one size. A mask of up to 64 lanes is one register; bits beyond the last
// lane are zero. The upper bits of integers narrower than 32 bits are undefined; truth values are 0
// or 1.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "assembler/emission/encodings.h"
#include "assembler/emission/object_image.h"
#include "assembler/selection/reader.h"

namespace kiln::assembler {

// A vector in registers.
struct Pieces {
  int count, lanes, bytes, length;  // number of pieces; of each: lanes, bytes, and `Op::length`
};

class FunctionWriter {
 public:
  FunctionWriter(Reader& text, ObjectImage& image, const std::unordered_set<std::string_view>& here,
                 Level level)
      : text_(text), image_(image), here_(here) {
    body_.level = level;
  }

  // Parse a function, from its result type on, and append its code.
  void write();

 private:
  // Lanes of a mask as a vector, computed in a block.
  struct Spread {
    int size, first, lanes;
    uint32_t block;
    Register in;
  };

  struct Value {
    enum Kind : uint8_t { kUnknown, kRegisters, kConstant, kAddress, kAddresses, kFirstLane };
    Kind kind = kUnknown;
    Type type{};
    std::vector<Register> pieces{};  // kAddresses: numbers to add to the address
    Operand constant{};              // also available in the first lane
    Memory memory{};
    Register root = kNone;  // this value is `root` + `added`
    int64_t added = 0;
    // A scalar comparison, to be repeated where a jump depends on it.
    Register left = kNone, right = kNone;
    int64_t limit = 0;
    uint8_t condition = 0, width = 0;
    Register tested = kNone;  // whether any lane of a mask is set
    // For x86-64-v3, a mask as the vectors from which it was computed, of elements of some bits;
    // and as others.
    std::vector<Register> wide{};
    int wide_bits = 0;
    std::vector<Spread> spreads{};
  };

  // An incoming value of a phi.
  struct Arm {
    std::vector<Register> to;
    Operand from;
    std::string_view label;
    uint32_t block;  // of the phi
  };

  // control.cc
  void parameters();
  void block(std::string_view label);
  uint32_t block_of(std::string_view label);
  void end_block();
  void instruction();
  void named(std::string_view name);
  void branch();
  void switch_();
  void return_();
  void call(std::string_view result);
  void call_function(Type type, std::string_view name, std::string_view result);
  void copy_memory();
  void phi(std::string_view name);
  void fill_phis();
  void jump(uint32_t block);
  void jump_if(uint8_t condition, uint32_t block);

  bool is_v4() const { return body_.level == Level::kV4; }

  // values.cc
  Pieces pieces_of(const Type& type) const;
  Value& value(const Operand& operand);
  Value& define(std::string_view name, Type type);
  void define(std::string_view name, Type type, std::vector<Register> pieces);
  void alias(std::string_view name, const Value& value);
  Op& add(Op op);
  Register constant(Type type, uint64_t bits);
  Register lanes(const Operand& operand, int piece);
  Memory pool(std::string_view bytes);
  Memory pool_number(uint64_t bits, int bytes);
  void in_all_lanes(Op& op, uint64_t bits, int size);
  const Operand& known(const Operand& operand);
  Register read(const Operand& operand, int piece = 0);
  std::vector<Register> read_all(const Operand& operand);
  Register extended(const Operand& operand, bool is_signed);
  bool last(Op& op, const Operand& operand, int piece);
  Operand given(Type type, std::vector<Register> pieces);
  Register address(const Memory& memory);
  Memory memory(const Operand& operand);
  Register vector(Code code, int length, Register a, Register b);
  Register vector_of(Code code, int length, Register b, int immediate = -1);
  Register reversed(Code code, int length, Register b, int immediate = -1);
  Register part(Register of, int bytes, int at, int size);
  std::vector<Register> joined(std::vector<Register> parts, int bytes, int wanted);

  // masks.cc
  Class mask_class() const;
  Register as_mask(Register number, bool is_long);
  Register as_number(Register mask, bool is_long);
  Register mask_constant(uint64_t bits);
  Register mask_part(const Operand& mask, int at, int lanes);
  std::vector<Register> masks_joined(std::vector<Register> parts, int lanes, int all);
  Register cleaned(Register mask, int lanes);
  Register shifted_mask(Register mask, int by, bool left);
  Register combined_mask(uint8_t opcode, Register a, Register b);
  void define_truths(std::string_view name, const Type& compared, std::vector<Register> parts);
  std::vector<Register> bits_of(const std::vector<Register>& wide, const Type& type);
  Register spread(const Operand& mask, int size, int first, int lanes, bool is_clean = false);
  Register spread_bits(Register bits, int size, int lanes);
  Register spread_scalar(const Operand& truth, int size);
  Register blended(int size, int length, Register mask, Register yes, Register no);
  std::vector<Register> wide_of_both(std::string_view op, const Operand& x, const Operand& y,
                                     int& size);

  // sequences.cc
  Register with_lanes(Code code, int length, Register a, uint64_t bits, int bytes);
  Register shifted(Register of, int length, int size, int by, bool is_left);
  Register long_product(int length, Register a, Register b);
  Register long_right_shift(int length, Register of, const Operand& by, int piece);
  Register equal(int size, int length, Register a, Register b);
  Register greater(int size, int length, Register a, Register b, bool is_signed);
  Register long_extreme(int length, Register a, Register b, bool is_signed, bool is_most);
  Register long_absolute(int length, Register of);
  std::vector<Register> leading_zeros(std::vector<Register> of, const Type& type);
  Register float_extreme(bool is_double, int length, Register a, Register b, bool is_most);
  Register extreme_with(const Operand& constant, const Operand& other, int piece, bool is_most);
  std::vector<Register> packed(const std::vector<Register>& from, const Type& before,
                               const Type& after);
  std::vector<Register> floats_from(const Operand& x, const Type& after, bool is_signed);
  std::vector<Register> integers_from(const Operand& x, const Type& after, bool is_signed);
  Register float_from_long(Register x, Element to, bool is_signed);

  // arithmetic.cc
  bool arithmetic(std::string_view name, std::string_view op);
  void integer_scalar(std::string_view name, std::string_view op, Type type);
  void integer_vector(std::string_view name, std::string_view op, Type type);
  void as_wider(std::string_view name, std::string_view op, Type type, const Operand& x,
                const Operand& y);
  void divide_lanes(std::string_view name, std::string_view op, Type type);
  void masks(std::string_view name, std::string_view op, Type type);
  void float_binary(std::string_view name, uint8_t opcode, Type type);
  void fneg(std::string_view name);
  void icmp(std::string_view name);
  void fcmp(std::string_view name);
  void select(std::string_view name);
  Op binary(Code code, const Type& type, int length);

  // intrinsics.cc
  bool intrinsic(std::string_view name, Type type, std::string_view what);
  void fma(std::string_view name, Type type);
  void extreme(std::string_view name, Type type, bool is_most);
  void integer_extreme(std::string_view name, Type type, bool is_signed, bool is_most);
  void bits_of_floats(std::string_view name, Type type, bool is_copysign);
  void round(std::string_view name, Type type, int how);
  void absolute(std::string_view name, Type type);
  void any_lane(std::string_view name, Type type);
  void saturated(std::string_view name, Type type, bool is_signed);
  std::vector<Register> saturated_lanes(const Operand& x, Type type, bool is_signed,
                                        int most_bits = 0);
  void saturate(std::vector<Register>& made, const std::vector<Register>& floats, const Type& from,
                const Type& wide, bool is_signed);
  std::vector<Register> set_bits(const std::vector<Register>& of, const Type& type);
  void counted_bits(std::string_view name, Type type, bool leading);

  // conversions.cc
  bool conversion(std::string_view name, std::string_view op);
  std::vector<Register> converted(Code code, const Type& before, const Type& after,
                                  const Operand& operand, int immediate = -1);
  std::vector<Register> widened(const Operand& operand, Type after, bool is_signed);
  std::vector<Register> narrowed(const std::vector<Register>& from, const Type& before, Type after);
  void integer_conversion(std::string_view name, std::string_view op, const Operand& x, Type after);
  void float_conversion(std::string_view name, std::string_view op, const Operand& x, Type after);
  void bitcast(std::string_view name, const Operand& x, Type after);
  void insert(std::string_view name);
  void extract(std::string_view name);
  void shuffle(std::string_view name);
  void broadcast(std::string_view name, Type type, const Operand& number);
  Register chosen_from(const std::vector<Register>& sources, const Type& type,
                       const std::vector<uint64_t>& order);
  Register joined_lanes(Register found, Register source, const Operand& places);
  std::vector<Register> turned(const std::vector<Register>& of, const Type& type);
  void shuffled_mask(std::string_view name, const Operand& x, const std::vector<uint64_t>& order);

  // memory_access.cc
  void get_address(std::string_view name);
  void load(std::string_view name);
  void store();
  void masked_load(std::string_view name, Type type);
  void masked_store();
  void gather(std::string_view name, Type type);
  void scatter();
  void allocate_frame(std::string_view name);
  Op access(const Memory& at, const Type& type, int piece, bool is_store);
  Memory moved(Memory at, int64_t by);

  // lane_access.cc
  std::vector<Register> loaded_lanes(const Memory& at, const Type& type, const Operand& mask,
                                     const Operand& instead);
  void store_lanes(const Memory& at, const Operand& stored, const Operand& mask);
  Memory memory_if(Register bits, int lane, const Memory& at, Register nowhere);
  Register nowhere();
  Register chosen_lanes(Register bits, int size, int lanes, Register yes, Register no);
  Register lane_number(const std::vector<Register>& of, int lane);
  std::vector<Register> gathered_lanes(const Value& at, const Type& type, const Operand& mask,
                                       const Operand& instead);
  void scatter_lanes(const Value& at, const Operand& stored, const Operand& mask);

  Reader& text_;
  ObjectImage& image_;
  const std::unordered_set<std::string_view>& here_;
  Body body_;
  std::unordered_map<std::string_view, Value> values_;
  std::unordered_map<std::string_view, uint32_t> blocks_;
  std::vector<Arm> arms_;
  Type result_{};
  Memory nowhere_{};  // stack memory for lanes that are not to be accessed
  uint32_t current_ = 0;
  bool is_open_ = false;  // whether the block continues
  bool ends_ = false;     // whether its jumps have started
};

inline Code evex(int prefix, int map, int w, int opcode) {
  return {static_cast<uint8_t>(opcode), static_cast<uint8_t>(prefix), static_cast<uint8_t>(map),
          static_cast<uint8_t>(w), kEvex};
}
inline Code vex(int prefix, int map, int w, int opcode) {
  return {static_cast<uint8_t>(opcode), static_cast<uint8_t>(prefix), static_cast<uint8_t>(map),
          static_cast<uint8_t>(w), kVex};
}

// Whether a number fits in 32 signed bits.
inline bool fits(int64_t n) { return n == static_cast<int32_t>(n); }

// The signed value of the low bits.
inline int64_t signed_of(uint64_t n, int bits) {
  if (bits == 64) return static_cast<int64_t>(n);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>((n ^ sign) - sign);
}

constexpr int k66 = 1, kF3 = 2, kF2 = 3;      // prefixes
constexpr int k0F = 1, k0F38 = 2, k0F3A = 3;  // maps

}  // namespace kiln::assembler
