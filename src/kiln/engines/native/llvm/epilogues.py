"""The epilogue of a product, as a function that runs on one block
(`_runtime/linear/products/epilogue.h`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kiln.engines.native.llvm.module import Module
from kiln.engines.native.llvm.nests import NestCode
from kiln.engines.native.llvm.sequences import Step, Where
from kiln.engines.native.llvm.writer import COUNTER, NUMBER, POINTER, Writer, slots_of
from kiln.engines.native.loop_ir.buffers import touched
from kiln.engines.native.loop_ir.convolutions import CONVOLUTIONS
from kiln.engines.native.loop_ir.products import matrix_of
from kiln.engines.native.loop_ir.statements import Axis, Blocked, Buffer, Loop, Nest, Place
from kiln.engines.native.passes.expansion import expanded
from kiln.engines.native.passes.schedule import schedule
from kiln.ir.sizes.size import as_ints

HEAD = 3
"""The slots of a context before those of the nest: the item, the first column, the end column."""
WriteRows = Callable[[Writer, Loop, dict[Buffer, str], dict[Axis, str]], None]
"""Writes a loop over a range of its axis, given the registers of its buffers and counters."""
EPILOGUE = 3
"""Which buffer of the kernel is the epilogue."""


def places_of(blocked: Blocked) -> list[Place]:
    """Return the kernel's arguments, except the epilogue itself and counters."""
    product = blocked.product
    touches = [Place(buffer) for buffer in touched(blocked.epilogue)]
    return [*product.operands, *product.results, *touches]


def call(
    module: Module, blocked: Blocked, outer: list[Axis], write: WriteRows
) -> tuple[str, str, str]:
    """Return the kernel that computes a product and its epilogue, the function, and its numbers.

    The function takes the counters of the `outer` axes after the buffers.
    """
    epilogue, product = blocked.epilogue, blocked.product
    kernel, _, kind = product.symbol.rpartition("_")
    symbol = f"{kernel}_epilogue_{kind}"
    module.symbols.add(symbol)
    buffers = touched(epilogue)
    slot = HEAD + buffers.index(product.results[0].buffer)
    is_of_rows = isinstance(epilogue, Loop)
    rows = int(blocked.axes[-1 if is_of_rows else -2].size)
    count = HEAD + len(buffers) + len(outer) * slots_of(COUNTER, module.target)
    numbers = [*as_ints(product.numbers), count, slot, rows, is_of_rows]
    matrix = matrix_of(product)
    assert matrix is not None
    if product.symbol in CONVOLUTIONS:
        numbers.append(matrix.columns)
    return symbol, _function(module, blocked, outer, write), module.table(tuple(map(int, numbers)))


def step(
    module: Module, blocked: Blocked, places: list[Where] | None, write: WriteRows
) -> Step | None:
    """Return the step of a product, given the addresses of its buffers, if they are known."""
    if places is None:
        return None
    symbol, name, numbers = call(module, blocked, [], write)
    buffers = [*places[:EPILOGUE], Where(3, constant=f"@{name}"), *places[EPILOGUE:]]
    return Step(symbol, buffers, numbers=numbers)


def _function(module: Module, blocked: Blocked, outer: list[Axis], write: WriteRows) -> str:
    """Return the name of the function that runs on a range of the rows of an item.

    Its context holds the item and the range of columns, the addresses of the buffers that the
    epilogue accesses, then the counters of the enclosing axes.
    """
    w = module.writer()
    epilogue = blocked.epilogue
    buffers = touched(epilogue)
    kinds = [NUMBER] * HEAD + [POINTER] * len(buffers) + [COUNTER] * len(outer)
    number, first, last, *given = w.load_slots(kinds)
    pointers = dict(zip(buffers, given, strict=False))
    counters = dict(zip(outer, given[len(buffers) :], strict=True))
    items = blocked.axes[: -1 if isinstance(epilogue, Loop) else -2]
    for i, axis in enumerate(reversed(items)):
        if i + 1 == len(items):
            counters[axis] = number
        else:
            counters[axis] = w.emit(f"urem i64 {number}, {axis.size}")
            number = w.emit(f"udiv i64 {number}, {axis.size}")
    if isinstance(epilogue, Loop):
        inner = epilogue
        for _ in items:
            (inner,) = (each for each in inner.body if isinstance(each, Loop))
        write(w, inner, pointers, counters)
    else:
        _nest(module, w, epilogue, pointers, counters, (first, last))
        w.do("ret i32 0")
    return module.part(w)


def _nest(
    module: Module,
    w: Writer,
    nest: Nest,
    pointers: dict[Buffer, str],
    counters: dict[Axis, str],
    columns: tuple[str, str],
) -> None:
    """Write a nest over a range of rows and columns."""
    nest = expanded(nest, module.called)
    row, column = nest.axes[-2:]
    here = Nest((row, column), nest.effects, source=nest.source, lines=nest.lines)
    plan = schedule(here, module.target.vector_bytes)
    assert plan.order == (row, column)
    assert plan.vector is column
    # A block need not end at a vector boundary.
    plan = dataclasses.replace(plan, is_exact=False)
    code = NestCode(w, here, plan, pointers.__getitem__, counters, module.elementary)
    code.write("%begin", "%end", columns)
