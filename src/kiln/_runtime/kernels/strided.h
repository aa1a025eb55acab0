// Loops over strided operands, in the form of NumPy's: pointers of operands and results, a count,
// bytes from one element to the next. Compiled once for each level of the processor.
#pragma once

#include <cstdint>

namespace kiln {

using StridedLoop = void (*)(char** args, const intptr_t* count, const intptr_t* steps, void* data);

// Return the loop of a name for elements of a type, or null. Types are NumPy's characters: those of
// the operand, and of the result where it may be another.
StridedLoop strided_baseline(const char* name, char type, char result);
#ifdef KILN_X86_64
StridedLoop strided_v3(const char* name, char type, char result);
StridedLoop strided_v4(const char* name, char type, char result);
#endif

}  // namespace kiln
