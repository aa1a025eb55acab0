// Eager functions. A call runs a plan: a single loop if all arrays have one type, or the cached
// plan of an earlier call with arrays of the same types and equal numbers and names. Any other call
// falls back to the Python function, whose operations are compiled programs (execution/eager.py).
#include "eager/eager.h"

#include <cstring>
#include <memory>
#include <vector>

#include "arrays/array.h"
#include "eager/plan.h"
#include "eager/uniform_loop.h"
#include "eager/values.h"
#include "objects/numpy.h"
#include "state/state.h"
#include "waiting/exceptions.h"

namespace kiln {
namespace {

struct EagerFunction {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* dict;
  PyObject* weakrefs;
  uint64_t number;    // never reused for another function
  UniformLoop* loop;  // its plan for arrays of one type, or null
};

PyObject* keyword_check = nullptr;  // (function, names): raises the error for an unknown name
PyObject* planner = nullptr;        // (function, args, kwargs, result) -> Plan or None
uint64_t functions_made = 0;

// Event counts.
struct Statistics {
  long long runs = 0;
  long long plans = 0;
  long long refusals = 0;
} statistics;

size_t limit = size_t{32} << 20;

// Interned types and strings: equal ones have one address here.
PyObject* representatives = nullptr;

// The type of enumerations. Their members are singletons, as types are.
PyTypeObject* enumerations = nullptr;

// Types by address, which is faster than by hash.
struct KnownType {
  PyObject* type;
  PyObject* representative;
};
constexpr size_t kKnownTypes = 256;
KnownType known_types[kKnownTypes];

// A comparison may run Python code, which may clear the table: then the address found is
// meaningless, and the key that contains it is abandoned.
PyObject* representative(PyObject* object) {
  Ref table = Ref::borrow(representatives);
  PyObject* found = PyDict_SetDefault(table.get(), object, object);
  if (found == nullptr) dismiss_exception();
  return table.get() == representatives ? found : nullptr;
}

PyObject* type_of(ArrayData* array) {
  PyObject* aval = array->aval;
  KnownType& known = known_types[(reinterpret_cast<size_t>(aval) >> 4) % kKnownTypes];
  if (known.type == aval) return known.representative;
  Ref kept = Ref::borrow(aval);
  PyObject* found = representative(aval);
  if (found == nullptr) return nullptr;
  Py_XSETREF(known.type, kept.release());
  known.representative = found;
  return found;
}

// The options in force, as a number: equal if programs are equal.
PyObject* numbered_options = nullptr;
uint64_t options_number = 0;
uint64_t options_met = 0;
PyObject* option_numbers = nullptr;

bool number_options() {
  PyObject* options = current_options();
  if (options == nullptr) return false;
  if (options == numbered_options) return true;
  Ref kept = Ref::borrow(options);
  Ref key = Ref::own(PyObject_CallMethod(options, "key", nullptr));
  Ref next = key ? Ref::own(PyLong_FromUnsignedLongLong(++options_met)) : Ref();
  PyObject* number = next ? PyDict_SetDefault(option_numbers, key.get(), next.get()) : nullptr;
  if (number == nullptr) return false;
  options_number = PyLong_AsUnsignedLongLong(number);
  Py_XSETREF(numbered_options, kept.release());
  return true;
}

enum Tag : uint64_t {
  kArray = 1,
  kNone,
  kEllipsis,
  kBool,
  kInt,
  kFloat,
  kScalar,
  kName,
  kObject,
  kTuple,
  kList,
  kSlice,
  kKeyword
};

// The key of a call: words for the function, the options and each argument.
class Key {
 public:
  static constexpr size_t kMostWords = 96;
  static constexpr size_t kMostArrays = 16;

  uint64_t words[kMostWords];
  size_t size = 0;
  ArrayData* arrays[kMostArrays];
  size_t array_count = 0;
  uint64_t hash = 0x9e3779b97f4a7c15u;

  Key() = default;
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;
  ~Key() {
    for (size_t i = 0; i < array_count; ++i) Py_DECREF(arrays[i]);
    for (size_t i = 0; i < object_count_; ++i) Py_DECREF(objects_[i]);
  }

