// Enumerations shared with Python. They are defined in C++ alone; the module exposes each as an
// IntEnum.
#pragma once

#include <initializer_list>

#include "objects/object.h"

namespace kiln {

struct EnumerationMember {
  const char* name;
  int number;
};

inline int add_enumeration(PyObject* module, const char* name, const char* doc,
                           std::initializer_list<EnumerationMember> members) {
  Ref numbers = Ref::own(PyDict_New());
  for (const EnumerationMember& member : members) {
    Ref number = numbers ? Ref::own(PyLong_FromLong(member.number)) : Ref();
    if (!number || PyDict_SetItemString(numbers.get(), member.name, number.get()) < 0) return -1;
  }
  Ref enums = Ref::own(PyImport_ImportModule("enum"));
  Ref base = enums ? Ref::own(PyObject_GetAttrString(enums.get(), "IntEnum")) : Ref();
  Ref args = base ? Ref::own(Py_BuildValue("(sO)", name, numbers.get())) : Ref();
  Ref options = args ? Ref::own(Py_BuildValue("{s:s}", "module", "kiln._runtime")) : Ref();
  Ref made = options ? Ref::own(PyObject_Call(base.get(), args.get(), options.get())) : Ref();
  Ref text = made ? Ref::own(PyUnicode_FromString(doc)) : Ref();
  if (!text || PyObject_SetAttrString(made.get(), "__doc__", text.get()) < 0) return -1;
  return PyModule_AddObjectRef(module, name, made.get());
}

}  // namespace kiln
