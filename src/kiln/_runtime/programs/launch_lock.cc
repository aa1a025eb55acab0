#include "programs/launch_lock.h"

#include <structmember.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "waiting/exceptions.h"
#include "waiting/waiting.h"

namespace kiln {

// Changed only while the GIL is held.
struct LaunchLock {
  PyObject_HEAD
  PyObject* left;  // a list: the results of exclusive runs that are in progress, or were left so
  std::deque<LaunchGuard*>* waiting;
  int holders;
  char is_alone;  // whether the current holder excludes others

  void wait(LaunchGuard* guard) {
    guard->state_ = LaunchGuard::State::waiting;
    waiting->push_back(guard);
    admit();
  }

  void end(LaunchGuard* guard) {
    LaunchGuard::State state = std::exchange(guard->state_, LaunchGuard::State::none);
    if (state == LaunchGuard::State::waiting) {
      waiting->erase(std::find(waiting->begin(), waiting->end(), guard));
    } else if (state == LaunchGuard::State::held) {
      --holders;
      is_alone = false;
    }
    admit();
  }

  void admit() {
    while (!waiting->empty() && !is_alone) {
      LaunchGuard* next = waiting->front();
      if (next->alone_ && holders > 0) return;
      waiting->pop_front();
      next->state_ = LaunchGuard::State::held;
      ++holders;
      is_alone = next->alone_;
    }
  }
};

namespace {

thread_local LaunchGuard* innermost = nullptr;

LaunchLock* as_lock(PyObject* object) { return reinterpret_cast<LaunchLock*>(object); }

PyObject* lock_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  as_lock(self)->waiting = new std::deque<LaunchGuard*>;
  as_lock(self)->left = PyList_New(0);
  if (as_lock(self)->left == nullptr) Py_CLEAR(self);
  return self;
}

int lock_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_lock(self)->left);
  return 0;
}

// The list itself stays: holders of the lock use it.
int lock_clear(PyObject* self) {
  PyObject* left = as_lock(self)->left;
  return left == nullptr ? 0 : PyList_SetSlice(left, 0, PyList_GET_SIZE(left), nullptr);
}

void lock_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(as_lock(self)->left);
  delete as_lock(self)->waiting;
  Py_TYPE(self)->tp_free(self);
}

PyObject* call_alone(PyObject* self, PyObject* function) {
  LaunchGuard guard(self, true);
  return guard.failed() ? nullptr : PyObject_CallNoArgs(function);
}

PyMethodDef methods[] = {
    {"alone", call_alone, METH_O, "Call a function while no other thread holds the lock."},
    {nullptr},
};

PyMemberDef members[] = {
    {"_left", T_OBJECT_EX, offsetof(LaunchLock, left), READONLY,
     "The results of runs that an interrupt left in progress."},
    {nullptr},
};

PyTypeObject lock_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.LaunchLock",
    .tp_basicsize = sizeof(LaunchLock),
    .tp_dealloc = lock_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "A lock for launches: many hold it concurrently, or one exclusively until its run ends.",
    .tp_traverse = lock_traverse,
    .tp_clear = lock_clear,
    .tp_methods = methods,
    .tp_members = members,
    .tp_new = lock_new,
};

}  // namespace

bool is_launching() { return innermost != nullptr; }

LaunchGuard::LaunchGuard(PyObject* lock, bool alone) : alone_(alone) {
  if (lock == nullptr || !Py_IS_TYPE(lock, &lock_type)) return;
  lock_ = Ref::borrow(lock);
  around_ = std::exchange(innermost, this);
  failed_ = !acquire() || !wait_for_left();
}

LaunchGuard::~LaunchGuard() {
  if (!lock_) return;
  innermost = around_;
  bool was_held = state_ == State::held;
  if (lender_ != nullptr && was_held) {
    // No other thread acquires the lock in between.
    std::swap(state_, lender_->state_);
    as_lock(lock_.get())->is_alone = false;
    as_lock(lock_.get())->admit();
    return;
  }
  release();
}

bool LaunchGuard::acquire() {
  // The thread that shuts the interpreter down does not wait: other threads are blocked.
  if (is_closed) return true;
  LaunchLock* lock = as_lock(lock_.get());
  LaunchGuard* outer = around_;
  while (outer != nullptr && (outer->lock_.get() != lock_.get() || outer->state_ == State::none)) {
    outer = outer->around_;
  }
  if (outer != nullptr) {
    // That thread waits in a signal handler now, or in a finalizer.
    bool is_held = outer->state_ == State::held;
    if (is_held && (outer->alone_ || !alone_)) return true;
    if (is_held) lender_ = outer;
    outer->release();
  }
  lock->wait(this);
  return wait_until([this, lock] {
    if (state_ == State::none) lock->wait(this);
    return state_ == State::held;
  });
}

void LaunchGuard::release() {
  if (state_ != State::none) as_lock(lock_.get())->end(this);
}

bool LaunchGuard::finish(PyObject* results) {
  if (!lock_) return true;
  return PyList_Append(as_lock(lock_.get())->left, results) == 0 && wait_for_left();
}

bool LaunchGuard::wait_for_left() {
  PyObject* left = as_lock(lock_.get())->left;
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

int add_launch_lock(PyObject* module) { return add_type(module, &lock_type); }

}  // namespace kiln
