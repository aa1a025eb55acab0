// The call of a jitted function. A call that matches an earlier one is recognised by traversing its
// arguments and runs here; every other call falls back to `_call`, the definition of a call, in
// jit/function.py.
#include <climits>
#include <map>
#include <memory>
#include <vector>

#include "arrays/array.h"
#include "objects/numpy.h"
#include "programs/placed.h"
#include "state/state.h"
#include "trees/tree.h"
#include "trees/tree_def.h"
#include "waiting/exceptions.h"

namespace kiln {
namespace {

// Whether two objects are certainly equal; if the comparison raises, `_call` reports why.
bool is_equal(PyObject* a, PyObject* b) {
  int same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (same < 0) dismiss_exception();
  return same > 0;
}

// The sizes of a call's named axes, indexed by name number; 0 until the first occurrence.
using Sizes = std::vector<int64_t>;

struct NamedAxis {
  int axis;
  size_t number;  // of the name
};

// Record a size; false if the name already has a different one, or if it is 0: then `_call` handles
// the call.
bool note_size(Sizes& sizes, size_t number, int64_t size) {
  if (sizes[number] == 0) sizes[number] = size;
  return size > 0 && sizes[number] == size;
}

// What a type with named axes must match: the attributes of a `ShapedArray`, and the sizes of
// unnamed axes.
struct NamedType {
  std::vector<NamedAxis> axes;  // none: the type itself is compared
  std::vector<int64_t> shape;   // -1 where an axis has a name
  Ref dtype, weak_type, varying;

  bool read(PyObject* aval) {
    dtype = Ref::own(PyObject_GetAttr(aval, names[0]));
    weak_type = Ref::own(PyObject_GetAttr(aval, names[1]));
    varying = Ref::own(PyObject_GetAttr(aval, names[2]));
    Ref sizes = Ref::own(PyObject_GetAttr(aval, names[3]));
    if (!dtype || !weak_type || !varying || !sizes || !PyTuple_Check(sizes.get())) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes.get()); ++i) {
      shape.push_back(number(PyTuple_GET_ITEM(sizes.get(), i)));
      if (shape.back() < 0) return false;
    }
    for (const NamedAxis& each : axes) {
      if (each.axis < 0 || static_cast<size_t>(each.axis) >= shape.size()) return false;
      shape[static_cast<size_t>(each.axis)] = -1;
    }
    return true;
  }

  bool fits(PyObject* aval, Sizes& sizes) const {
    Ref found = Ref::own(PyObject_GetAttr(aval, names[3]));
    if (!found || !PyTuple_Check(found.get()) ||
        PyTuple_GET_SIZE(found.get()) != static_cast<Py_ssize_t>(shape.size())) {
      dismiss_exception();
      return false;
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      PyObject* size = PyTuple_GET_ITEM(found.get(), static_cast<Py_ssize_t>(i));
      if (shape[i] >= 0 && number(size) != shape[i]) return false;
    }
    if (!has(aval, names[0], dtype.get()) || !has(aval, names[1], weak_type.get()) ||
        !has(aval, names[2], varying.get())) {
      return false;
    }
    for (const NamedAxis& each : axes) {
      PyObject* size = PyTuple_GET_ITEM(found.get(), each.axis);
      if (!note_size(sizes, each.number, number(size))) return false;
    }
    return true;
  }

  static bool intern() {
    const char* texts[] = {"dtype", "weak_type", "varying", "shape"};
    for (int i = 0; i < 4; ++i) {
      names[i] = PyUnicode_InternFromString(texts[i]);
      if (names[i] == nullptr) return false;
    }
    return true;
  }

 private:
  static PyObject* names[4];

  // A size; -1 for a named one, which is not an int.
  static int64_t number(PyObject* size) {
    int overflow = 0;
    return PyLong_CheckExact(size) ? PyLong_AsLongLongAndOverflow(size, &overflow) : -1;
  }

  static bool has(PyObject* aval, PyObject* name, PyObject* value) {
    Ref found = Ref::own(PyObject_GetAttr(aval, name));
    if (!found) dismiss_exception();
    return found && (found.get() == value || is_equal(found.get(), value));
  }
};

