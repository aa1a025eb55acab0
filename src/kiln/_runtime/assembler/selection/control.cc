// The instructions of a function one by one, its basic blocks, and its calls.
#include <algorithm>

#include "assembler/selection/function_writer.h"

namespace kiln::assembler {

void FunctionWriter::write() {
  result_ = text_.type();
  text_.expect(" ");
  const uint32_t number = image_.symbol(text_.name());
  parameters();
  text_.expect(" #0 {\n");
  while (!text_.take("}\n")) {
    if (text_.peek() == ' ') {
      instruction();
    } else {
      const std::string_view label = text_.until(':');
      text_.expect("\n");
      // A function without labels has one block, with the name of the entry block.
      block(label);
    }
  }
  if (is_open_) throw NotUnderstood{"a function without an end"};
  fill_phis();
  const Allocation allocation = allocate(body_);
  image_.begin_function(number);
  emit(body_, allocation, image_);
  image_.end_function(number);
}

void FunctionWriter::parameters() {
  text_.expect("(");
  block("entry");
  Op op{};
  op.shape = Shape::kParameters;
  op.has_effect = true;
  constexpr int16_t arguments[] = {7, 6, 2, 1, 8, 9};
  size_t generals = 0, vectors = 0;
  std::vector<Register> all;
  while (!text_.take(")")) {
    const Type type = text_.type();
    text_.skip_spaces();
    const std::string_view name = text_.name();
    text_.take(", ");
    std::vector<Register> found;
    if (type.is_mask()) throw NotUnderstood{"a mask as a parameter"};
    for (int i = 0; i < pieces_of(type).count; ++i) {
      const bool is_general = !type.is_vector && !is_float(type.element);
      const size_t n = is_general ? generals++ : vectors++;
      const size_t most = is_general ? std::size(arguments) : vectors_of(body_.level).arguments;
      if (n >= most) {
        throw NotUnderstood{"a function of many parameters"};
      }
      const int place = is_general ? arguments[n] : static_cast<int>(n);
      found.push_back(body_.fresh(is_general ? Class::kGeneral : Class::kVector, -2 - place));
      all.push_back(found.back());
    }
    define(name, type, std::move(found));
  }
  op.first = static_cast<uint32_t>(body_.lists.size());
  op.count = static_cast<uint16_t>(all.size());
  body_.lists.insert(body_.lists.end(), all.begin(), all.end());
  add(op);
}

// Blocks.

uint32_t FunctionWriter::block_of(std::string_view label) {
  const auto [found, is_new] =
      blocks_.try_emplace(label, static_cast<uint32_t>(body_.blocks.size()));
  if (is_new) body_.blocks.emplace_back();
  return found->second;
}

void FunctionWriter::block(std::string_view label) {
  const uint32_t number = block_of(label);
  if (number == 0 && body_.blocks[0].is_placed && body_.ops.size() == 1 && is_open_) {
    return;  // the parameters came before the label
  }
  if (is_open_) throw NotUnderstood{"a block that does not end"};
  Block& block = body_.blocks[number];
  if (block.is_placed) throw NotUnderstood{"two blocks of one name"};
  block.is_placed = true;
  block.first = static_cast<uint32_t>(body_.ops.size());
  body_.placed.push_back(number);
  current_ = number;
  is_open_ = true;
  ends_ = false;
}

// Only jumps follow.
void FunctionWriter::end_block() {
  Block& block = body_.blocks[current_];
  if (!ends_) block.last = static_cast<uint32_t>(body_.ops.size());
  ends_ = true;
}

void FunctionWriter::jump(uint32_t block) {
  Op op{};
  op.shape = Shape::kJump;
  op.number = block;
  op.has_effect = true;
  add(op);
  body_.blocks[current_].end = static_cast<uint32_t>(body_.ops.size());
  is_open_ = false;
}

void FunctionWriter::jump_if(uint8_t condition, uint32_t block) {
  Op op{};
  op.shape = Shape::kJumpIf;
  op.digit = condition;
  op.number = block;
  op.has_effect = true;
  add(op);
}

void FunctionWriter::instruction() {
  text_.expect("  ");
  if (!is_open_) throw NotUnderstood{"instructions outside of a block"};
  if (text_.peek() == '%') {
    const std::string_view name = text_.name();
    text_.expect(" = ");
    named(name);
  } else {
    const std::string_view op = text_.word();
    if (op != "ret" || text_.peek() != '\n') text_.expect(" ");
    if (op == "store") store();
    else if (op == "br") branch();
    else if (op == "ret") return_();
    else if (op == "call") call({});
    else if (op == "switch") switch_();
    else throw NotUnderstood{"the instruction " + std::string(op)};
  }
  text_.end_of_instruction();
}

void FunctionWriter::named(std::string_view name) {
  const std::string_view op = text_.word();
  text_.expect(" ");
  if (op == "getelementptr") get_address(name);
  else if (op == "load") load(name);
  else if (op == "call") call(name);
  else if (op == "phi") phi(name);
  else if (op == "icmp") icmp(name);
  else if (op == "fcmp") fcmp(name);
  else if (op == "select") select(name);
  else if (op == "fneg") fneg(name);
  else if (op == "alloca") allocate_frame(name);
  else if (op == "insertelement") insert(name);
  else if (op == "extractelement") extract(name);
  else if (op == "shufflevector") shuffle(name);
  else if (!arithmetic(name, op) && !conversion(name, op)) {
    throw NotUnderstood{"the instruction " + std::string(op)};
  }
}

void FunctionWriter::branch() {
  if (text_.take("label %")) {
    const uint32_t to = block_of(text_.word());
    end_block();
    jump(to);
    return;
  }
  const Operand condition = text_.operand();
  if (!condition.type.is(Element::kI1)) throw NotUnderstood{"a branch on another type"};
  text_.expect(", label %");
  const uint32_t yes = block_of(text_.word());
  text_.expect(", label %");
  const uint32_t no = block_of(text_.word());
  uint8_t holds = kNotEqual;
  const Value* known = condition.kind == Operand::kNamed ? &value(condition) : nullptr;
  Op op{};
  op.has_effect = true;
  if (known != nullptr && known->left != kNone) {
    op.shape = Shape::kCompare;
    op.a = known->left;
    op.b = known->right;
    op.has_immediate = known->right == kNone;
    op.immediate = known->limit;
    op.width = known->width;
    holds = known->condition;
  } else if (known != nullptr && known->tested != kNone && !is_v4()) {
    op.shape = Shape::kTest;
    op.a = known->tested;
  } else if (known != nullptr && known->tested != kNone) {
    op.shape = Shape::kFlags;
    op.code = vex(0, k0F, 1, 0x98);  // kortestq
    op.a = op.b = known->tested;
  } else {
    op.shape = Shape::kTest;
    op.a = read(condition);
    op.width = 4;
  }
  add(op);
  end_block();
  // Emission drops the jump to the block that follows.
  jump_if(holds, yes);
  jump(no);
}

void FunctionWriter::switch_() {
  const Operand number = text_.operand();
  if (!number.type.is(Element::kI32)) throw NotUnderstood{"a switch on another type"};
  const Register found = read(number);
  text_.expect(", label %");
  const uint32_t otherwise = block_of(text_.word());
  text_.expect(" [");
  end_block();
  for (;;) {
    text_.skip_spaces();
    if (text_.take("]")) break;
    const Operand limit = text_.operand();
    text_.expect(", label %");
    Op op{};
    op.shape = Shape::kCompare;
    op.has_effect = op.has_immediate = true;
    op.a = found;
    op.immediate = static_cast<int32_t>(limit.bits);
    op.width = 4;
    add(op);
    jump_if(kEqual, block_of(text_.word()));
  }
  jump(otherwise);
}

void FunctionWriter::return_() {
  Op op{};
  op.shape = Shape::kReturn;
  op.has_effect = true;
  const Type type = text_.type();
  if (type != result_) throw NotUnderstood{"a result of another type"};
  if (type.element != Element::kVoid) {
    if (type.is_mask() || type.is(Element::kI1)) throw NotUnderstood{"a truth as a result"};
    const std::vector<Register> found = read_all(text_.operand(type));
    op.first = static_cast<uint32_t>(body_.lists.size());
    op.count = static_cast<uint16_t>(found.size());
    body_.lists.insert(body_.lists.end(), found.begin(), found.end());
    body_.returns_vector = type.is_vector || is_float(type.element);
  }
  end_block();
  add(op);
  body_.blocks[current_].end = static_cast<uint32_t>(body_.ops.size());
  is_open_ = false;
}

// Phis.

void FunctionWriter::phi(std::string_view name) {
  const Type type = text_.type();
  std::vector<Register> found;
  const bool is_vector = type.is_vector || is_float(type.element);
  for (int i = 0; i < pieces_of(type).count; ++i) {
    found.push_back(body_.fresh(type.is_mask() ? mask_class()
                                : is_vector    ? Class::kVector
                                               : Class::kGeneral));
  }
  do {
    text_.skip_spaces();
    text_.expect("[ ");
    const Operand from = text_.operand(type);
    text_.expect(", %");
    arms_.push_back({found, from, text_.word(), current_});
    text_.expect(" ]");
  } while (text_.take(","));
  define(name, type, std::move(found));
}

// Parallel copies at the ends of blocks.
void FunctionWriter::fill_phis() {
  std::stable_sort(arms_.begin(), arms_.end(),
                   [](const Arm& x, const Arm& y) { return x.label < y.label; });
  std::vector<uint32_t> place(body_.blocks.size());
  for (size_t i = 0; i < body_.placed.size(); ++i) {
    place[body_.placed[i]] = static_cast<uint32_t>(i);
  }
  for (size_t begin = 0, end = 0; begin < arms_.size(); begin = end) {
    const std::string_view label = arms_[begin].label;
    while (end < arms_.size() && arms_[end].label == label) ++end;
    const auto known = blocks_.find(label);
    if (known == blocks_.end() || !body_.blocks[known->second].is_placed) {
      throw NotUnderstood{"a phi of a block that is missing"};
    }
    const uint32_t from = known->second;
    auto number = [&] { return static_cast<uint32_t>(body_.ops.size() - 1); };
    std::vector<Register> to, read;
    for (size_t i = begin; i < end; ++i) {
      const Arm& arm = arms_[i];
      to.insert(to.end(), arm.to.begin(), arm.to.end());
      const Block& block = body_.blocks[from];
      if (place[arm.block] <= place[from] && block.end - block.last > 1) {
        std::vector<Register>& carried = body_.blocks[from].carried;
        carried.insert(carried.end(), arm.to.begin(), arm.to.end());
      }
      for (size_t k = 0; k < arm.to.size(); ++k) {
        const size_t before = body_.ops.size();
        read.push_back(this->read(arm.from, static_cast<int>(k)));
        for (size_t op = before; op < body_.ops.size(); ++op) {
          body_.blocks[from].copies.push_back(static_cast<uint32_t>(op));
        }
      }
    }
    auto copy = [&](Register d, Register b) {
      Op op{};
      const Class of = body_.classes[static_cast<size_t>(d)];
      op.shape = of == Class::kGeneral ? Shape::kMove : Shape::kVector;
      op.code = of == Class::kMask ? vex(0, k0F, 1, 0x90) : evex(0, k0F, 0, 0x28);
      op.length = of == Class::kVector ? vectors_of(body_.level).length : 0;
      op.d = d;
      op.b = b;
      op.has_effect = true;
      add(op);
      body_.blocks[from].copies.push_back(number());
    };
    // Sources that another copy overwrites are saved first.
    for (Register& r : read) {
      const size_t mine = static_cast<size_t>(&r - read.data());
      if (to[mine] == r || std::find(to.begin(), to.end(), r) == to.end()) continue;
      const Register aside = body_.fresh(body_.classes[static_cast<size_t>(r)]);
      copy(aside, r);
      r = aside;
    }
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] != read[i]) copy(to[i], read[i]);
    }
  }
}

