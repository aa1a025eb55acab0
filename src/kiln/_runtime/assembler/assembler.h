// From the LLVM text that this engine writes to an object, without LLVM.
#pragma once

#include <string>
#include <string_view>

namespace kiln::assembler {

// Return the object; if the text is not understood, an empty one, and the reason in `refusal`.
std::string assemble(std::string_view text, std::string& refusal);

}  // namespace kiln::assembler
