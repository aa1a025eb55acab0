// An executable that enqueues a program and hands its results over, as XLA's does.
#pragma once

#include <memory>
#include <vector>

#include "memory.h"
#include "operands.h"

namespace kiln {

// An operand that is written by the host and read by the executable, call after call.
struct Stage {
  Ref memory;
  Ref buffer;  // the engine's, of that memory
};
using Stages = std::vector<Stage>;

struct Launcher {
  PyObject_HEAD
  PyObject* execute;   // buffers -> results
  PyObject* handlers;  // given to `results.consume_with_handlers`
  PyObject* name;
  PyObject* share;                // (number of an operand, memory) -> a buffer of it, or None
  std::vector<Layout>* operands;  // no bytes: the operand cannot be staged
  Stages* stages;                 // of the last call, if it has ended; null while a call uses them
  int calls_without;  // how many calls to come go without: the last one did not end at once
  char is_slow;       // whether the last call kept its thread for long, as the first one may
  char calls_host;    // whether programs call Python: signals arrive there
};

extern PyTypeObject launcher_type;

inline bool is_launcher(PyObject* object) {
  return PyObject_TypeCheck(object, &launcher_type) &&
         Py_TYPE(object)->tp_call == launcher_type.tp_call;
}

// Run on buffers and return buffers.
Ref launch(Launcher* launcher, PyObject* buffers);

// The staged operands of one call. They are the launcher's again once it has ended.
class Staging {
 public:
  // Of an executable that is called with `count` operands; of none if it is no launcher.
  Staging(PyObject* run, size_t count);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() { delete stages_; }

  // Whether an operand's value can be written where the executable reads it.
  bool takes(size_t number, PyObject* value) const;

  // Return a buffer with the value of a NumPy array or scalar; nothing, without an exception, if
  // the engine does not share memory.
  Ref buffer(size_t number, PyObject* value);

  // Tell it the results: memory that is still being read is not written again.
  void end(PyObject* results);

 private:
  Launcher* launcher_ = nullptr;
  Stages* stages_ = nullptr;
  bool is_open_ = false;
};

}  // namespace kiln
