// Transforms of arrays: many rows, several axes, real numbers.
#pragma once

#include <cstdint>

#include "../native_call.h"

namespace kiln {

enum FftKind : int64_t { kForward, kInverse, kFromReal, kToReal };  // as in ops/fft.py

// Of complex numbers with parts of type T, by the buffers and numbers of the kernel, on the threads
// of the call. Memory that runs out is thrown.
template <typename T>
void fft_transform(Call* call, void* const* buffers, const int64_t* numbers);

}  // namespace kiln
