#include "assembler/selection/reader.h"

#include <cstdlib>
#include <cstring>

namespace kiln::assembler {
namespace {

bool is_in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr int64_t kMostLanes = 4096;

}  // namespace

int bits(Element element) {
  switch (element) {
    case Element::kVoid: return 0;
    case Element::kI1: return 1;
    case Element::kI8: return 8;
    case Element::kI16:
    case Element::kHalf: return 16;
    case Element::kI32:
    case Element::kFloat: return 32;
    case Element::kI64:
    case Element::kDouble:
    case Element::kPointer: return 64;
  }
  return 0;
}

void Reader::fail(std::string_view what) const {
  const char* stop = at_;
  while (stop != end_ && *stop != '\n' && stop - at_ < 60) ++stop;
  throw NotUnderstood{std::string(what) + " at: " + std::string(at_, stop)};
}

bool Reader::take(std::string_view text) {
  if (static_cast<size_t>(end_ - at_) < text.size() ||
      std::memcmp(at_, text.data(), text.size()) != 0) {
    return false;
  }
  at_ += text.size();
  return true;
}

void Reader::expect(std::string_view text) {
  if (!take(text)) fail("expected '" + std::string(text) + "'");
}

std::string_view Reader::word() {
  const char* begin = at_;
  while (at_ != end_ && is_in_word(*at_)) ++at_;
  if (at_ == begin) fail("expected a word");
  return {begin, static_cast<size_t>(at_ - begin)};
}

std::string_view Reader::name() {
  if (peek() != '%' && peek() != '@') fail("expected a name");
  ++at_;
  return word();
}

std::string_view Reader::until(char c) {
  const char* begin = at_;
  while (at_ != end_ && *at_ != c) ++at_;
  if (at_ == end_) fail("an end that is missing");
  return {begin, static_cast<size_t>(at_++ - begin)};
}

int64_t Reader::integer() {
  const bool is_negative = take("-");
  if (!is_digit(peek())) fail("expected an integer");
  uint64_t n = 0;
  while (is_digit(peek())) {
    const auto digit = static_cast<uint64_t>(*at_++ - '0');
    if (n > (~uint64_t{0} - digit) / 10) fail("an integer of more than 64 bits");
    n = n * 10 + digit;
  }
  return static_cast<int64_t>(is_negative ? -n : n);
}

Type Reader::type() {
  if (take("<")) {
    const int64_t lanes = integer();
    expect(" x ");
    Type type = this->type();
    expect(">");
    if (type.is_vector || lanes < 1 || lanes > kMostLanes || (lanes & (lanes - 1)) != 0) {
      fail("a vector of this kind");
    }
    type.lanes = static_cast<int>(lanes);
    type.is_vector = lanes > 1;
    return type;
  }
  const std::string_view name = word();
  Type type;
  if (name == "i64") type.element = Element::kI64;
  else if (name == "ptr") type.element = Element::kPointer;
  else if (name == "float") type.element = Element::kFloat;
  else if (name == "i32") type.element = Element::kI32;
  else if (name == "i1") type.element = Element::kI1;
  else if (name == "double") type.element = Element::kDouble;
  else if (name == "i8") type.element = Element::kI8;
  else if (name == "i16") type.element = Element::kI16;
  else if (name == "half") type.element = Element::kHalf;
  else if (name == "void") type.element = Element::kVoid;
  else throw NotUnderstood{"the type " + std::string(name)};
  return type;
}

// The bits of a constant.
uint64_t Reader::number(Element element) {
  if (!is_digit(peek()) && peek() != '-') {
    if (take("true")) return 1;
    if (take("false") || take("null") || take("poison") || take("zeroinitializer")) return 0;
    fail("a constant of this kind");
  }
  if (is_float(element)) {
    double value;
    if (take("0x")) {
      uint64_t found = 0;
      for (int i = 0; i < 16; ++i) {
        const char c = peek();
        const int digit = is_digit(c)            ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0) fail("a float of fewer digits");
        found = found << 4 | static_cast<uint64_t>(digit);
        ++at_;
      }
      if (is_in_word(peek())) fail("a float of more digits");
      if (element == Element::kDouble) return found;
      if ((found & 0x1fffffff) != 0) fail("a number that is not a 32-bit float");
      // A conversion would quiet a signaling nan.
      if ((found >> 52 & 0x7ff) == 0x7ff) {
        return (found >> 63 << 31) | 0x7f800000 | (found >> 29 & 0x7fffff);
      }
      std::memcpy(&value, &found, sizeof value);
    } else {
      const char* begin = at_;
      while (is_digit(peek()) || peek() == '.' || peek() == '-') ++at_;
      if (is_in_word(peek()) || peek() == '+') fail("a float with an exponent");
      value = std::strtod(std::string(begin, at_).c_str(), nullptr);
      if (element == Element::kDouble) {
        uint64_t found;
        std::memcpy(&found, &value, sizeof found);
        return found;
      }
    }
    const auto narrow = static_cast<float>(value);
    if (static_cast<double>(narrow) != value) fail("a number that is not a 32-bit float");
    uint32_t found;
    std::memcpy(&found, &narrow, sizeof found);
    return found;
  }
  if (element == Element::kHalf || element == Element::kVoid || element == Element::kPointer) {
    fail("a constant of this type");
  }
  const auto n = static_cast<uint64_t>(integer());
  const int size = bits(element);
  return size == 64 ? n : n & ((uint64_t{1} << size) - 1);
}

Operand Reader::operand(Type type) {
  skip_spaces();
  Operand found;
  found.type = type;
  if (peek() == '%') {
    found.kind = Operand::kNamed;
    found.name = name();
  } else if (peek() == '@') {
    found.kind = Operand::kSymbol;
    found.name = name();
  } else if (take("splat (")) {
    if (this->type().element != type.element) fail("a splat of another type");
    skip_spaces();
    found.bits = number(type.element);
    expect(")");
  } else if (take("<")) {
    bool is_uniform = true;
    do {
      skip_spaces();
      if (this->type().element != type.element) fail("a vector of other numbers");
      skip_spaces();
      found.lanes.push_back(number(type.element));
      is_uniform &= found.lanes.back() == found.lanes.front();
    } while (take(","));
    expect(">");
    if (static_cast<int>(found.lanes.size()) != type.lanes) fail("a vector of another length");
    found.bits = found.lanes.front();
    found.kind = is_uniform ? Operand::kConstant : Operand::kLanes;
  } else {
    found.bits = number(type.element);
  }
  return found;
}

void Reader::end_of_instruction() {
  for (;;) {
    if (take(", align ")) {
      integer();
    } else if (take(", !prof !0")) {
    } else {
      break;
    }
  }
  if (!take("\n")) fail("something more than is understood");
}

}  // namespace kiln::assembler
