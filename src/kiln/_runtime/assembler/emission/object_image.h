// An object file under construction: code, constants and relocations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assembler/emission/machine.h"

namespace kiln::assembler {

// All in one section: code, then constants.
class ObjectImage {
 public:
  // A reference of four bytes, relative to the end of its instruction.
  struct Reference {
    uint32_t at, rest;  // position, and how many bytes of the instruction follow
    bool in_pool;
    uint32_t number;
  };

  std::string code;

  uint32_t symbol(std::string_view name);
  bool is_defined(uint32_t number) const { return symbols_[number].is_defined; }
  void begin_function(uint32_t number);
  void end_function(uint32_t number);
  // Returns the number of a constant in the pool.
  uint32_t constant(std::string_view bytes);
  void refer(const Reference& reference) { references_.push_back(reference); }
  // Data of the text; pointers in it are (offset, symbol).
  void define_data(uint32_t number, std::string bytes, uint32_t alignment,
                   std::vector<std::pair<uint32_t, uint32_t>> pointers);
  // The finished object file. Throws NotUnderstood if a call is out of range.
  std::string file();

 private:
  struct Symbol {
    std::string name;
    bool is_defined = false, is_function = false;
    uint64_t place = 0, size = 0;
  };
  struct Data {
    uint32_t number, alignment;
    std::string bytes;
    std::vector<std::pair<uint32_t, uint32_t>> pointers;
  };
  struct Constant {
    std::string bytes;
    uint64_t place = 0;
  };
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string, uint32_t> numbers_, constants_of_;
  std::vector<Constant> pool_;
  std::vector<Reference> references_;
  std::vector<Data> data_;
};

// Append the code of a function.
void emit(Body& body, const Allocation& allocation, ObjectImage& image);

}  // namespace kiln::assembler