PyObject* NamedType::names[4] = {};

// What a leaf must match for a cached program to apply.
struct Leaf {
  PyTypeObject* type = nullptr;       // its exact class
  Ref aval;                           // of arrays
  Ref sharding;                       // of placed arrays
  char committed = 0;                 // of these as well
  Ref dtype;                          // of NumPy arrays
  std::vector<npy_intp> shape;        // of NumPy arrays
  long long least = 0, greatest = 0;  // of ints
  NamedType named;

  bool fits(PyObject* object, Sizes& sizes) {
    if (Py_TYPE(object) != type) return false;
    if (aval) {
      ArrayData* array = reinterpret_cast<ArrayData*>(object);
      bool has_type = named.axes.empty() ? has_aval(array) : named.fits(array->aval, sizes);
      return has_type && is_there(array);
    }
    if (dtype) return is_like(reinterpret_cast<PyArrayObject*>(object), sizes);
    if (type == &PyLong_Type) {
      int overflow = 0;
      long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
      return overflow == 0 && least <= value && value <= greatest;
    }
    return true;
  }

 private:
  // Types and shardings are values: equal ones are replaced by one object, so that the next
  // comparison is by identity.
  static bool unify(PyObject*& slot, PyObject* value) {
    if (slot == value) return true;
    Ref found = Ref::borrow(slot);
    if (!is_equal(found.get(), value)) return false;
    if (slot == found.get()) Py_SETREF(slot, Py_NewRef(value));
    return true;
  }

  bool has_aval(ArrayData* array) { return unify(array->aval, aval.get()); }

  bool is_there(ArrayData* array) {
    return !sharding || (array->committed == committed && unify(array->sharding, sharding.get()));
  }

  bool is_like(PyArrayObject* array, Sizes& sizes) const {
    if (reinterpret_cast<PyObject*>(PyArray_DESCR(array)) != dtype.get()) return false;
    if (PyArray_NDIM(array) != static_cast<int>(shape.size())) return false;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] >= 0 && PyArray_DIM(array, static_cast<int>(i)) != shape[i]) return false;
    }
    for (const NamedAxis& each : named.axes) {
      if (!note_size(sizes, each.number, PyArray_DIM(array, each.axis))) return false;
    }
    return true;
  }
};

// The source of a part of a call: the number of an argument, positional ones first.
struct Dynamic {
  Py_ssize_t position;
  Ref key;
};
// How a value that is not an array is compared with that of another call.
struct Static {
  Ref value;
  // The result of `static_key`; null if values are distinguished by type, hash and equality.
  Ref key;
  Py_hash_t hash = 0;        // of these
  bool is_plain = false;     // neither: compared here
  bool is_constant = false;  // immutable: the same object is the same value
  bool has_parts = false;    // compared instead of it: the items of a tuple,
  Ref names;                 // or the fields of a dataclass with such names
  std::vector<Static> parts;
};
struct StaticArgument {
  Py_ssize_t position;
  Static known;
};

// A program, and the calls it applies to.
struct Known {
  Ref options;
  Py_ssize_t positional = 0;
  Ref kwnames;  // null if there are none
  std::vector<StaticArgument> statics;
  std::vector<Dynamic> dynamics;
  // Of nodes of other than the built-in containers, in traversal order.
  std::vector<Static> metadata;
  std::vector<Leaf> leaves;
  Ref consts;  // a tuple
  Ref program;
  Ref out_key;
  // Named axes: how many names there are, and which program runs for which sizes.
  size_t names = 0;
  Ref for_sizes;  // (sizes) -> program, or None if `_call` decides
  std::map<Sizes, Ref> programs;
};

constexpr size_t kMost = 8;
// Programs for other sizes are created again: they share code and are small.
constexpr size_t kMostSizes = 4096;

struct Callable {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  std::vector<std::shared_ptr<Known>>* known;  // most recently used first
};

PyObject* slow_name = nullptr;
PyObject* static_key = nullptr;  // of jit/static_values.py

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

