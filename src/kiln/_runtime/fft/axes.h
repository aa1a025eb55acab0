// Transforms of arrays: many rows, several axes, real numbers.
#pragma once

#include <cstdint>

#include "abi/native_call.h"

namespace kiln {

enum FftKind : int64_t { kForward, kInverse, kFromReal, kToReal };  // as in ops/linear/fft.py

// Transforms complex numbers with parts of type T, given the buffers and numbers of the kernel, on
// the call's threads. Throws if memory runs out.
template <typename T>
void fft_transform(Call* call, void* const* buffers, const int64_t* numbers);

// Makes the tables that it needs, and returns the scratch memory that a thread needs, in bytes.
template <typename T>
int64_t fft_prepare(const int64_t* numbers);

}  // namespace kiln
