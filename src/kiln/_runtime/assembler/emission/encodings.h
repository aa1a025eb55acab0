// Which instructions have both encodings of vector instructions: EVEX and VEX.
#pragma once

#include "assembler/emission/machine.h"

namespace kiln::assembler {

// Encode an operation by VEX, for x86-64-v3. Operations are given by EVEX; one that has no other
// encoding is rejected: no family of instructions can let it slip through.
void to_vex(Op& op);

}  // namespace kiln::assembler