  // Return false, without an exception, for calls that have no such key.
  bool read(const EagerFunction* function, PyObject* const* args, size_t count, PyObject* kwnames) {
    if (!number_options()) {
      dismiss_exception();
      return false;
    }
    if (!add(function->number, options_number)) return false;
    PyObject* generation = representatives;
    for (size_t i = 0; i < count; ++i) {
      if (!read(args[i], 0)) return false;
    }
    Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < keywords; ++i) {
      PyObject* name = representative(PyTuple_GET_ITEM(kwnames, i));
      if (name == nullptr || !add(kKeyword, address(name)) ||
          !read(args[count + static_cast<size_t>(i)], 0)) {
        return false;
      }
    }
    return representatives == generation;
  }

  // Objects identified by their address, which must stay alive.
  void hold(std::vector<Ref>& held) const {
    for (size_t i = 0; i < object_count_; ++i) held.push_back(Ref::borrow(objects_[i]));
  }

 private:
  PyObject* objects_[kMostArrays];
  size_t object_count_ = 0;

  static uint64_t address(PyObject* object) { return reinterpret_cast<uint64_t>(object); }

  bool add(uint64_t tag, uint64_t word) {
    if (size + 2 > kMostWords) return false;
    words[size++] = tag;
    words[size++] = word;
    hash = (hash ^ (word + tag * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
    return true;
  }

  bool read(PyObject* x, int depth) {
    if (is_array(x)) {
      if (array_count == kMostArrays) return false;
      ArrayData* array = reinterpret_cast<ArrayData*>(x);
      Py_INCREF(x);
      arrays[array_count++] = array;
      PyObject* type = type_of(array);
      return type != nullptr && add(kArray, address(type));
    }
    if (x == Py_None) return add(kNone, 0);
    PyTypeObject* type = Py_TYPE(x);
    if (type == &PyLong_Type) {
      int overflow;
      long long value = PyLong_AsLongLongAndOverflow(x, &overflow);
      return overflow == 0 && add(kInt, static_cast<uint64_t>(value));
    }
    if (type == &PyFloat_Type) {
      double value = PyFloat_AS_DOUBLE(x);
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      return add(kFloat, bits);
    }
    if (type == &PyBool_Type) return add(kBool, x == Py_True);
    if (type == &PyUnicode_Type) {
      PyObject* name = representative(x);
      return name != nullptr && add(kName, address(name));
    }
    if (type == &PyTuple_Type || type == &PyList_Type) {
      Py_ssize_t count = PySequence_Fast_GET_SIZE(x);
      if (depth > 4 || !add(type == &PyTuple_Type ? kTuple : kList, static_cast<uint64_t>(count))) {
        return false;
      }
      for (Py_ssize_t i = 0; i < count; ++i) {
        // A list may change while types are compared.
        if (i >= PySequence_Fast_GET_SIZE(x)) return false;
        Ref item = Ref::borrow(PySequence_Fast_GET_ITEM(x, i));
        if (!read(item.get(), depth + 1)) return false;
      }
      return true;
    }
    if (type == &PySlice_Type) {
      PySliceObject* slice = reinterpret_cast<PySliceObject*>(x);
      return depth <= 4 && add(kSlice, 0) && read(slice->start, depth + 1) &&
             read(slice->stop, depth + 1) && read(slice->step, depth + 1);
    }
    if (x == Py_Ellipsis) return add(kEllipsis, 0);
    if (PyType_Check(x) || PyArray_DescrCheck(x) || Py_TYPE(type) == enumerations) {
      if (object_count_ == kMostArrays) return false;
      objects_[object_count_++] = Py_NewRef(x);
      return add(kObject, address(x));
    }
    return read_scalar(x);
  }

  bool read_scalar(PyObject* x) {
    PyTypeObject* const kKinds[] = {
        &PyFloat32ArrType_Type, &PyInt32ArrType_Type,  &PyFloat64ArrType_Type, &PyInt64ArrType_Type,
        &PyBoolArrType_Type,    &PyUInt32ArrType_Type, &PyUInt8ArrType_Type};
    for (PyTypeObject* kind : kKinds) {
      if (Py_TYPE(x) != kind) continue;
      uint64_t bits = 0;
      PyArray_ScalarAsCtype(x, &bits);
      return add(kScalar, address(reinterpret_cast<PyObject*>(kind))) && add(kScalar, bits);
    }
    return false;
  }
};

struct Entry {
  uint64_t hash;
  std::vector<uint64_t> words;
  std::vector<Ref> held;
  Ref plan;  // or nothing, where there is none

  bool is(const Key& key) const {
    return hash == key.hash && words.size() == key.size &&
           std::memcmp(words.data(), key.words, key.size * sizeof(uint64_t)) == 0;
  }
  size_t bytes() const {
    return sizeof(Entry) + words.size() * sizeof(uint64_t) + (plan ? plan_bytes(plan.get()) : 0);
  }
};

constexpr size_t kSlots = 1 << 14;
constexpr size_t kMostEntries = kSlots / 2;
Entry* slots[kSlots];
size_t entries = 0;
size_t entry_bytes = 0;

// Hashes of calls seen once. A single call is not worth a plan.
constexpr size_t kMet = 1 << 12;
uint64_t met[kMet];

size_t slot_of(const Key& key) {
  size_t slot = key.hash % kSlots;
  while (slots[slot] != nullptr && !slots[slot]->is(key)) slot = (slot + 1) % kSlots;
  return slot;
}

void forget_all() {
  std::vector<Entry*> gone;
  for (Entry*& slot : slots) {
    if (slot != nullptr) gone.push_back(std::exchange(slot, nullptr));
  }
  entries = entry_bytes = 0;
  std::memset(met, 0, sizeof met);
  std::vector<Ref> types;
  for (KnownType& known : known_types) {
    types.push_back(Ref::own(std::exchange(known, KnownType{}).type));
  }
  // No key refers to one of them by address any more.
  PyObject* fresh = PyDict_New();
  if (fresh == nullptr) PyErr_Clear();
  Ref old = fresh == nullptr ? Ref() : Ref::own(std::exchange(representatives, fresh));
  for (Entry* entry : gone) delete entry;
}

// There may be many strings, types and options, though few calls.
void bound_names() {
  if (PyDict_GET_SIZE(representatives) > static_cast<Py_ssize_t>(kSlots)) forget_all();
  if (PyDict_GET_SIZE(option_numbers) > static_cast<Py_ssize_t>(kKnownTypes)) {
    forget_all();
    Py_CLEAR(numbered_options);
    PyDict_Clear(option_numbers);
  }
}

bool was_met(const Key& key) {
  uint64_t& slot = met[key.hash % kMet];
  return std::exchange(slot, key.hash) == key.hash;
}

// Calls the function. If it refuses a keyword, the error says which one was meant.
PyObject* call_itself(EagerFunction* self, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames) {
  PyObject* result = PyObject_Vectorcall(self->function, args, nargsf, kwnames);
  if (result != nullptr || kwnames == nullptr || keyword_check == nullptr) return result;
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) return nullptr;
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  const Ref checked =
      Ref::own(PyObject_CallFunctionObjArgs(keyword_check, self->function, kwnames, nullptr));
  if (checked) {
    PyErr_Restore(type, error, traceback);
  } else {
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
  }
  return nullptr;
}

PyObject* learn(EagerFunction* self, const Key& key, PyObject* const* args, size_t nargsf,
                PyObject* kwnames) {
  Ref result = Ref::own(call_itself(self, args, nargsf, kwnames));
  if (!result) return nullptr;
  Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  Ref positional = Ref::own(PyTuple_New(count));
  Ref named = Ref::own(PyDict_New());
  if (!positional || !named) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; kwnames != nullptr && i < PyTuple_GET_SIZE(kwnames); ++i) {
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, i), args[count + i]) < 0) {
      return nullptr;
    }
  }
  auto entry = std::make_unique<Entry>();
  entry->hash = key.hash;
  entry->words.assign(key.words, key.words + key.size);
  key.hold(entry->held);
  PyObject* generation = representatives;
  Ref plan = call_held(planner, self->function, positional.get(), named.get(), result.get());
  if (!plan) return nullptr;
  // Addresses in the key are meaningless if the tables were cleared meanwhile.
  if (representatives != generation) return result.release();
  bool usable = Py_TYPE(plan.get()) == &plan_type;
  if (usable) entry->plan = std::move(plan);
  ++(usable ? statistics.plans : statistics.refusals);
  size_t slot = slot_of(key);
  if (slots[slot] != nullptr) return result.release();
  entry_bytes += entry->bytes();
  slots[slot] = entry.release();
  ++entries;
  if (entries > kMostEntries || entry_bytes > limit) forget_all();
  return result.release();
}

