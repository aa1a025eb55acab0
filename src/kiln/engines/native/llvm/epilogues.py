"""The epilogue of a product as a function of a block of it (`_runtime/linear/epilogue.h`)."""

from __future__ import annotations

import dataclasses

from kiln.engines.native.llvm.module import Module
from kiln.engines.native.llvm.nests import NestCode
from kiln.engines.native.llvm.sequences import Step, Where
from kiln.engines.native.loop_ir import Axis, Blocked, Nest, Place
from kiln.engines.native.passes.buffers import touched
from kiln.engines.native.passes.expansion import expanded
from kiln.engines.native.passes.schedule import schedule
from kiln.ir.sizes import as_ints

HEAD = 3
"""The slots of a context before those of the nest: the item, the first column, the end of them."""
EPILOGUE = 3
"""Which buffer of the kernel is the epilogue."""


def places_of(blocked: Blocked) -> list[Place]:
    """Return what the kernel is given, but for the epilogue itself and counters."""
    product = blocked.product
    touches = [Place(buffer) for buffer in touched(blocked.epilogue)]
    return [*product.operands, *product.results, *touches]


def call(module: Module, blocked: Blocked, outer: list[Axis]) -> tuple[str, str, str]:
    """Return the kernel that computes a product and its epilogue, that function, and its numbers.

    The function is given the counters of the `outer` axes after the buffers.
    """
    nest, product = blocked.epilogue, blocked.product
    symbol = product.symbol.replace("gemm", "gemm_epilogue")
    module.symbols.add(symbol)
    slots = touched(nest)
    slot = HEAD + slots.index(product.results[0].buffer)
    numbers = as_ints(product.numbers)
    about = (HEAD + len(slots) + len(outer), slot, int(nest.axes[-2].size))
    return symbol, _function(module, blocked, outer), module.table((*numbers, *about))


def step(module: Module, blocked: Blocked, places: list[Where]) -> Step:
    """Return the step of a product whose buffers lie at some places."""
    symbol, name, numbers = call(module, blocked, [])
    buffers = [*places[:EPILOGUE], Where(3, constant=f"@{name}"), *places[EPILOGUE:]]
    return Step(symbol, buffers, numbers=numbers)


def _function(module: Module, blocked: Blocked, outer: list[Axis]) -> str:
    """Return the name of the function that runs on a range of the rows of an item.

    Its context holds the item and the range of columns, where the buffers are that the nest
    touches, then the counters of the axes around it.
    """
    w = module.writer()

    def slot(i: int, kind: str) -> str:
        place = w.emit(f"getelementptr i64, ptr %context, i64 {i}")
        return w.emit(f"load {kind}, ptr {place}, align 8")

    nest = expanded(blocked.epilogue, module.called)
    *items, row, column = nest.axes
    number, first, last = (slot(i, "i64") for i in range(HEAD))
    buffers = touched(nest)
    pointers = {buffer: slot(i, "ptr") for i, buffer in enumerate(buffers, HEAD)}
    counters = {axis: slot(i, "i64") for i, axis in enumerate(outer, HEAD + len(buffers))}
    for i, axis in enumerate(reversed(items)):
        if i + 1 == len(items):
            counters[axis] = number
        else:
            counters[axis] = w.emit(f"urem i64 {number}, {axis.size}")
            number = w.emit(f"udiv i64 {number}, {axis.size}")
    here = Nest((row, column), nest.effects, source=nest.source, lines=nest.lines)
    plan = schedule(here, module.target.vector_bytes)
    assert plan.order == (row, column)
    assert plan.vector is column
    # A block need not end where a vector does.
    plan = dataclasses.replace(plan, is_exact=False)
    code = NestCode(w, here, plan, pointers.__getitem__, counters, module.elementary)
    code.write("%begin", "%end", (first, last))
    w.do("ret i32 0")
    return module.part(w)
