// Which classes are inner nodes of pytrees, and how their values are flattened.
#pragma once

#include "objects/object.h"

namespace kiln {

// The ways to flatten a node that are built in; others are Python functions.
enum class Form : int { kCustom, kTuple, kList, kDict, kNone, kNamedTuple, kFields };

// How values of one class are flattened and unflattened. The functions are Python functions, for
// kCustom only.
struct NodeKind {
  PyObject_HEAD
  PyObject* flatten;  // value -> (children, metadata)
  PyObject* build;    // (metadata, children) -> value
  // (metadata, number of children) -> key entries, or None; a tuple if they are always the same
  PyObject* entries;
  PyObject* keyed;     // value -> ((key entry, child) pairs, metadata), or None
  PyObject* children;  // of kFields and kNamedTuple: names of the attributes that are children
  PyObject* metadata;  // of kFields: names of the attributes that are metadata
  char registered;
  char is_made;
  int form;
};

extern PyTypeObject node_kind_type;

// Recently seen leaf classes: most leaves of a tree have the same few.
constexpr size_t kSeen = 64;
extern PyTypeObject* seen_leaves[kSeen];

inline size_t place_of(PyTypeObject* type) { return (reinterpret_cast<size_t>(type) >> 4) % kSeen; }
inline bool is_known_leaf(PyTypeObject* type) { return seen_leaves[place_of(type)] == type; }

// The kind of a class, with a reference held during use: another may be registered meanwhile.
class Kind {
 public:
  Kind() = default;
  explicit Kind(Ref kind) : kind_(std::move(kind)) {}
  explicit operator bool() const { return bool(kind_); }
  NodeKind* get() const { return reinterpret_cast<NodeKind*>(kind_.get()); }
  NodeKind* operator->() const { return get(); }
  Form form() const { return static_cast<Form>(get()->form); }

 private:
  Ref kind_;
};

// Return the kind of a class; nothing for leaves, and nothing with an exception set.
Kind kind_of(PyTypeObject* type);

// A flattened node. `children` is a list or tuple; its size may change while user code runs.
struct Node {
  Ref children;
  Ref metadata;
};

// Flatten one level of a value; false with an exception set.
bool take_apart(NodeKind* kind, PyObject* value, Node& node);

// The same, and return the key entries of the children as a tuple.
Ref take_apart_with_entries(NodeKind* kind, PyObject* value, Node& node);

}  // namespace kiln
