// How compiled code is called, and what it calls: the ABI of the native engine.
#pragma once

#include <cstdint>

namespace kiln {

class Pool;

// Why compiled code stopped early. The engine maps the numbers to the line in the user's code.
struct Fault {
  // Which of the program's checks failed. If checks fail on several threads, the greatest number is
  // stored here, without a lock: the code numbers its checks backwards, so that the first one wins.
  int32_t site;
  int64_t index;      // the offending index or element
  int64_t iteration;  // of the innermost enclosing loop
};

// What a call passes to compiled code. Generated code reads the fields by position: each is eight
// bytes, also where pointers have four. It passes the pointer on unchanged: private data of the call
// follow these fields.
//
// Results may lie where operands do. A *shared* result is the memory of its operand and holds its
// values before the call: compiled code never writes it. A *reused* result either is the memory of
// its operand, to which there is no other reference, or is fresh memory: compiled code must be
// correct in both cases. No other result overlaps an operand. Results are aligned to 64 bytes,
// operands to the size of their elements.
struct Call {
  alignas(8) const void* const* operands;
  alignas(8) void* const* results;
  alignas(8) const int64_t* sizes;  // of named axes
  alignas(8) char* workspace;       // aligned workspace for temporaries
  alignas(8) Pool* pool;            // null: single-threaded
  alignas(8) Fault* fault;          // of the thread
  alignas(8) Fault* found;          // of the call: failed checks, see `Fault::site`
};

// What a function of compiled code returns. A positive number is an error of a kernel.
enum Status : int32_t {
  kDone = 0,
  kRaised = -1,      // a Python exception is set
  kFaulted = -2,     // `Call::fault` says where
  kOutOfMemory = 1,  // of a kernel
};

// The entry of a compiled program.
using Entry = int32_t (*)(Call*);

// A kernel that compiled code calls by name: operands first, then results, all row-major; each
// kernel defines the meaning of its numbers. It neither needs nor takes the GIL.
using Kernel = int32_t (*)(Call*, void* const* buffers, const int64_t* numbers);

// Every program may call three functions, and instrumented programs two more. If one returns
// anything but `kDone`, its caller returns that at once.
//
// int32_t kiln_poll(Call*): called in each iteration of a loop of unknown trip count, so that
// signals are handled and other threads run. It costs about a nanosecond.
//
// int32_t kiln_call_python(Call*, void* const* buffers, const int64_t* numbers): calls a Python
// function, numbers[0] of the program's `callbacks`, on copies of its operands, and copies what it
// returns to its results.
//
// int32_t kiln_parallel(Call*, int32_t (*body)(Call*, void* context, int64_t begin, int64_t end),
// void* context, int64_t count, int64_t grain): `run_in_parallel` of `abi/pool.h`.

//
// int64_t kiln_clock(): nanoseconds, on the clock of Python's `time.monotonic_ns`.
//
// int64_t kiln_measured(Measurements*, int64_t statement, int64_t start, int64_t bytes, int64_t
// operations): records the end of a statement that began at `start`, and its cost, and returns
// the time; statements inside loops pass the complements of their numbers. See `measurements.cc`.

}  // namespace kiln
