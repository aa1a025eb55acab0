// The call of a jitted function. A call that matches an earlier one is recognized by traversing its
// arguments and runs here; every other call falls back to `_call`, the definition of a call, in
// jit/function.py.
#include <map>
#include <memory>
#include <vector>

#include "calls/miss.h"
#include "calls/signature.h"
#include "programs/placed.h"
#include "state/state.h"
#include "trees/tree.h"

namespace kiln {
namespace {

// Programs for other sizes are created again: they share code and are small.
constexpr size_t kMostSizes = 4096;

struct Callable {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  KnownCalls* known;
};

PyObject* slow_name = nullptr;
PyObject* static_key = nullptr;  // of jit/signatures/static_values.py

// The leaves of a call, held while it runs: user code may change the containers.
class Values {
 public:
  ~Values() {
    for (size_t i = 0; i < size_; ++i) Py_DECREF(data()[i]);
  }
  void reserve(size_t count) {
    if (count > kInline) heap_.resize(count);
  }
  void push(PyObject* object) { data()[size_++] = Py_NewRef(object); }
  PyObject** data() { return heap_.empty() ? inline_ : heap_.data(); }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kInline = 32;
  PyObject* inline_[kInline];
  std::vector<PyObject*> heap_;
  size_t size_ = 0;
};

bool has_names(PyObject* kwnames, PyObject* wanted) {
  Py_ssize_t count = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  if (count != (wanted == nullptr ? 0 : PyTuple_GET_SIZE(wanted))) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject *given = PyTuple_GET_ITEM(kwnames, i), *name = PyTuple_GET_ITEM(wanted, i);
    if (given != name && PyUnicode_Compare(given, name) != 0) return false;
  }
  return true;
}

// Whether two plain values are certainly the same. If in doubt, `_call` decides.
bool is_same_static(PyObject* given, PyObject* value) {
  if (given == value) return true;
  PyTypeObject* type = Py_TYPE(value);
  if (Py_TYPE(given) != type) return false;
  if (type == &PyTuple_Type) {
    if (PyTuple_GET_SIZE(given) != PyTuple_GET_SIZE(value)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (!is_same_static(PyTuple_GET_ITEM(given, i), PyTuple_GET_ITEM(value, i))) return false;
    }
    return true;
  }
  if (type != &PyLong_Type && type != &PyUnicode_Type && type != &PyBytes_Type) return false;
  return is_equal(given, value);
}

bool is_same(PyObject* given, const Static& s);

// Even for the same object: a frozen dataclass can still be mutated by force.
bool has_same_parts(PyObject* given, const Static& s) {
  if (!s.names && (!PyTuple_Check(given) ||
                   PyTuple_GET_SIZE(given) != static_cast<Py_ssize_t>(s.parts.size()))) {
    return false;
  }
  for (size_t i = 0; i < s.parts.size(); ++i) {
    Py_ssize_t at = static_cast<Py_ssize_t>(i);
    Ref part = s.names ? Ref::own(PyObject_GetAttr(given, PyTuple_GET_ITEM(s.names.get(), at)))
                       : Ref::borrow(PyTuple_GET_ITEM(given, at));
    if (!part) dismiss_exception();
    if (!part || !is_same(part.get(), s.parts[i])) return false;
  }
  return true;
}

bool is_same(PyObject* given, const Static& s) {
  if (s.is_plain) return is_same_static(given, s.value.get());
  if (s.is_constant && given == s.value.get()) return true;
  if (Py_TYPE(given) != Py_TYPE(s.value.get())) return false;
  if (s.has_parts) return has_same_parts(given, s);
  if (s.key) {
    Ref key = call_held(static_key, given);
    if (!key) dismiss_exception();
    return key && is_equal(s.key.get(), key.get());
  }
  // The object, and with it its hash, may have changed since.
  Py_hash_t hash = PyObject_Hash(given);
  if (hash == -1) dismiss_exception();
  return hash == s.hash && is_equal(s.value.get(), given);
}

// Traverses the arguments of a call and collects its leaves, as long as they match the known call.
struct Match {
  Known& known;
  Values& values;
  Sizes& sizes;
  size_t consts;
  size_t metadata = 0;

