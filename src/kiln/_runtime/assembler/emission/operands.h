// Which registers an operation reads and writes.
#pragma once

#include "assembler/emission/machine.h"

namespace kiln::assembler {

template <typename Visit>
void for_each_use(const Body& body, const Op& op, Visit&& visit) {
  for (Register r : {op.a, op.b, op.c, op.mask, op.memory.base, op.memory.index}) {
    if (r != kNone) visit(r);
  }
  if (op.shape == Shape::kCall || op.shape == Shape::kReturn) {
    for (uint32_t i = 0; i < op.count; ++i) visit(body.lists[op.first + i]);
  }
}

template <typename Visit>
void for_each_result(const Body& body, const Op& op, Visit&& visit) {
  if (op.d != kNone) visit(op.d);
  if (op.shape == Shape::kCall) {
    for (uint32_t i = 0; i < op.results; ++i) visit(body.lists[op.first + op.count + i]);
  } else if (op.shape == Shape::kParameters) {
    for (uint32_t i = 0; i < op.count; ++i) visit(body.lists[op.first + i]);
  }
}

}  // namespace kiln::assembler
