// An executable that enqueues a program and returns futures of its results, as XLA's does.
#pragma once

#include <memory>
#include <vector>

#include "arrays/memory.h"
#include "arrays/operands.h"

namespace kiln {

// Memory of an operand that the host writes and the executable reads, reused on every call.
struct HostOperand {
  Ref memory;
  Ref buffer;  // the engine's, of that memory
};
using HostOperandList = std::vector<HostOperand>;

struct Launcher {
  PyObject_HEAD
  PyObject* execute;   // buffers -> results
  PyObject* lock;      // `LaunchLock` under which it launches, or null
  PyObject* handlers;  // given to `results.consume_with_handlers`
  PyObject* name;
  PyObject* share;                   // (number of an operand, memory) -> a buffer of it, or None
  std::vector<ValueType>* operands;  // no bytes: the host cannot write that operand
  HostOperandList* host_operands;  // of the last call, if it has ended; null while a call uses them
  int calls_without;    // how many further calls do without: the last run did not end at once
  char launches_alone;  // whether nothing else may be launched meanwhile
  char runs_alone;      // whether that holds until the run has ended, for which calls wait
  char is_slow;         // whether the last call blocked its thread for long, as the first one may
  char calls_host;      // whether programs call Python: signals arrive there
};

extern PyTypeObject launcher_type;

inline bool is_launcher(PyObject* object) {
  return PyObject_TypeCheck(object, &launcher_type) &&
         Py_TYPE(object)->tp_call == launcher_type.tp_call;
}

// Run on buffers and return buffers.
Ref launch(Launcher* launcher, PyObject* buffers);

// The operands of one call that the host writes. Their memory returns to the launcher when the run
// has ended.
class HostOperands {
 public:
  // For an executable called with `count` operands; does nothing if it is not a launcher.
  HostOperands(PyObject* run, size_t count);
  HostOperands(const HostOperands&) = delete;
  HostOperands& operator=(const HostOperands&) = delete;
  ~HostOperands() { delete list_; }

  // Whether an operand's value can be written directly to where the executable reads it.
  bool takes(size_t number, PyObject* value) const;

  // Return a buffer with the value of a NumPy array or scalar; null, without an exception, if the
  // engine does not share memory.
  Ref buffer(size_t number, PyObject* value);

  // Pass the results: memory that is still being read must not be overwritten.
  void end(PyObject* results);

 private:
  Launcher* launcher_ = nullptr;
  HostOperandList* list_ = nullptr;
  bool is_open_ = false;
};

}  // namespace kiln
