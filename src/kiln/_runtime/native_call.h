// How compiled code is called, and what it calls: the binary interface of the native engine.
#pragma once

#include <cstdint>

namespace kiln {

class Pool;

// Why compiled code stopped early. The engine turns the numbers into the user's line.
struct Fault {
  // Which of the program's checks failed. Checks that fail on several threads put the greatest
  // number of all here, without waiting: the code numbers its checks from the last one on.
  int32_t site;
  int64_t index;      // the index or element it met
  int64_t iteration;  // of the innermost loop around it
};

// What a call hands to compiled code. Emitted code reads the fields by their order: each is eight
// bytes. It passes the pointer on as it is: what belongs to the call lies behind these fields.
//
// Results may lie where operands do. A *shared* result is the memory of its operand and holds its
// values before the call: compiled code never writes it. A *reused* result either is the memory of
// its operand, which nobody else looks at, or is fresh memory: compiled code must be right in both
// cases. All other results are apart from all operands. All are aligned to 64 bytes, operands as
// their element types are.
struct Call {
  const void* const* operands;
  void* const* results;
  const int64_t* sizes;  // of named axes
  char* workspace;       // aligned memory for values that live within the call
  Pool* pool;            // null: everything runs on the calling thread
  Fault* fault;          // of the thread
  Fault* found;          // of the call: what its checks found, see `Fault::site`
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

// A kernel that compiled code calls by name: operands first, then results, all row-major; what the
// numbers mean is the kernel's own. It neither needs nor takes the interpreter's lock.
using Kernel = int32_t (*)(Call*, void* const* buffers, const int64_t* numbers);

// Three functions are there in each program, and two more in those that measure themselves. What they return, if it is not `kDone`, is returned at
// once by their caller.
//
// int32_t kiln_poll(Call*): called in each iteration of a loop of unknown length, so that signals
// arrive and other threads run. It costs about a nanosecond.
//
// int32_t kiln_call_python(Call*, void* const* buffers, const int64_t* numbers): calls a Python
// function, numbers[0] of the program's `callbacks`, on copies of its operands, and copies what it
// returns to its results.
//
// int32_t kiln_parallel(Call*, int32_t (*body)(Call*, void* context, int64_t begin, int64_t end),
// void* context, int64_t count, int64_t grain): `run_in_parallel` of `pool.h`.

//
// int64_t kiln_clock(): nanoseconds, on the clock of Python's `time.monotonic_ns`.
//
// void kiln_measured(Measurements*, int64_t statement, int64_t start, int64_t bytes, int64_t
// operations): notes that a statement that began at a time has ended, and what it took; those inside
// loops have the complements of their numbers. See `measurements.cc`.

}  // namespace kiln
