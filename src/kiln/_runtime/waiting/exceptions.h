// Interrupts that arrive while a query runs whose own exceptions are discarded.
#pragma once

#include "objects/object.h"

namespace kiln {

// Discard the exception of a query whose answer is "no", if there is one. An exception that does
// not derive from `Exception`, such as KeyboardInterrupt, is not an answer: it is raised again
// where this thread next runs Python code.
void dismiss_exception();

}  // namespace kiln