// Run the cached plan of such a call; otherwise call the function, and perhaps create a plan. Not
// inlined, so that calls that need no key have a smaller stack frame.
[[gnu::noinline]] PyObject* call_like_before(EagerFunction* self, PyObject* const* args,
                                             size_t nargsf, PyObject* kwnames) {
  if (planner != nullptr && may_run_eagerly()) {
    bound_names();
    Key key;
    if (key.read(self, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), kwnames)) {
      const Entry* entry = slots[slot_of(key)];
      if (entry != nullptr && entry->plan) {
        Ref made = run_plan(entry->plan.get(), key.arrays);
        if (made) {
          ++statistics.runs;
          return made.release();
        }
        if (PyErr_Occurred()) return nullptr;
      } else if (entry == nullptr && was_met(key)) {
        return learn(self, key, args, nargsf, kwnames);
      }
    }
  }
  return call_itself(self, args, nargsf, kwnames);
}

PyObject* eager_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* function;
  const char* loop = nullptr;
  int swapped = 0;
  if (!PyArg_ParseTuple(args, "O|zp", &function, &loop, &swapped)) return nullptr;
  if (is_eager(function) || !PyCallable_Check(function)) {
    PyErr_SetString(PyExc_TypeError,
                    "an eager function wraps a function that is not eager already");
    return nullptr;
  }
  EagerFunction* self = reinterpret_cast<EagerFunction*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call_eager;
  self->function = Py_NewRef(function);
  if (loop != nullptr) {
    auto found = std::make_unique<UniformLoop>();
    if (!find_uniform_loop(loop, swapped != 0, *found)) {
      PyErr_Format(PyExc_ValueError, "there are no loops named %s", loop);
      Py_DECREF(self);
      return nullptr;
    }
    self->loop = found.release();
  }
  self->number = ++functions_made;
  self->dict = PyDict_New();
  Ref kept = Ref::own(reinterpret_cast<PyObject*>(self));
  if (self->dict == nullptr || PyDict_SetItemString(self->dict, "__wrapped__", function) < 0) {
    return nullptr;
  }
  for (const char* name : {"__name__", "__qualname__", "__module__", "__doc__"}) {
    Ref value = Ref::own(PyObject_GetAttrString(function, name));
    if (!value || PyDict_SetItemString(self->dict, name, value.get()) < 0) return nullptr;
  }
  return kept.release();
}