// Whether equality of static values of a kind is decided here.
bool is_plain_static(PyObject* value, int depth = 0) {
  constexpr int kDeepest = 100;
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyTuple_Type) {
    if (depth == kDeepest) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      if (!is_plain_static(PyTuple_GET_ITEM(value, i), depth + 1)) return false;
    }
    return true;
  }
  return type == &PyLong_Type || type == &PyBool_Type || type == &PyUnicode_Type ||
         type == &PyBytes_Type || type == &PyFloat_Type || type == &PyComplex_Type ||
         type == &PyFunction_Type || type == &PyType_Type || value == Py_None;
}

// Whether two such values are certainly the same. If in doubt, `_call` decides.
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

// Whether a node of a form consists of nothing but its children, and for dicts their keys.
bool is_plain_container(Form form) {
  switch (form) {
    case Form::kTuple:
    case Form::kList:
    case Form::kDict:
    case Form::kNone:
    case Form::kNamedTuple: return true;
    case Form::kFields:
    case Form::kCustom: break;
  }
  return false;
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

// Record the metadata that traversing such a structure compares; -1 with an exception set, 0 if
// some of it is unhashable: it may be mutated, which `_call` handles.
int note_metadata(PyObject* root, std::vector<Static>& metadata) {
  return visit_keys(root, [&](PyObject* key) {
    if (key == Py_None) return 1;
    Kind kind = kind_of(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(key, 0)));
    if (!kind && PyErr_Occurred()) return -1;
    if (kind && is_plain_container(kind.form())) return 1;
    PyObject* value = PyTuple_GET_ITEM(key, 1);
    Static s;
    s.value = Ref::borrow(value);
    s.is_plain = is_plain_static(value);
    if (!s.is_plain) s.hash = PyObject_Hash(value);
    if (s.hash == -1) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) return -1;
      PyErr_Clear();
      return 0;
    }
    metadata.push_back(std::move(s));
    return 1;
  });
}

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

// What a leaf of a call must match; false if such leaves are left to `_call`.
bool describe(PyObject* object, PyObject* aval, Leaf& leaf) {
  leaf.type = Py_TYPE(object);
  if (is_array(object) || is_placed(object)) {
    leaf.aval = Ref::borrow(aval);
    if (is_array(object)) return true;
    leaf.sharding = Ref::borrow(reinterpret_cast<ArrayData*>(object)->sharding);
    leaf.committed = reinterpret_cast<ArrayData*>(object)->committed;
    return true;
  }
  if (PyArray_CheckExact(object)) {
    PyArrayObject* array = reinterpret_cast<PyArrayObject*>(object);
    leaf.dtype = Ref::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(array)));
    leaf.shape.assign(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array));
    return true;
  }
  if (leaf.type == &PyLong_Type) {
    Ref dtype = Ref::own(PyObject_GetAttrString(aval, "dtype"));
    Ref size = dtype ? Ref::own(PyObject_GetAttrString(dtype.get(), "itemsize")) : Ref();
    long bytes = size ? PyLong_AsLong(size.get()) : 0;
    dismiss_exception();
    if (bytes != 4 && bytes != 8) return false;
    leaf.greatest = bytes == 4 ? INT32_MAX : INT64_MAX;
    leaf.least = -leaf.greatest - 1;
    return true;
  }
  return leaf.type == &PyFloat_Type || leaf.type == &PyBool_Type || leaf.type == &PyComplex_Type ||
         PyArray_CheckScalar(object);
}

bool is_argument(Py_ssize_t position, Py_ssize_t most) {
  if (0 <= position && position < most) return true;
  PyErr_SetString(PyExc_IndexError, "a call has no argument with that number");
  return false;
}

bool is_tuple(PyObject* given) {
  if (PyTuple_Check(given)) return true;
  PyErr_SetString(PyExc_TypeError, "the parts of a call are described by tuples");
  return false;
}

