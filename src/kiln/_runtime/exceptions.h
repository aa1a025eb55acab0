// Exceptions that are not what was asked for: interrupts that strike while a question is answered.
#pragma once

#include "object.h"

namespace kiln {

// Drop the exception of a question whose answer is "no", if there is one. What is no `Exception`,
// as a KeyboardInterrupt, answers nothing: this thread raises it again where it next runs Python.
void dismiss_exception();

int add_exceptions(PyObject* module);

}  // namespace kiln