int eager_traverse(PyObject* object, visitproc visit, void* arg) {
  EagerFunction* self = reinterpret_cast<EagerFunction*>(object);
  Py_VISIT(self->function);
  Py_VISIT(self->dict);
  return 0;
}

int eager_clear(PyObject* object) {
  EagerFunction* self = reinterpret_cast<EagerFunction*>(object);
  Py_CLEAR(self->dict);
  return 0;
}

void eager_dealloc(PyObject* object) {
  EagerFunction* self = reinterpret_cast<EagerFunction*>(object);
  PyObject_GC_UnTrack(object);
  Py_TRASHCAN_BEGIN(object, eager_dealloc)
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  Py_CLEAR(self->function);
  Py_CLEAR(self->dict);
  delete self->loop;
  Py_TYPE(object)->tp_free(object);
  Py_TRASHCAN_END
}

// Any other attribute is that of the Python function: its code, its defaults.
PyObject* eager_getattr(PyObject* object, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<EagerFunction*>(object)->function, name);
}

PyObject* eager_bind(PyObject* object, PyObject* instance, PyObject*) {
  return instance == nullptr ? Py_NewRef(object) : PyMethod_New(object, instance);
}

PyObject* eager_repr(PyObject* object) {
  return PyObject_Repr(reinterpret_cast<EagerFunction*>(object)->function);
}