// Calls.

void FunctionWriter::call(std::string_view result) {
  const Type type = text_.type();
  text_.expect(" ");
  const std::string_view name = text_.name();
  text_.expect("(");
  constexpr std::string_view llvm = "llvm.";
  if (name.substr(0, llvm.size()) != llvm) {
    call_function(type, name, result);
  } else if (name == "llvm.memcpy.p0.p0.i64") {
    copy_memory();
  } else if (name.substr(0, 18) == "llvm.masked.store.") {
    masked_store();
  } else if (name.substr(0, 20) == "llvm.masked.scatter.") {
    scatter();
  } else if (result.empty() || !intrinsic(result, type, name.substr(llvm.size()))) {
    throw NotUnderstood{"the intrinsic " + std::string(name)};
  }
  text_.expect(")");
}

void FunctionWriter::call_function(Type type, std::string_view name, std::string_view result) {
  std::vector<Register> all;
  bool has_vectors = type.is_vector || is_float(type.element);
  while (text_.peek() != ')') {
    const Operand operand = text_.operand();
    text_.take(", ");
    if (operand.type.is_mask() || operand.type.is(Element::kI1) ||
        operand.type.element == Element::kHalf) {
      throw NotUnderstood{"an argument of this type"};
    }
    has_vectors |= operand.type.is_vector || is_float(operand.type.element);
    for (Register r : read_all(operand)) all.push_back(r);
  }
  const bool is_here = here_.find(name) != here_.end();
  if (has_vectors && !is_here) throw NotUnderstood{"a function of vectors elsewhere"};
  if (type.is_mask() || type.element == Element::kI1) throw NotUnderstood{"a function of truths"};
  Op op{};
  op.shape = Shape::kCall;
  op.has_effect = true;
  op.digit = is_here;
  op.number = image_.symbol(name);
  op.first = static_cast<uint32_t>(body_.lists.size());
  op.count = static_cast<uint16_t>(all.size());
  std::vector<Register> found;
  if (type.element != Element::kVoid) {
    const bool is_vector = type.is_vector || is_float(type.element);
    for (int i = 0; i < pieces_of(type).count; ++i) {
      found.push_back(body_.fresh(is_vector ? Class::kVector : Class::kGeneral));
    }
  }
  op.results = static_cast<uint16_t>(found.size());
  all.insert(all.end(), found.begin(), found.end());
  body_.lists.insert(body_.lists.end(), all.begin(), all.end());
  body_.calls = true;
  add(op);
  if (result.empty()) return;
  if (found.empty()) throw NotUnderstood{"a result of no type"};
  define(result, type, std::move(found));
}

