#include "abi/symbols.h"

namespace kiln {
namespace {

std::vector<Symbol>& registered() {
  static std::vector<Symbol> all;
  return all;
}

}  // namespace

Symbols::Symbols(std::initializer_list<Symbol> symbols) {
  registered().insert(registered().end(), symbols);
}

const std::vector<Symbol>& all_symbols() { return registered(); }

}  // namespace kiln
