#include "native/native.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "arrays/array.h"
#include "arrays/memory.h"
#include "waiting/exceptions.h"

namespace kiln {
namespace {

// Programs on less data than this finish before another thread could take the GIL.
constexpr size_t kLetOthersRun = 1 << 16;

size_t total(const std::vector<ValueType>& types) {
  size_t sum = 0;
  for (const ValueType& type : types) sum += type.bytes;
  return sum;
}

// Read pairs (result, operand) of the same number of bytes.
bool read_pairs(PyObject* given, const NativeSignature& signature,
                std::vector<Py_ssize_t>& operand_of, bool& has_any) {
  operand_of.assign(signature.results.size(), NativeSignature::kNone);
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    Py_ssize_t result, operand;
    if (!PyTuple_Check(item)) {
      PyErr_SetString(PyExc_TypeError,
                      "the memory of a result is a pair of its number and one of "
                      "an operand");
      return false;
    }
    if (!PyArg_ParseTuple(item, "nn", &result, &operand)) return false;
    size_t made = signature.results.size(), taken = signature.operands.size();
    if (result < 0 || operand < 0 || static_cast<size_t>(result) >= made ||
        static_cast<size_t>(operand) >= taken) {
      PyErr_Format(PyExc_IndexError, "result %zd in operand %zd, of %zu and %zu", result, operand,
                   made, taken);
      return false;
    }
    if (signature.results[static_cast<size_t>(result)].bytes !=
        signature.operands[static_cast<size_t>(operand)].bytes) {
      PyErr_Format(PyExc_ValueError, "result %zd has another size than operand %zd", result,
                   operand);
      return false;
    }
    operand_of[static_cast<size_t>(result)] = operand;
    has_any = true;
  }
  return true;
}

bool read_sizes(PyObject* given, std::vector<int64_t>& sizes) {
  Ref items = Ref::own(PySequence_Tuple(given));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(items.get(), i));
    if (size == -1 && PyErr_Occurred()) return false;
    sizes.push_back(size);
  }
  return true;
}

// Values that stay the same in all calls: what a function returned.
bool read_kept(PyObject* given, NativeSignature& signature) {
  signature.kept_memory = Ref::own(PySequence_Tuple(given));
  if (!signature.kept_memory) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(signature.kept_memory.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(signature.kept_memory.get(), i);
    if (!is_memory(item)) {
      PyErr_Format(PyExc_TypeError, "what is kept are memory blocks, not %.100s",
                   Py_TYPE(item)->tp_name);
      return false;
    }
    signature.kept.push_back(reinterpret_cast<MemoryBlock*>(item)->data);
  }
  return true;
}

int native_init(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"",        "",       "",        "",          "workspace", "sizes",
                                "shared",  "reused", "explain", "callbacks", "is_long",   "threads",
                                "improve", "calls",  "kept",    nullptr};
  Native* self = reinterpret_cast<Native*>(object);
  if (!may_be_made(self->signature != nullptr, object)) return -1;
  unsigned long long address;
  PyObject *operands, *results, *owner = Py_None, *sizes = nullptr, *shared = nullptr,
                                *reused = nullptr, *explain = Py_None, *callbacks = nullptr,
                                *improve = Py_None, *kept = nullptr;
  Py_ssize_t workspace = 0;
  int is_long = 0, threads = 0;
  long long calls = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KOO|O$nOOOOOpiOLO", const_cast<char**>(names),
                                   &address, &operands, &results, &owner, &workspace, &sizes,
                                   &shared, &reused, &explain, &callbacks, &is_long, &threads,
                                   &improve, &calls, &kept)) {
    return -1;
  }
  if (address == 0) {
    PyErr_SetString(PyExc_ValueError, "a compiled function has an address");
    return -1;
  }
  if (workspace < 0) {
    PyErr_SetString(PyExc_ValueError, "a workspace has at least 0 bytes");
    return -1;
  }
  if (threads < 0) {
    PyErr_SetString(PyExc_ValueError, "a number of threads is at least 1, or 0 for the default");
    return -1;
  }
  auto made = std::make_unique<NativeSignature>();
  Ref none = Ref::own(PyTuple_New(0));
  auto given = [&](PyObject* object) { return object == nullptr ? none.get() : object; };
  if (!none || !read_value_types(operands, made->operands) ||
      !read_value_types(results, made->results) || !read_sizes(given(sizes), made->sizes) ||
      !read_pairs(given(shared), *made, made->shared, made->shares) ||
      !read_pairs(given(reused), *made, made->reused, made->reuses) ||
      !read_callbacks(given(callbacks), made->callbacks) || !read_kept(given(kept), *made)) {
    return -1;
  }
  made->workspace = static_cast<size_t>(workspace);
  made->threads = threads;
  made->pool = threads == 1 ? nullptr : current_pool();
  // A worker thread that calls Python waits for the GIL.
  made->is_long = is_long || !made->callbacks.empty() ||
                  total(made->operands) + total(made->results) >= kLetOthersRun;
  // Python code ran.
  if (!may_be_made(self->signature != nullptr, object)) return -1;
  self->entry = reinterpret_cast<Entry>(address);
  self->owner = Py_NewRef(owner);
  self->explain = Py_NewRef(explain);
  self->improve = Py_NewRef(improve);
  self->calls = calls;
  self->signature = made.release();
  return 0;
}

