// Calls of eager functions.
#pragma once

#include "objects/object.h"

namespace kiln {

extern PyTypeObject eager_type;

inline bool is_eager(PyObject* function) { return Py_TYPE(function) == &eager_type; }

// Call an eager function, as `PyObject_Vectorcall` does.
PyObject* call_eager(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames);

}  // namespace kiln
