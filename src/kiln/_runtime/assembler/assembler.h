// Assembles the LLVM IR that this engine generates into an object file, without LLVM.
#pragma once

#include <string>
#include <string_view>

namespace kiln::assembler {

// Return the object file for a level of x86-64, by its name; if that or the text is not supported,
// an empty string, and the reason in `refusal`.
std::string assemble(std::string_view text, std::string_view level, std::string& refusal);

}  // namespace kiln::assembler