int native_traverse(PyObject* object, visitproc visit, void* arg) {
  Native* self = reinterpret_cast<Native*>(object);
  Py_VISIT(self->owner);
  Py_VISIT(self->explain);
  Py_VISIT(self->improve);
  if (self->signature == nullptr) return 0;
  for (PythonCallback& callback : self->signature->callbacks) Py_VISIT(callback.function.get());
  return 0;
}

int native_clear(PyObject* object) {
  Native* self = reinterpret_cast<Native*>(object);
  // What a call in progress needs stays alive: nothing can start a new call, but the running one
  // holds a reference.
  Py_CLEAR(self->explain);
  Py_CLEAR(self->improve);
  return 0;
}

void native_dealloc(PyObject* object) {
  Native* self = reinterpret_cast<Native*>(object);
  PyObject_GC_UnTrack(object);
  Py_TRASHCAN_BEGIN(object, native_dealloc)
  Py_CLEAR(self->explain);
  Py_CLEAR(self->improve);
  delete std::exchange(self->signature, nullptr);
  Py_CLEAR(self->owner);
  Py_TYPE(object)->tp_free(object);
  Py_TRASHCAN_END
}

// The error of a call, raised by the engine.
[[gnu::cold, gnu::noinline]] void raise_error(Native* native, int32_t status, const Fault& fault) {
  if (status == kRaised) {
    if (PyErr_Occurred()) return;
    PyErr_SetString(PyExc_SystemError, "compiled code says that it raised an exception");
    return;
  }
  if (native->explain != nullptr && native->explain != Py_None) {
    Ref explain = Ref::borrow(native->explain);
    Ref answer = Ref::own(PyObject_CallFunction(
        explain.get(), "iiLL", static_cast<int>(status), static_cast<int>(fault.site),
        static_cast<long long>(fault.index), static_cast<long long>(fault.iteration)));
    if (!answer) return;
  }
  PyErr_Format(PyExc_RuntimeError,
               "compiled code stopped with status %d at site %d, index %lld, iteration %lld",
               static_cast<int>(status), static_cast<int>(fault.site),
               static_cast<long long>(fault.index), static_cast<long long>(fault.iteration));
}

bool has_right_count(const NativeSignature& signature, Py_ssize_t count, Py_ssize_t asked) {
  size_t taken = signature.operands.size(), made = signature.results.size();
  if (static_cast<size_t>(count) == taken && static_cast<size_t>(asked) == made) return true;
  PyErr_Format(
      PyExc_TypeError,
      "a compiled function of %zu operands and %zu results was given %zd and asked for %zd", taken,
      made, count, asked);
  return false;
}

// The memory of the results of one call.
class Results {
 public:
  explicit Results(size_t count) : memory_(inline_memory_), pointers_(inline_), count_(count) {
    if (count > kInline) {
      heap_ = std::make_unique<void*[]>(2 * count);
      memory_ = reinterpret_cast<PyObject**>(heap_.get());
      pointers_ = heap_.get() + count;
    }
    // One by one: calling `memset` would take longer.
    for (size_t i = 0; i < count; ++i) memory_[i] = nullptr;
  }
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() {
    for (size_t i = 0; i < count_; ++i) Py_XDECREF(memory_[i]);
  }

  PyObject* memory(size_t number) const { return memory_[number]; }
  void* const* pointers() const { return pointers_; }
  bool put(size_t number, Ref memory) {
    if (!memory) return false;
    pointers_[number] = reinterpret_cast<MemoryBlock*>(memory.get())->data;
    memory_[number] = memory.release();
    return true;
  }

 private:
  static constexpr size_t kInline = 16;
  PyObject** memory_;
  void** pointers_;
  const size_t count_;
  PyObject* inline_memory_[kInline];
  void* inline_[kInline];
  std::unique_ptr<void*[]> heap_;
};