  bool fits(PyObject* key, PyObject* value) {
    return key == Py_None ? fits_leaf(value) : fits_tree(key, value);
  }

 private:
  // A node whose children are being traversed.
  struct Level {
    PyObject* names;  // of a dict
    PyObject* keys;
    Ref children;  // a sequence, or the dict
    Py_ssize_t next = 0;
  };

  bool fits_leaf(PyObject* value) {
    if (!known.leaves[values.size() - consts].fits(value, sizes)) return false;
    values.push(value);
    return true;
  }

  bool fits_tree(PyObject* root_key, PyObject* root) {
    Levels<Level> levels;
    if (!enter(root_key, root, levels)) return false;
    while (!levels.empty()) {
      Level& top = levels.top();
      if (top.next == PyTuple_GET_SIZE(top.keys)) {
        levels.pop();
        continue;
      }
      PyObject* key = PyTuple_GET_ITEM(top.keys, top.next);
      Ref value = child(top);
      if (!value) return false;
      ++top.next;
      if (key == Py_None ? !fits_leaf(value.get()) : !enter(key, value.get(), levels)) return false;
    }
    return true;
  }

  bool enter(PyObject* key, PyObject* value, Levels<Level>& levels) {
    Level level;
    if (!open(key, value, level)) return false;
    levels.push(std::move(level));
    return true;
  }

  // Flatten a node that looks like one of a structure.
  bool open(PyObject* key, PyObject* value, Level& level) {
    PyTypeObject* type = Py_TYPE(value);
    if (reinterpret_cast<PyObject*>(type) != PyTuple_GET_ITEM(key, 0)) return false;
    level.names = nullptr;
    level.keys = PyTuple_GET_ITEM(key, 2);
    Py_ssize_t count = PyTuple_GET_SIZE(level.keys);
    if (type == &PyDict_Type) {
      level.names = PyTuple_GET_ITEM(key, 1);
      if (!PyTuple_CheckExact(level.names) || PyTuple_GET_SIZE(level.names) != count) return false;
      level.children = Ref::borrow(value);
      return PyDict_GET_SIZE(value) == count;
    }
    if (type == &PyTuple_Type || type == &PyList_Type) {
      level.children = Ref::borrow(value);
      return PySequence_Fast_GET_SIZE(value) == count;
    }
    if (value == Py_None) return count == 0;
    Kind kind = kind_of(type);
    if (kind && is_plain_container(kind.form())) {
      level.children = Ref::borrow(value);
      return PyTuple_Check(value) && PyTuple_GET_SIZE(value) == count;
    }
    Node node;
    if (!kind || !take_apart(kind.get(), value, node)) {
      dismiss_exception();
      return false;
    }
    // The class may have been registered as another kind of node since.
    if (metadata == known.metadata.size() ||
        !is_same(node.metadata.get(), known.metadata[metadata])) {
      return false;
    }
    ++metadata;
    level.children = std::move(node.children);
    return PySequence_Fast_GET_SIZE(level.children.get()) == count;
  }