// memcpy: short ones inline, sixteen bytes or more at a time.
void FunctionWriter::copy_memory() {
  const Operand to = text_.operand();
  text_.expect(", ");
  const Operand from = text_.operand();
  text_.expect(", ");
  const Operand count = text_.operand();
  text_.expect(", i1 false");
  constexpr uint64_t kMostInPlace = 256;
  if (count.is_constant() && count.bits <= kMostInPlace) {
    const Memory target = memory(to), source = memory(from);
    int64_t at = 0;
    for (auto left = static_cast<int64_t>(count.bits); left > 0;) {
      const int size = left >= 64 && is_v4() ? 64
                       : left >= 32          ? 32
                       : left >= 16          ? 16
                       : left >= 8           ? 8
                       : left >= 4           ? 4
                       : left >= 2           ? 2
                                             : 1;
      Type type;
      type.element = size >= 8   ? Element::kI64
                     : size == 4 ? Element::kI32
                     : size == 2 ? Element::kI16
                                 : Element::kI8;
      type.lanes = size >= 16 ? size / 8 : 1;
      type.is_vector = size >= 16;
      Op load = access(moved(source, at), type, 0, false);
      load.d = body_.fresh(type.is_vector ? Class::kVector : Class::kGeneral);
      const Register value = add(load).d;
      Op store = access(moved(target, at), type, 0, true);
      store.a = value;
      add(store);
      at += size;
      left -= size;
    }
    return;
  }
  Op op{};
  op.shape = Shape::kCall;
  op.has_effect = true;
  op.number = image_.symbol("memcpy");
  const Register all[] = {read(to), read(from), read(count)};
  op.first = static_cast<uint32_t>(body_.lists.size());
  op.count = 3;
  body_.lists.insert(body_.lists.end(), std::begin(all), std::end(all));
  body_.calls = true;
  add(op);
}

}  // namespace kiln::assembler
