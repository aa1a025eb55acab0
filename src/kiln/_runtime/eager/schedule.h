// The steps of a plan, which engines/native/ provides and which are checked here: no step accesses
// memory outside its operands.
#pragma once

#include <vector>

#include "arrays/memory.h"
#include "arrays/operands.h"
#include "eager/loops.h"
#include "objects/numpy.h"

namespace kiln {

constexpr int kMostAxes = 32;

// The location of an operand: a buffer, and the offset of its first element in bytes.
struct BufferOffset {
  int buffer;
  intptr_t offset;
};

// An operand of a NumPy function, or a result of one.
struct View {
  BufferOffset start;
  Ref descr;
  std::vector<npy_intp> shape, strides;
};

struct Step {
  Ref loop;  // a Loop; if there is none, `function` is called
  StridedLoop run = nullptr;
  void* data = nullptr;
  int operands = 0;
  int outer = 0;  // outer axes
  intptr_t count = 0;
  intptr_t inner[kMostOperands] = {};
  BufferOffset starts[kMostOperands] = {};
  std::vector<intptr_t> sizes;    // of the outer axes, in order
  std::vector<intptr_t> strides;  // for each outer axis, of each operand
  // Core dimensions of a generalized loop, as in NumPy.
  std::vector<intptr_t> core_sizes, core_steps;
  bool is_empty = false;  // an axis has no elements

  Ref function;
  std::vector<View> given, made;
};

// The kinds of buffers. (The names of these enumerations for Python are in schedule.cc.)
enum BufferSource : int { kInput, kConstant, kScratch, kResult, kFromFunction };

struct Buffer {
  BufferSource source;
  intptr_t number;  // of the input; of others their bytes
  intptr_t bytes = 0;
  intptr_t aligned = kAlignment;  // in bytes
  size_t offset = 0;              // in the scratch memory
  bool is_there = true;           // only after a function has produced it
  Ref constant;
};

// How a result is produced: from a buffer, from the memory of an input, or as an input itself.
enum Outcome : int { kFresh, kSame, kSharing };

struct Result {
  Outcome outcome;
  int buffer;
  Ref aval;
};

enum Container : int { kSingle, kTuple, kList };

struct Schedule {
  std::vector<ValueType> inputs;
  std::vector<intptr_t> aligned;  // the alignment of each input in bytes
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Result> results;
  Container container = kSingle;
  size_t scratch = 0;
  size_t bytes = 0;
  intptr_t work = 0;  // elements in all loops
  bool calls = false;
};

// Parse the constructor arguments of a Plan; false with an exception set if they do not form a
// valid program.
bool read_schedule(PyObject* args, Schedule& schedule);

}  // namespace kiln