  // Return the next child; nothing, without an exception, if there is none.
  Ref child(Level& level) {
    PyObject* children = level.children.get();
    if (level.names != nullptr) {
      Ref found =
          Ref::borrow(PyDict_GetItemWithError(children, PyTuple_GET_ITEM(level.names, level.next)));
      if (!found) dismiss_exception();
      return found;
    }
    // A list may change while user functions flatten or compare its items.
    if (PySequence_Fast_GET_SIZE(children) != PyTuple_GET_SIZE(level.keys)) return Ref();
    return Ref::borrow(PySequence_Fast_GET_ITEM(children, level.next));
  }
};

bool fits(Known& known, PyObject* options, PyObject* const* args, Py_ssize_t positional,
          PyObject* kwnames, Values& values, Sizes& sizes) {
  if (known.options.get() != options || known.positional != positional ||
      !has_names(kwnames, known.kwnames.get())) {
    return false;
  }
  for (const StaticArgument& s : known.statics) {
    if (!is_same(args[s.position], s.known)) return false;
  }
  size_t consts = static_cast<size_t>(PyTuple_GET_SIZE(known.consts.get()));
  values.reserve(consts + known.leaves.size());
  for (size_t i = 0; i < consts; ++i) values.push(PyTuple_GET_ITEM(known.consts.get(), i));
  sizes.assign(known.names, 0);
  Match match{known, values, sizes, consts};
  for (const Dynamic& d : known.dynamics) {
    if (!match.fits(d.key.get(), args[d.position])) return false;
  }
  return true;
}

// The program for sizes of named axes; null, possibly with an exception set, if there is none here.
Ref program_for(Known& known, const Sizes& sizes) {
  if (!known.for_sizes) return Ref::borrow(known.program.get());
  auto found = known.programs.find(sizes);
  if (found != known.programs.end()) return Ref::borrow(found->second.get());
  Ref numbers = Ref::own(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  for (size_t i = 0; numbers && i < sizes.size(); ++i) {
    PyObject* size = PyLong_FromLongLong(sizes[i]);
    if (size == nullptr) return Ref();
    PyTuple_SET_ITEM(numbers.get(), static_cast<Py_ssize_t>(i), size);
  }
  Ref made = numbers ? call_held(known.for_sizes.get(), numbers.get()) : Ref();
  if (!made || !PyObject_TypeCheck(made.get(), &program_type)) return Ref();
  std::map<Sizes, Ref> dropped;
  if (known.programs.size() >= kMostSizes) dropped.swap(known.programs);
  known.programs.emplace(sizes, Ref::borrow(made.get()));
  return made;
}

Ref run(Known& known, PyObject* program, Values& values) {
  Py_ssize_t count = static_cast<Py_ssize_t>(values.size());
  Ref outs = Py_TYPE(program) == &placed_program_type
                 ? run_placed(reinterpret_cast<PlacedProgram*>(program), values.data(), count)
                 : run_program(reinterpret_cast<CompiledProgram*>(program), values.data(), count);
  if (!outs) return outs;
  PyObject** items = PySequence_Fast_ITEMS(outs.get());
  Leaves rest{items, items + PyList_GET_SIZE(outs.get())};
  return build(known.out_key.get(), rest);
}

PyObject* slow_call(PyObject* self, PyObject* const* args, Py_ssize_t positional,
                    PyObject* kwnames) {
  Ref given = Ref::own(PyTuple_New(positional));
  Ref named = Ref::own(PyDict_New());
  if (!given || !named) return nullptr;
  for (Py_ssize_t i = 0; i < positional; ++i) PyTuple_SET_ITEM(given.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; kwnames != nullptr && i < PyTuple_GET_SIZE(kwnames); ++i) {
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, i), args[positional + i]) < 0) {
      return nullptr;
    }
  }
  PyObject* call[] = {self, given.get(), named.get()};
  return PyObject_VectorcallMethod(slow_name, call, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

PyObject* callable_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf,
                              PyObject* kwnames) {
  Callable* callable = reinterpret_cast<Callable*>(self);
  Py_ssize_t positional = PyVectorcall_NARGS(nargsf);
  if (thread_state.trace == nullptr && thread_state.axes == nullptr) {
    PyObject* options = current_options();
    if (options == nullptr) return nullptr;
    auto& all = *callable->known;
    for (size_t i = 0; i < all.size(); ++i) {
      // A comparison may run user code, which may call this same function.
      std::shared_ptr<Known> known = all[i];
      Values values;
      Sizes sizes;
      if (!fits(*known, options, args, positional, kwnames, values, sizes)) continue;
      Ref program = program_for(*known, sizes);
      if (!program && PyErr_Occurred()) return nullptr;
      if (!program) break;
      if (i > 0 && i < all.size() && all[i] == known) std::swap(all[i - 1], all[i]);
      return run(*known, program.get(), values).release();
    }
  }
  return slow_call(self, args, positional, kwnames);
}