Ref fresh(size_t bytes) { return Ref::own(reinterpret_cast<PyObject*>(allocate(bytes))); }

// Raise the out-of-memory error of a program, with its name.
[[gnu::cold, gnu::noinline]] void raise_program_out_of_memory(Native* native, size_t bytes) {
  dismiss_exception();
  Ref name = Ref::own(PyObject_GetAttrString(reinterpret_cast<PyObject*>(native), "name"));
  if (!name) dismiss_exception();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (text == nullptr) dismiss_exception();
  raise_out_of_memory(
      text == nullptr ? "running a program" : (std::string("running ") + text).c_str(), bytes);
}

// Memory for a call of a program.
Ref fresh(Native* native, size_t bytes) {
  Ref memory = fresh(bytes);
  if (!memory && is_out_of_memory()) raise_program_out_of_memory(native, bytes);
  return memory;
}

// Results that are operands. Memory that the user may write is copied.
bool share(const NativeSignature& signature, const Operands& operands, Results& results) {
  for (size_t i = 0; i < signature.results.size(); ++i) {
    if (signature.shared[i] == NativeSignature::kNone) continue;
    size_t number = static_cast<size_t>(signature.shared[i]);
    size_t bytes = signature.results[i].bytes;
    MemoryBlock* memory = operands.memory(number, bytes);
    if (memory != nullptr) {
      results.put(i, Ref::borrow(reinterpret_cast<PyObject*>(memory)));
      continue;
    }
    if (!results.put(i, fresh(bytes))) return false;
    if (bytes > 0) std::memcpy(results.pointers()[i], operands.pointers()[number], bytes);
  }
  return true;
}

// Results that reuse the memory of donated operands.
void reuse(const NativeSignature& signature, Operands& operands, Results& results,
           PyObject* const* args, const std::vector<Py_ssize_t>& donated) {
  for (size_t i = 0; i < signature.results.size(); ++i) {
    Py_ssize_t number = signature.reused[i];
    if (number == NativeSignature::kNone || results.memory(i) != nullptr) continue;
    for (Py_ssize_t each : donated) {
      if (each != number) continue;
      Ref memory = operands.take_memory(static_cast<size_t>(number), signature.results[i].bytes,
                                        args[number]);
      if (memory) results.put(i, std::move(memory));
      break;
    }
  }
}

// Ask for optimized code, which gives the same results. The previous code stays in memory, because
// other threads may be executing it. After an interrupt, the next call asks again.
[[gnu::cold, gnu::noinline]] bool improve(Native* native) {
  if (native->improve == nullptr || native->improve == Py_None) return true;
  Ref self = Ref::borrow(reinterpret_cast<PyObject*>(native));
  Ref ask = Ref::borrow(native->improve);
  Ref found = Ref::own(PyObject_CallNoArgs(ask.get()));
  unsigned long long address;
  PyObject* owner;
  if (!found) {
    native->calls = 1;
    return false;
  }
  if (found.get() == Py_None) return true;
  if (!PyArg_ParseTuple(found.get(), "KO", &address, &owner)) return false;
  Ref both = Ref::own(PyTuple_Pack(2, native->owner, owner));
  if (!both || address == 0) return static_cast<bool>(both);
  Ref before = Ref::own(std::exchange(native->owner, both.release()));
  native->entry = reinterpret_cast<Entry>(address);
  Py_CLEAR(native->improve);
  return true;
}

bool run(Native* native, Operands& operands, Results& results, PyObject* const* args,
         const std::vector<Py_ssize_t>* donated) {
  const NativeSignature& signature = *native->signature;
  if (native->calls > 0 && --native->calls == 0 && !improve(native)) return false;
  if (signature.shares && !share(signature, operands, results)) return false;
  Ref workspace;
  RunningCall call(signature.callbacks);
  if (signature.workspace > 0) {
    workspace = fresh(native, signature.workspace);
    if (!workspace) return false;
    call.workspace = static_cast<char*>(reinterpret_cast<MemoryBlock*>(workspace.get())->data);
  }
  if (signature.reuses && donated != nullptr) {
    reuse(signature, operands, results, args, *donated);
  }
  for (const void* each : signature.kept) operands.add_kept(each);
  bool has_memory = signature.shares || signature.reuses;
  for (size_t i = 0; i < signature.results.size(); ++i) {
    if (has_memory && results.memory(i) != nullptr) continue;
    if (!results.put(i, fresh(native, signature.results[i].bytes))) return false;
  }
  call.operands = operands.pointers();
  call.results = results.pointers();
  call.sizes = signature.sizes.data();
  call.set_threads(signature.threads);
  call.pool = signature.pool;
  const Entry entry = native->entry;
  if (signature.is_long) call.release_lock();
  int32_t status = entry(&call);
  call.end();
  if (status == kDone) {
    // An interrupt after the last poll must not arrive while the caller drops references: an
    // exception in a weak-reference callback is lost.
    return !(signature.is_long || call.was_polled()) || PyErr_CheckSignals() == 0;
  }
  if (status == kOutOfMemory) {
    raise_program_out_of_memory(native, 0);
    return false;
  }
  raise_error(native, status, *call.fault);
  return false;
}

