#include "assembler/assembler.h"

#include <stdexcept>

#include "assembler/selection/function_writer.h"

namespace kiln::assembler {
namespace {

// The data of a module: numbers and tables of steps, and constants.
class ModuleReader {
 public:
  ModuleReader(std::string_view text, Level level) : whole_(text), text_(text), level_(level) {}

  std::string object() {
    find_functions();
    while (!text_.at_end()) {
      if (text_.peek() == '\n') {
        text_.skip_line();
      } else if (text_.peek() == '@') {
        data();
      } else if (text_.take("define ")) {
        text_.take("internal ");
        FunctionWriter(text_, image_, here_, level_).write();
      } else if (text_.take("source_filename = ") || text_.take("declare ") ||
                 text_.take("attributes #0 = { nounwind }") ||
                 text_.take("!0 = !{!\"branch_weights\"")) {
        text_.skip_line();
      } else {
        text_.fail("a line of an unknown kind");
      }
    }
    return image_.file();
  }

 private:
  // Functions may be called before they are defined.
  void find_functions() {
    constexpr std::string_view define = "define ";
    for (size_t at = whole_.find(define); at != std::string_view::npos;
         at = whole_.find(define, at + 1)) {
      if (at != 0 && whole_[at - 1] != '\n') continue;
      Reader reader(whole_.substr(at + define.size()));
      reader.take("internal ");
      reader.type();
      reader.expect(" ");
      here_.insert(reader.name());
    }
  }

  void data() {
    const uint32_t number = image_.symbol(text_.name());
    text_.expect(" = ");
    text_.take("private ");
    text_.take("internal ");
    text_.take("unnamed_addr ");
    text_.expect("constant [");
    const int64_t count = text_.integer();
    text_.expect(" x ");
    std::string bytes;
    pointers_.clear();
    if (text_.take("i8] c\"")) {
      while (!text_.take("\"")) {
        if (text_.take("\\")) bytes += static_cast<char>(digit() << 4 | digit());
        else text_.fail("a string that is not bytes");
      }
      if (static_cast<int64_t>(bytes.size()) != count) text_.fail("a constant of another size");
    } else {
      text_.until(']');
      text_.expect(" [");
      elements(bytes);
      text_.expect("]");
    }
    text_.expect(", align ");
    const int64_t alignment = text_.integer();
    if (alignment < 1 || alignment > 64) text_.fail("an alignment of this kind");
    text_.expect("\n");
    image_.define_data(number, std::move(bytes), static_cast<uint32_t>(alignment), pointers_);
  }

  int digit() {
    const char c = text_.peek();
    const char text[] = {c, '\0'};
    text_.expect(text);
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    text_.fail("a character that is not a digit");
  }

  // Numbers, pointers, and structures of them, with fields at their natural offsets.
  void elements(std::string& bytes) {
    do {
      text_.skip_spaces();
      if (text_.take("{")) {
        text_.until('}');
        text_.expect(" {");
        elements(bytes);
        text_.skip_spaces();
        text_.expect("}");
        continue;
      }
      const Operand operand = text_.operand();
      const auto size = static_cast<size_t>(operand.type.bits() / 8);
      if (operand.type.is_vector || size < 4) text_.fail("data of this type");
      if (bytes.size() % size != 0) text_.fail("data with gaps");
      if (operand.kind == Operand::kSymbol) {
        pointers_.emplace_back(bytes.size(), image_.symbol(operand.name));
      }
      const uint64_t bits = operand.kind == Operand::kSymbol ? 0 : operand.bits;
      bytes.append(reinterpret_cast<const char*>(&bits), size);
    } while (text_.take(","));
  }

  std::string_view whole_;
  Reader text_;
  const Level level_;
  ObjectImage image_;
  std::unordered_set<std::string_view> here_;
  std::vector<std::pair<uint32_t, uint32_t>> pointers_;
};

}  // namespace

std::string assemble(std::string_view text, std::string_view level, std::string& refusal) {
  try {
    if (level != "x86-64-v3" && level != "x86-64-v4") {
      throw NotUnderstood{"the level " + std::string(level)};
    }
    return ModuleReader(text, level == "x86-64-v4" ? Level::kV4 : Level::kV3).object();
  } catch (const NotUnderstood& reason) {
    refusal = reason.why;
  } catch (const std::out_of_range&) {
    refusal = "a value of fewer parts";
  }
  return {};
}

}  // namespace kiln::assembler
