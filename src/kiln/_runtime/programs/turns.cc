#include "programs/turns.h"

#include <structmember.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "waiting/exceptions.h"
#include "waiting/waiting.h"

namespace kiln {

// Changed only while the GIL is held.
struct Turns {
  PyObject_HEAD
  PyObject* left;  // a list: the results of exclusive runs that are in progress, or were left so
  std::deque<Turn*>* waiting;
  int taken;
  char is_alone;  // whether the current turn excludes others

  void wait(Turn* turn) {
    turn->state_ = Turn::State::waiting;
    waiting->push_back(turn);
    admit();
  }

  void end(Turn* turn) {
    Turn::State state = std::exchange(turn->state_, Turn::State::none);
    if (state == Turn::State::waiting) {
      waiting->erase(std::find(waiting->begin(), waiting->end(), turn));
    } else if (state == Turn::State::taken) {
      --taken;
      is_alone = false;
    }
    admit();
  }

  void admit() {
    while (!waiting->empty() && !is_alone) {
      Turn* next = waiting->front();
      if (next->alone_ && taken > 0) return;
      waiting->pop_front();
      next->state_ = Turn::State::taken;
      ++taken;
      is_alone = next->alone_;
    }
  }
};

namespace {

thread_local Turn* innermost = nullptr;

Turns* as_turns(PyObject* object) { return reinterpret_cast<Turns*>(object); }

PyObject* turns_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  as_turns(self)->waiting = new std::deque<Turn*>;
  as_turns(self)->left = PyList_New(0);
  if (as_turns(self)->left == nullptr) Py_CLEAR(self);
  return self;
}

int turns_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_turns(self)->left);
  return 0;
}

// The list itself stays: turns that are taken use it.
int turns_clear(PyObject* self) {
  PyObject* left = as_turns(self)->left;
  return left == nullptr ? 0 : PyList_SetSlice(left, 0, PyList_GET_SIZE(left), nullptr);
}

void turns_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(as_turns(self)->left);
  delete as_turns(self)->waiting;
  Py_TYPE(self)->tp_free(self);
}

PyObject* call_alone(PyObject* self, PyObject* function) {
  Turn turn(self, true);
  return turn.failed() ? nullptr : PyObject_CallNoArgs(function);
}

PyMethodDef methods[] = {
    {"alone", call_alone, METH_O, "Call a function while no other thread has a turn."},
    {nullptr},
};

PyMemberDef members[] = {
    {"_left", T_OBJECT_EX, offsetof(Turns, left), READONLY,
     "The results of runs that an interrupt left in progress."},
    {nullptr},
};

PyTypeObject turns_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Turns",
    .tp_basicsize = sizeof(Turns),
    .tp_dealloc = turns_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Turns to launch programs: many concurrently, or one exclusively until it ends.",
    .tp_traverse = turns_traverse,
    .tp_clear = turns_clear,
    .tp_methods = methods,
    .tp_members = members,
    .tp_new = turns_new,
};

}  // namespace

bool is_in_turn() { return innermost != nullptr; }

Turn::Turn(PyObject* turns, bool alone) : alone_(alone) {
  if (turns == nullptr || !Py_IS_TYPE(turns, &turns_type)) return;
  turns_ = Ref::borrow(turns);
  around_ = std::exchange(innermost, this);
  failed_ = !take() || !wait_for_left();
}

Turn::~Turn() {
  if (!turns_) return;
  innermost = around_;
  bool was_taken = state_ == State::taken;
  if (lender_ != nullptr && was_taken) {
    // Nobody gets in between.
    std::swap(state_, lender_->state_);
    as_turns(turns_.get())->is_alone = false;
    as_turns(turns_.get())->admit();
    return;
  }
  give_back();
}

bool Turn::take() {
  // The thread that shuts the interpreter down does not wait: other threads are blocked.
  if (is_closed) return true;
  Turns* turns = as_turns(turns_.get());
  Turn* outer = around_;
  while (outer != nullptr &&
         (outer->turns_.get() != turns_.get() || outer->state_ == State::none)) {
    outer = outer->around_;
  }
  if (outer != nullptr) {
    // That thread waits in a signal handler now, or in a finalizer.
    bool has_turn = outer->state_ == State::taken;
    if (has_turn && (outer->alone_ || !alone_)) return true;
    if (has_turn) lender_ = outer;
    outer->give_back();
  }
  turns->wait(this);
  return wait_until([this, turns] {
    if (state_ == State::none) turns->wait(this);
    return state_ == State::taken;
  });
}

void Turn::give_back() {
  if (state_ != State::none) as_turns(turns_.get())->end(this);
}

bool Turn::finish(PyObject* results) {
  if (!turns_) return true;
  return PyList_Append(as_turns(turns_.get())->left, results) == 0 && wait_for_left();
}

bool Turn::wait_for_left() {
  PyObject* left = as_turns(turns_.get())->left;
  while (PyList_GET_SIZE(left) > 0) {
    Ref run = Ref::borrow(PyList_GET_ITEM(left, 0));
    for (Py_ssize_t i = 0; PyList_Check(run.get()) && i < PyList_GET_SIZE(run.get()); ++i) {
      Ref result = Ref::borrow(PyList_GET_ITEM(run.get(), i));
      bool has_ended = wait_until([&result] {
        int come = has_come(result.get());
        // The error is raised where the result is read.
        if (come < 0) dismiss_exception();
        return come != 0;
      });
      if (!has_ended) return false;
    }
    // Another thread may have waited for it too.
    bool is_first = PyList_GET_SIZE(left) > 0 && PyList_GET_ITEM(left, 0) == run.get();
    if (is_first && PyList_SetSlice(left, 0, 1, nullptr) < 0) return false;
  }
  return true;
}

int add_turns(PyObject* module) { return add_type(module, &turns_type); }

}  // namespace kiln
