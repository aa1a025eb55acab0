#include "assembler/emission/object_image.h"

#include <cstring>

namespace kiln::assembler {
namespace {

struct FileHeader {
  unsigned char magic[4] = {0x7f, 'E', 'L', 'F'}, bits = 2, order = 1, rest[10] = {1};
  uint16_t type = 1, machine = 62;
  uint32_t version = 1;
  uint64_t entry = 0, programs = 0, sections = 0;
  uint32_t flags = 0;
  uint16_t size = 64, program_size = 0, program_count = 0, section_size = 64, section_count = 6,
           names = 5;
};

struct Section {
  uint32_t name = 0, type = 0;
  uint64_t flags = 0, address = 0, offset = 0, size = 0;
  uint32_t link = 0, info = 0;
  uint64_t alignment = 1, item = 0;
};

struct SymbolEntry {
  uint32_t name = 0;
  unsigned char info = 0, other = 0;
  uint16_t section = 0;
  uint64_t value = 0, size = 0;
};

struct Relocation {
  uint64_t offset;
  uint32_t type, symbol;
  int64_t addend;
};

constexpr uint32_t kAbsolute64 = 1, kCall = 4;
constexpr uint64_t kMost = 1 << 30;

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void align(std::string& text, size_t to, char with = 0) {
  text.resize((text.size() + to - 1) / to * to, with);
}

}  // namespace

uint32_t ObjectImage::symbol(std::string_view name) {
  auto [found, is_new] =
      numbers_.try_emplace(std::string(name), static_cast<uint32_t>(symbols_.size()));
  if (is_new) {
    symbols_.emplace_back();
    symbols_.back().name = name;
  }
  return found->second;
}

void ObjectImage::begin_function(uint32_t number) {
  align(code, 16, '\xcc');
  Symbol& symbol = symbols_[number];
  if (symbol.is_defined) throw NotUnderstood{"two functions of one name"};
  symbol.is_defined = symbol.is_function = true;
  symbol.place = code.size();
}

void ObjectImage::end_function(uint32_t number) {
  symbols_[number].size = code.size() - symbols_[number].place;
}

uint32_t ObjectImage::constant(std::string_view bytes) {
  auto [found, is_new] =
      constants_of_.try_emplace(std::string(bytes), static_cast<uint32_t>(pool_.size()));
  if (is_new) pool_.push_back({std::string(bytes)});
  return found->second;
}

void ObjectImage::define_data(uint32_t number, std::string bytes, uint32_t alignment,
                              std::vector<std::pair<uint32_t, uint32_t>> pointers) {
  if (symbols_[number].is_defined) throw NotUnderstood{"two constants of one name"};
  symbols_[number].is_defined = true;
  data_.push_back({number, alignment, std::move(bytes), std::move(pointers)});
}

std::string ObjectImage::file() {
  // Wide constants first, so that each is aligned to its size.
  for (size_t size : {64, 32, 16, 8, 4, 2, 1}) {
    align(code, size);
    for (Constant& constant : pool_) {
      if (constant.bytes.size() != size) continue;
      constant.place = code.size();
      code += constant.bytes;
    }
  }
  std::vector<Relocation> relocations;
  for (Data& data : data_) {
    align(code, data.alignment);
    Symbol& symbol = symbols_[data.number];
    symbol.place = code.size();
    symbol.size = data.bytes.size();
    for (auto [at, to] : data.pointers) {
      relocations.push_back({symbol.place + at, kAbsolute64, to + 1, 0});
    }
    code += data.bytes;
  }
  if (code.size() > kMost) throw NotUnderstood{"an object of more than a gigabyte"};
  for (const Reference& each : references_) {
    const int64_t addend = -4 - static_cast<int64_t>(each.rest);
    uint64_t to;
    if (each.in_pool) {
      to = pool_[each.number].place;
    } else if (symbols_[each.number].is_defined) {
      to = symbols_[each.number].place;
    } else {
      relocations.push_back({each.at, kCall, each.number + 1, addend});
      continue;
    }
    const auto distance = static_cast<int32_t>(static_cast<int64_t>(to - each.at) + addend);
    std::memcpy(code.data() + each.at, &distance, sizeof distance);
  }

  std::string names(1, '\0'), entries;
  append(entries, SymbolEntry{});
  for (const Symbol& symbol : symbols_) {
    SymbolEntry entry;
    entry.name = static_cast<uint32_t>(names.size());
    entry.info = static_cast<unsigned char>(1 << 4 | (symbol.is_function ? 2 : 0));
    entry.section = symbol.is_defined ? 1 : 0;
    entry.value = symbol.place;
    entry.size = symbol.size;
    append(entries, entry);
    names += symbol.name;
    names += '\0';
  }
  const std::string of_sections("\0.text\0.rela.text\0.symtab\0.strtab\0.shstrtab\0", 44);

  std::string made;
  FileHeader header;
  append(made, header);
  align(made, 64);
  Section sections[6];
  auto put = [&](int number, uint32_t name, uint32_t type, std::string_view bytes,
                 uint64_t alignment) {
    align(made, alignment < 8 ? alignment : 8);
    Section& section = sections[number];
    section.name = name;
    section.type = type;
    section.offset = made.size();
    section.size = bytes.size();
    section.alignment = alignment;
    made += bytes;
  };
  put(1, 1, 1, code, 64);
  sections[1].flags = 2 | 4;
  put(2, 7, 4,
      {reinterpret_cast<const char*>(relocations.data()), relocations.size() * sizeof(Relocation)},
      8);
  sections[2].link = 3;
  sections[2].info = 1;
  sections[2].item = sizeof(Relocation);
  put(3, 18, 2, entries, 8);
  sections[3].link = 4;
  sections[3].info = 1;
  sections[3].item = sizeof(SymbolEntry);
  put(4, 26, 3, names, 1);
  put(5, 34, 3, of_sections, 1);
  align(made, 8);
  header.sections = made.size();
  std::memcpy(made.data(), &header, sizeof header);
  for (const Section& section : sections) append(made, section);
  return made;
}

}  // namespace kiln::assembler