PyObject* eager_reduce(PyObject* object, PyObject*) {
  return PyObject_GetAttrString(object, "__qualname__");
}

PyMethodDef eager_methods[] = {
    {"__reduce__", eager_reduce, METH_NOARGS, "Pickle by name."},
    {nullptr},
};

// Comparison of functions by content has to see attributes that were set.
PyGetSetDef eager_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, nullptr, "What is set on the function itself."},
    {nullptr},
};

PyObject* set_planner(PyObject*, PyObject* function) {
  Py_XSETREF(planner, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* set_keyword_check(PyObject*, PyObject* function) {
  Py_XSETREF(keyword_check, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* forget_plans(PyObject*, PyObject*) {
  forget_all();
  Py_RETURN_NONE;
}

PyObject* limit_plans(PyObject*, PyObject* given) {
  Py_ssize_t bytes = PyLong_AsSsize_t(given);
  if (PyErr_Occurred()) return nullptr;
  limit = bytes < 0 ? 0 : static_cast<size_t>(bytes);
  if (entry_bytes > limit) forget_all();
  Py_RETURN_NONE;
}

PyObject* plan_statistics(PyObject*, PyObject*) {
  return Py_BuildValue("{s:n,s:n,s:L,s:L,s:L}", "known", static_cast<Py_ssize_t>(entries), "bytes",
                       static_cast<Py_ssize_t>(entry_bytes), "plans", statistics.plans, "refusals",
                       statistics.refusals, "runs", statistics.runs);
}

PyMethodDef functions[] = {
    {"set_keyword_check", set_keyword_check, METH_O,
     "Set the function that raises the error for a keyword that an eager function lacks."},
    {"set_planner", set_planner, METH_O,
     "Set the function that creates plans: `plan(function, args, kwargs, result)`."},
    {"forget_plans", forget_plans, METH_NOARGS, "Forget all plans."},
    {"limit_plans", limit_plans, METH_O, "Set the bytes that plans may take together."},
    {"plan_statistics", plan_statistics, METH_NOARGS,
     "Return how many calls are known and the bytes of that, and how often plans were made, "
     "refused and run."},
    {nullptr},
};

}  // namespace

PyTypeObject eager_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.EagerFunction",
    .tp_basicsize = sizeof(EagerFunction),
    .tp_dealloc = eager_dealloc,
    .tp_vectorcall_offset = offsetof(EagerFunction, vectorcall),
    .tp_repr = eager_repr,
    .tp_call = PyVectorcall_Call,
    .tp_getattro = eager_getattr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = "A function of arrays whose calls run plans outside of transformations.",
    .tp_traverse = eager_traverse,
    .tp_clear = eager_clear,
    .tp_weaklistoffset = offsetof(EagerFunction, weakrefs),
    .tp_methods = eager_methods,
    .tp_getset = eager_attributes,
    .tp_descr_get = eager_bind,
    .tp_dictoffset = offsetof(EagerFunction, dict),
    .tp_new = eager_new,
};

PyObject* call_eager(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  EagerFunction* self = reinterpret_cast<EagerFunction*>(object);
  if (self->loop != nullptr && kwnames == nullptr &&
      PyVectorcall_NARGS(nargsf) == self->loop->operands && may_run_eagerly()) {
    Ref made = self->loop->run(*self->loop, args);
    if (made) return made.release();
    if (PyErr_Occurred()) return nullptr;
  }
  return call_like_before(self, args, nargsf, kwnames);
}

int add_eager(PyObject* module) {
  representatives = PyDict_New();
  option_numbers = PyDict_New();
  Ref enums = Ref::own(PyImport_ImportModule("enum"));
  PyObject* metaclass = enums ? PyObject_GetAttrString(enums.get(), "EnumMeta") : nullptr;
  enumerations = reinterpret_cast<PyTypeObject*>(metaclass);
  if (representatives == nullptr || option_numbers == nullptr || enumerations == nullptr ||
      add_type(module, &eager_type) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
