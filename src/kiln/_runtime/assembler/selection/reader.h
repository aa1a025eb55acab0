// The parser of the text: types, constants, names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assembler/emission/machine.h"

namespace kiln::assembler {

enum class Element : uint8_t {
  kVoid,
  kI1,
  kI8,
  kI16,
  kI32,
  kI64,
  kHalf,
  kFloat,
  kDouble,
  kPointer
};

int bits(Element element);
inline bool is_float(Element e) { return e == Element::kFloat || e == Element::kDouble; }
inline Element integer_of(int bits) {
  return bits == 8    ? Element::kI8
         : bits == 16 ? Element::kI16
         : bits == 32 ? Element::kI32
                      : Element::kI64;
}
inline bool is_integer(Element e) { return e >= Element::kI1 && e <= Element::kI64; }

// A scalar or a vector. One-element vectors are scalars.
struct Type {
  Element element = Element::kVoid;
  bool is_vector = false;
  int lanes = 1;

  bool operator==(const Type& other) const {
    return element == other.element && lanes == other.lanes;
  }
  bool operator!=(const Type& other) const { return !(*this == other); }
  int bits() const { return assembler::bits(element); }
  int bytes() const { return bits() * lanes / 8; }
  bool is(Element e) const { return element == e && !is_vector; }
  bool is_mask() const { return is_vector && element == Element::kI1; }
};

// The operand of an instruction.
struct Operand {
  enum Kind : uint8_t { kNamed, kConstant, kLanes, kSymbol };
  Kind kind = kConstant;
  Type type{};
  uint64_t bits = 0;              // of a constant, the same in all lanes
  std::string_view name{};        // of a value or symbol
  std::vector<uint64_t> lanes{};  // of a constant whose lanes differ

  bool is_constant() const { return kind == kConstant; }
  bool is_number(uint64_t n) const { return kind == kConstant && bits == n; }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool at_end() const { return at_ == end_; }
  char peek() const { return at_ == end_ ? '\0' : *at_; }
  char after() const { return end_ - at_ < 2 ? '\0' : at_[1]; }
  void skip_spaces() {
    while (at_ != end_ && *at_ == ' ') ++at_;
  }
  void skip_line() {
    while (at_ != end_ && *at_ != '\n') ++at_;
    if (at_ != end_) ++at_;
  }
  // Consumes this token if it comes next; tells whether it did.
  bool take(std::string_view text);
  void expect(std::string_view text);
  // Letters, digits, dots and underscores.
  std::string_view word();
  // A name after % or @.
  std::string_view name();
  // The text up to a character, which is consumed too.
  std::string_view until(char c);
  int64_t integer();
  Type type();
  // A type and a constant or value.
  Operand operand() { return operand(type()); }
  Operand operand(Type type);
  // Ends the line, skipping what does not affect the meaning.
  void end_of_instruction();
  [[noreturn]] void fail(std::string_view what) const;

 private:
  uint64_t number(Element element);

  const char* at_;
  const char* end_;
};

}  // namespace kiln::assembler
