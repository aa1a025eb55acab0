// What a plan does, step by step, as it is told by engines/native/ and checked: no step leaves the
// memory of its operands.
#pragma once

#include <vector>

#include "loops.h"
#include "memory.h"
#include "numpy.h"
#include "operands.h"

namespace kiln {

constexpr int kMostAxes = 32;

// Where an operand is: a buffer, and the bytes to its first element.
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
  int outer = 0;  // axes around the one of the loop
  intptr_t count = 0;
  intptr_t inner[kMostOperands] = {};
  BufferOffset starts[kMostOperands] = {};
  std::vector<intptr_t> sizes;    // of the outer axes
  std::vector<intptr_t> strides;  // for each outer axis, of each operand
  // Of a loop over more than elements, as NumPy has them.
  std::vector<intptr_t> core_sizes, core_steps;
  bool is_empty = false;  // an axis has no elements

  Ref function;
  std::vector<View> given, made;
};

// What the bytes of a buffer are. (The names of these enumerations for Python are in schedule.cc.)
enum BufferSource : int { kInput, kConstant, kScratch, kResult, kFromFunction };

struct Buffer {
  BufferSource source;
  intptr_t number;  // of the input; of others their bytes
  intptr_t bytes = 0;
  intptr_t aligned = kAlignment;  // to so many bytes
  size_t offset = 0;              // in the scratch memory
  bool is_there = true;           // not before a function has made it
  Ref constant;
};

// How a result is made: of a buffer, of the memory of an input, or it is an input.
enum Outcome : int { kFresh, kSame, kSharing };

struct Result {
  Outcome outcome;
  int buffer;
  Ref aval;
};

enum Container : int { kSingle, kTuple, kList };

struct Schedule {
  std::vector<ValueType> inputs;
  std::vector<intptr_t> aligned;  // to how many bytes each input is
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Result> results;
  Container container = kSingle;
  size_t scratch = 0;
  size_t bytes = 0;
  intptr_t work = 0;  // elements in all loops
  bool calls = false;
};

// Read the arguments that a Plan is made of; false with an exception set if they are no program.
bool read_schedule(PyObject* args, Schedule& schedule);

}  // namespace kiln