// native(buffers): the call of an engine's executable. Buffers in host memory are ndarrays, or
// memory blocks from which an array of the right type will be created.
PyObject* native_call(PyObject* object, PyObject* args, PyObject*) {
  Native* native = reinterpret_cast<Native*>(object);
  PyObject* given;
  if (!was_made(native->signature != nullptr, object) || !PyArg_ParseTuple(args, "O", &given)) {
    return nullptr;
  }
  Ref buffers = Ref::own(PySequence_Tuple(given)), self = Ref::borrow(object);
  if (!buffers) return nullptr;
  const NativeSignature& signature = *native->signature;
  size_t taken = signature.operands.size(), made = signature.results.size();
  if (!has_right_count(signature, PyTuple_GET_SIZE(buffers.get()), static_cast<Py_ssize_t>(made))) {
    return nullptr;
  }
  Operands operands(taken + signature.kept.size());
  for (size_t i = 0; i < taken; ++i) {
    PyObject* buffer = PyTuple_GET_ITEM(buffers.get(), static_cast<Py_ssize_t>(i));
    if (!operands.add(buffer, signature.operands[i])) return nullptr;
  }
  Results results(made);
  if (!run(native, operands, results, nullptr, nullptr)) return nullptr;
  Ref all = Ref::own(PyList_New(static_cast<Py_ssize_t>(made)));
  for (size_t i = 0; all && i < made; ++i) {
    PyList_SET_ITEM(all.get(), static_cast<Py_ssize_t>(i), Py_NewRef(results.memory(i)));
  }
  return all.release();
}

}  // namespace

PyTypeObject native_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Native",
    .tp_basicsize = sizeof(Native),
    .tp_dealloc = native_dealloc,
    .tp_call = native_call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A compiled function, called by address.",
    .tp_traverse = native_traverse,
    .tp_clear = native_clear,
    .tp_init = native_init,
    .tp_new = PyType_GenericNew,
};

Ref run_native(Native* native, PyObject* const* args, Py_ssize_t count,
               const NativeCallOptions& options) {
  if (!was_made(native->signature != nullptr, reinterpret_cast<PyObject*>(native))) return Ref();
  const NativeSignature& signature = *native->signature;
  size_t taken = signature.operands.size(), made = signature.results.size();
  if (!has_right_count(signature, count, PyTuple_GET_SIZE(options.out_avals))) return Ref();
  Operands operands(taken + signature.kept.size(), options.takes_placed);
  for (size_t i = 0; i < taken; ++i) {
    if (operands.add(args[i], signature.operands[i])) continue;
    if (options.convert == nullptr || !PyErr_ExceptionMatches(PyExc_TypeError) ||
        is_array(args[i])) {
      return Ref();
    }
    PyErr_Clear();
    Ref converted = options.convert(options.context, i, args[i]);
    if (!converted || !operands.add(converted.get(), signature.operands[i])) return Ref();
  }
  Ref arrays = Ref::own(PyList_New(static_cast<Py_ssize_t>(made)));
  Results results(made);
  if (!arrays || !run(native, operands, results, args, options.donated)) return Ref();
  for (size_t i = 0; i < made; ++i) {
    Py_ssize_t n = static_cast<Py_ssize_t>(i);
    PyObject* aval = PyTuple_GET_ITEM(options.out_avals, n);
    Ref array = options.out_shardings == nullptr
                    ? make_array(aval, results.memory(i), Py_None, Py_None)
                    : make_placed(aval, results.memory(i), Py_None, Py_None,
                                  PyTuple_GET_ITEM(options.out_shardings, n), options.committed);
    if (!array) return array;
    PyList_SET_ITEM(arrays.get(), n, array.release());
  }
  return arrays;
}

int add_native(PyObject* module) { return add_type(module, &native_type); }

}  // namespace kiln
