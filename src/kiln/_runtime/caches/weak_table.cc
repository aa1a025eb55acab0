// Values associated with objects for their lifetime, looked up by identity: an equal object, or a
// new one at the same address, finds nothing.
#include <unordered_map>

#include "objects/object.h"

namespace kiln {
namespace {

struct Entry {
  Ref key;  // a weak reference
  Ref value;
};

struct WeakTable {
  PyObject_HEAD
  std::unordered_map<PyObject*, Entry>* entries;
  std::unordered_map<PyObject*, PyObject*>* keys;  // by their weak references
  PyObject* on_death;
};

WeakTable* as_table(PyObject* self) { return reinterpret_cast<WeakTable*>(self); }

PyObject* forget_dead(PyObject* self, PyObject* reference) {
  WeakTable* table = as_table(self);
  Entry gone;  // released last: destroying values may run code
  auto key = table->keys->find(reference);
  if (key != table->keys->end()) {
    auto found = table->entries->find(key->second);
    if (found != table->entries->end() && found->second.key.get() == reference) {
      gone = std::move(found->second);
      table->entries->erase(found);
    }
    table->keys->erase(key);
  }
  Py_RETURN_NONE;
}

PyMethodDef death = {"forget_dead", forget_dead, METH_O, nullptr};

PyObject* table_get(PyObject* self, PyObject* object) {
  WeakTable* table = as_table(self);
  auto found = table->entries->find(object);
  if (found == table->entries->end() || !refers_to(found->second.key.get(), object)) {
    Py_RETURN_NONE;
  }
  return Py_NewRef(found->second.value.get());
}

PyObject* table_put(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "put takes an object and a value");
    return nullptr;
  }
  WeakTable* table = as_table(self);
  PyObject *object = args[0], *value = args[1];
  auto found = table->entries->find(object);
  if (found != table->entries->end() && refers_to(found->second.key.get(), object)) {
    return Py_NewRef(found->second.value.get());
  }
  if (table->on_death == nullptr) {
    table->on_death = PyCFunction_New(&death, self);
    if (table->on_death == nullptr) return nullptr;
  }
  // Creating one may trigger garbage collection, and with it arbitrary code.
  Ref reference = Ref::own(PyWeakref_NewRef(object, table->on_death));
  if (!reference) return nullptr;
  auto [place, is_first] = table->entries->try_emplace(object);
  if (!is_first && refers_to(place->second.key.get(), object)) {
    return Py_NewRef(place->second.value.get());
  }
  Entry before =
      std::exchange(place->second, Entry{Ref::borrow(reference.get()), Ref::borrow(value)});
  if (before.key) table->keys->erase(before.key.get());
  (*table->keys)[reference.get()] = object;
  return Py_NewRef(value);
}

PyObject* table_values(PyObject* self, PyObject*) {
  Ref all = Ref::own(PyList_New(0));
  if (!all) return nullptr;
  // Appending runs no foreign code.
  for (const auto& [object, entry] : *as_table(self)->entries) {
    if (PyList_Append(all.get(), entry.value.get()) < 0) return nullptr;
  }
  return all.release();
}

Py_ssize_t table_length(PyObject* self) {
  return static_cast<Py_ssize_t>(as_table(self)->entries->size());
}

PyObject* table_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  as_table(self)->entries = new std::unordered_map<PyObject*, Entry>();
  as_table(self)->keys = new std::unordered_map<PyObject*, PyObject*>();
  return self;
}

int table_traverse(PyObject* self, visitproc visit, void* arg) {
  WeakTable* table = as_table(self);
  Py_VISIT(table->on_death);
  if (table->entries == nullptr) return 0;
  for (const auto& [object, entry] : *table->entries) {
    Py_VISIT(entry.key.get());
    Py_VISIT(entry.value.get());
  }
  return 0;
}

int table_clear(PyObject* self) {
  WeakTable* table = as_table(self);
  std::unordered_map<PyObject*, Entry> gone;
  if (table->entries != nullptr) gone.swap(*table->entries);
  if (table->keys != nullptr) table->keys->clear();
  Py_CLEAR(table->on_death);
  return 0;
}

void table_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  table_clear(self);
  delete as_table(self)->entries;
  delete as_table(self)->keys;
  Py_TYPE(self)->tp_free(self);
}

PyMethodDef methods[] = {
    {"get", table_get, METH_O, "Return the value of an object, or None."},
    {"put", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(table_put)), METH_FASTCALL,
     "Associate a value with an object, unless it has one; return its value."},
    {"values", table_values, METH_NOARGS, "Return the values of all objects that live."},
    {nullptr},
};

PySequenceMethods as_sequence = {.sq_length = table_length};

PyTypeObject weak_table_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.WeakTable",
    .tp_basicsize = sizeof(WeakTable),
    .tp_dealloc = table_dealloc,
    .tp_as_sequence = &as_sequence,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "Values associated with objects, looked up by identity, for the lifetime of the objects.",
    .tp_traverse = table_traverse,
    .tp_clear = table_clear,
    .tp_methods = methods,
    .tp_new = table_new,
};

}  // namespace

int add_weak_table(PyObject* module) { return add_type(module, &weak_table_type); }

}  // namespace kiln
