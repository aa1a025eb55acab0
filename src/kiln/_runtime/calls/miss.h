// What is recorded about a call after a miss, so that calls like it are hits.
#pragma once

#include "calls/signature.h"

namespace kiln {

// remember(positional, kwnames, statics, dynamics, avals, consts, program, out_tree, named):
// `statics` is a list of pairs of the number of an argument and how it is compared, `dynamics` one
// of pairs of the number of an argument and its value. `named` may be missing.
// Returns True, or False if such calls are left to `_call`; null with an exception set.
PyObject* remember(KnownCalls& calls, PyObject* args);

}  // namespace kiln