int visit_static(const Static& s, visitproc visit, void* arg) {
  Py_VISIT(s.value.get());
  Py_VISIT(s.key.get());
  for (const Static& part : s.parts) {
    int stopped = visit_static(part, visit, arg);
    if (stopped != 0) return stopped;
  }
  return 0;
}

PyObject* callable_remember(PyObject* self, PyObject* args) {
  return remember(*reinterpret_cast<Callable*>(self)->known, args);
}

PyObject* callable_forget(PyObject* self, PyObject*) {
  KnownCalls all;
  all.swap(*reinterpret_cast<Callable*>(self)->known);
  Py_RETURN_NONE;
}

PyObject* callable_new(PyTypeObject* type, PyObject*, PyObject*) {
  Callable* self = reinterpret_cast<Callable*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = callable_vectorcall;
  self->known = new KnownCalls();
  return reinterpret_cast<PyObject*>(self);
}

int callable_traverse(PyObject* self, visitproc visit, void* arg) {
  Callable* callable = reinterpret_cast<Callable*>(self);
  if (callable->known == nullptr) return 0;
  for (const auto& known : *callable->known) {
    // A call in progress holds a reference too, and so keeps alive what it refers to.
    if (known.use_count() > 1) continue;
    Py_VISIT(known->options.get());
    Py_VISIT(known->kwnames.get());
    for (const Static& s : known->metadata) {
      int stopped = visit_static(s, visit, arg);
      if (stopped != 0) return stopped;
    }
    for (const StaticArgument& s : known->statics) {
      int stopped = visit_static(s.known, visit, arg);
      if (stopped != 0) return stopped;
    }
    for (const Dynamic& d : known->dynamics) Py_VISIT(d.key.get());
    Py_VISIT(known->consts.get());
    Py_VISIT(known->program.get());
    Py_VISIT(known->for_sizes.get());
    for (const auto& [sizes, program] : known->programs) Py_VISIT(program.get());
    Py_VISIT(known->out_key.get());
  }
  return 0;
}

int callable_clear(PyObject* self) {
  Callable* callable = reinterpret_cast<Callable*>(self);
  if (callable->known != nullptr) {
    KnownCalls all;
    all.swap(*callable->known);
  }
  return 0;
}

void callable_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, callable_dealloc)
  callable_clear(self);
  delete reinterpret_cast<Callable*>(self)->known;
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}

PyMethodDef callable_methods[] = {
    {"remember", callable_remember, METH_VARARGS,
     "Let calls that match an earlier one run its program directly."},
    {"forget_calls", callable_forget, METH_NOARGS, "Forget the calls remembered."},
    {nullptr},
};

PyTypeObject callable_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.Callable",
    .tp_basicsize = sizeof(Callable),
    .tp_dealloc = callable_dealloc,
    .tp_vectorcall_offset = offsetof(Callable, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc =
        "A function whose calls are cached; `_call(args, kwargs)` handles those that are not.",
    .tp_traverse = callable_traverse,
    .tp_clear = callable_clear,
    .tp_methods = callable_methods,
    .tp_new = callable_new,
};

// Classes defined in Python do not inherit the flag, because their `__call__` could be replaced.
PyObject* call_directly(PyObject*, PyObject* given) {
  PyTypeObject* type = reinterpret_cast<PyTypeObject*>(given);
  if (!PyType_Check(given) || !PyType_IsSubtype(type, &callable_type) ||
      type->tp_call != PyVectorcall_Call) {
    PyErr_SetString(
        PyExc_TypeError,
        "only subclasses of Callable without a __call__ of their own are called directly");
    return nullptr;
  }
  type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  PyType_Modified(type);
  return Py_NewRef(given);
}

PyObject* set_static_key(PyObject*, PyObject* function) {
  Py_XSETREF(static_key, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_static_key", set_static_key, METH_O, "Set what makes comparable keys of static values."},
    {"call_directly", call_directly, METH_O,
     "Decorate a subclass of Callable: its instances are called by vectorcall."},
    {nullptr},
};

}  // namespace

int add_call(PyObject* module) {
  slow_name = PyUnicode_InternFromString("_call");
  if (slow_name == nullptr || !NamedType::intern() || add_type(module, &callable_type) < 0)
    return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