// Read how a value is compared: what `comparison_of` in jit/static_values.py returns.
bool read_static(PyObject* given, Static& s) {
  PyObject *value, *key, *names, *parts;
  int is_constant;
  if (!is_tuple(given) || !PyArg_ParseTuple(given, "OOpOO!", &value, &key, &is_constant, &names,
                                            &PyTuple_Type, &parts)) {
    return false;
  }
  s.is_constant = is_constant != 0;
  s.value = Ref::borrow(value);
  s.is_plain = is_plain_static(value);
  if (key != Py_None) s.key = Ref::borrow(key);
  Py_ssize_t count = PyTuple_GET_SIZE(parts);
  bool is_named = names != Py_None;
  if (is_named && (!PyTuple_Check(names) || PyTuple_GET_SIZE(names) != count)) {
    PyErr_SetString(PyExc_TypeError, "fields are compared by name and value");
    return false;
  }
  s.has_parts = count > 0 || !is_named;
  if (is_named && count > 0) s.names = Ref::borrow(names);
  s.parts.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts, i);
    if ((is_named && !PyUnicode_Check(PyTuple_GET_ITEM(names, i))) || !PyTuple_Check(part)) {
      PyErr_SetString(PyExc_TypeError, "fields are compared by name and value");
      return false;
    }
    if (!read_static(part, s.parts[static_cast<size_t>(i)])) return false;
  }
  if (!s.is_plain && !s.key && !s.has_parts) s.hash = PyObject_Hash(value);
  return s.hash != -1;
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

// Read which axes of which leaves have names: (how many names, a tuple of pairs (axis, number of
// its name) for each leaf, what creates the program for given sizes).
bool read_names(PyObject* given, Known& known) {
  Py_ssize_t count;
  PyObject *axes, *for_sizes;
  if (!is_tuple(given) ||
      !PyArg_ParseTuple(given, "nO!O", &count, &PyTuple_Type, &axes, &for_sizes)) {
    return false;
  }
  if (count < 1 || PyTuple_GET_SIZE(axes) != static_cast<Py_ssize_t>(known.leaves.size())) {
    PyErr_SetString(PyExc_ValueError, "each leaf has axes, of which some have names");
    return false;
  }
  known.names = static_cast<size_t>(count);
  known.for_sizes = Ref::borrow(for_sizes);
  for (size_t i = 0; i < known.leaves.size(); ++i) {
    PyObject* pairs = PyTuple_GET_ITEM(axes, static_cast<Py_ssize_t>(i));
    if (!is_tuple(pairs)) return false;
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(pairs); ++j) {
      int axis;
      Py_ssize_t number;
      PyObject* pair = PyTuple_GET_ITEM(pairs, j);
      if (!is_tuple(pair) || !PyArg_ParseTuple(pair, "in", &axis, &number)) return false;
      if (number < 0 || number >= count) {
        PyErr_SetString(PyExc_IndexError, "a name has a number");
        return false;
      }
      known.leaves[i].named.axes.push_back({axis, static_cast<size_t>(number)});
    }
  }
  return true;
}

// Let the named axes of a leaf have any size; false if its kind has no axes here.
bool free_sizes(Leaf& leaf) {
  if (leaf.named.axes.empty()) return true;
  if (leaf.aval) return leaf.named.read(leaf.aval.get());
  if (!leaf.dtype) return false;
  for (const NamedAxis& each : leaf.named.axes) {
    if (each.axis < 0 || static_cast<size_t>(each.axis) >= leaf.shape.size()) return false;
    leaf.shape[static_cast<size_t>(each.axis)] = -1;
  }
  return true;
}

// remember(positional, kwnames, statics, dynamics, avals, consts, program, out_tree, named):
// `statics` is a list of pairs of the number of an argument and how it is compared, `dynamics` one
// of pairs of the number of an argument and its value. `named` may be missing.
PyObject* callable_remember(PyObject* self, PyObject* args) {
  Callable* callable = reinterpret_cast<Callable*>(self);
  Py_ssize_t positional;
  PyObject *kwnames, *statics, *dynamics, *avals, *consts, *program, *out_tree,
      *named_axes = Py_None;
  if (!PyArg_ParseTuple(args, "nO!O!O!O!OOO!|O", &positional, &PyTuple_Type, &kwnames, &PyList_Type,
                        &statics, &PyList_Type, &dynamics, &PyTuple_Type, &avals, &consts, &program,
                        &tree_def_type, &out_tree, &named_axes)) {
    return nullptr;
  }
  if (Py_TYPE(program) != &placed_program_type && !PyObject_TypeCheck(program, &program_type)) {
    PyErr_SetString(PyExc_TypeError, "a program is remembered");
    return nullptr;
  }
  bool named = true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i) {
    named = named && PyUnicode_CheckExact(PyTuple_GET_ITEM(kwnames, i));
  }
  if (!named || positional < 0 || positional > INT_MAX) {
    PyErr_SetString(PyExc_TypeError,
                    "a call has a number of positional arguments, and names of others");
    return nullptr;
  }
  auto known = std::make_shared<Known>();
  PyObject* options = current_options();
  if (options == nullptr) return nullptr;
  known->options = Ref::borrow(options);
  known->positional = positional;
  if (PyTuple_GET_SIZE(kwnames) > 0) known->kwnames = Ref::borrow(kwnames);
  known->program = Ref::borrow(program);
  known->out_key = Ref::borrow(reinterpret_cast<TreeDef*>(out_tree)->key);
  known->consts = Ref::own(PySequence_Tuple(consts));
  Ref leaves = Ref::own(PyList_New(0));
  if (!known->consts || !leaves) return nullptr;
  Py_ssize_t most = positional + PyTuple_GET_SIZE(kwnames);
  // Hashing and flattening run Python code, which may change the lists.
  Ref all_statics = Ref::own(PyList_AsTuple(statics)),
      all_dynamics = Ref::own(PyList_AsTuple(dynamics));
  if (!all_statics || !all_dynamics) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all_statics.get()); ++i) {
    StaticArgument s;
    PyObject* comparison;
    PyObject* given = PyTuple_GET_ITEM(all_statics.get(), i);
    if (!is_tuple(given) ||
        !PyArg_ParseTuple(given, "nO!", &s.position, &PyTuple_Type, &comparison)) {
      return nullptr;
    }
    if (!is_argument(s.position, most) || !read_static(comparison, s.known)) return nullptr;
    known->statics.push_back(std::move(s));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all_dynamics.get()); ++i) {
    Py_ssize_t position;
    PyObject* value;
    PyObject* given = PyTuple_GET_ITEM(all_dynamics.get(), i);
    if (!is_tuple(given) || !PyArg_ParseTuple(given, "nO", &position, &value)) return nullptr;
    if (!is_argument(position, most)) return nullptr;
    Ref key = flatten(value, leaves.get());
    if (!key) return nullptr;
    int left = note_metadata(key.get(), known->metadata);
    if (left < 0) return nullptr;
    if (left == 0) Py_RETURN_FALSE;
    known->dynamics.push_back(Dynamic{position, std::move(key)});
  }
  Py_ssize_t count = PyList_GET_SIZE(leaves.get());
  if (count != PyTuple_GET_SIZE(avals)) Py_RETURN_FALSE;
  known->leaves.resize(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!describe(PyList_GET_ITEM(leaves.get(), i), PyTuple_GET_ITEM(avals, i),
                  known->leaves[static_cast<size_t>(i)])) {
      Py_RETURN_FALSE;
    }
  }
  if (named_axes != Py_None) {
    if (!read_names(named_axes, *known)) return nullptr;
    for (Leaf& leaf : known->leaves) {
      if (free_sizes(leaf)) continue;
      dismiss_exception();
      Py_RETURN_FALSE;
    }
  }
  auto& all = *callable->known;
  std::shared_ptr<Known> dropped;
  if (all.size() == kMost) {
    dropped = std::move(all.back());
    all.pop_back();
  }
  all.insert(all.begin(), std::move(known));
  Py_RETURN_TRUE;
}

PyObject* callable_forget(PyObject* self, PyObject*) {
  std::vector<std::shared_ptr<Known>> all;
  all.swap(*reinterpret_cast<Callable*>(self)->known);
  Py_RETURN_NONE;
}

PyObject* callable_new(PyTypeObject* type, PyObject*, PyObject*) {
  Callable* self = reinterpret_cast<Callable*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = callable_vectorcall;
  self->known = new std::vector<std::shared_ptr<Known>>();
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
    std::vector<std::shared_ptr<Known>> all;
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
