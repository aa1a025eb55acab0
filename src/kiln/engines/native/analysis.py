"""What a function of loops costs: operations, bytes that are read and written, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kiln.base.records import Record
from kiln.engines.native.loop_ir import (
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Reduce,
    Role,
    Statement,
    blocks,
)
from kiln.engines.native.passes.buffers import nodes, reads, writes
from kiln.engines.native.scalars import NUMPY_TYPES, Value

_FREE = frozenset(
    (
        "constant",
        "size",
        "load",
        "index",
        "select",
        "bitcast",
        "convert",
        "rare",
        "checked",
        "within",
    )
)


class MemoryAnalysis(Record):
    """The sizes of what a program needs, in bytes."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int


def costs(function: Function) -> dict[str, float]:
    """Return the operations and the bytes accessed; a `while` loop counts as one turn.

    A function such as `exp` is one operation. What kernels compute is not known here: only their
    bytes are counted.
    """
    flops, accessed = costs_of(function.body)
    return {"flops": flops, "bytes accessed": accessed}


def costs_of(statements: Sequence[Statement]) -> tuple[float, float]:
    """Return the operations of statements, and the bytes that they read and write."""
    flops = accessed = 0.0
    for statement in statements:
        if isinstance(statement, Nest):
            more, touched = _nest_costs(statement)
        elif isinstance(statement, (Kernel, Copy)):
            more = 0.0
            touched = float(sum(b.nbytes for b in (*reads(statement), *writes(statement))))
        else:
            parts = [costs_of(block) for block in blocks(statement)]
            turns = statement.axis.size if isinstance(statement, Loop) else 1
            longest = isinstance(statement, Branch)
            more = turns * (max if longest else sum)([f for f, _ in parts])
            touched = turns * (max if longest else sum)([b for _, b in parts])
        flops += more
        accessed += touched
    return flops, accessed


def _nest_costs(nest: Nest) -> tuple[float, float]:
    values = nodes(nest)
    work = sum(x.op not in _FREE and _counts(x) for x in values)
    work += sum(isinstance(e, Reduce) for e in nest.effects)
    read: dict[Buffer, int] = {}
    for x in values:
        if x.op == "load" and x.attr[0].role is not Role.CONST:
            buffer, index = x.attr
            places = nest.points if x.operands else _places(nest, index)
            read[buffer] = read.get(buffer, 0) + places
    accessed = sum(min(b.size, n) * NUMPY_TYPES[b.dtype].itemsize for b, n in read.items())
    for effect in nest.effects:
        places = _places(nest, effect.index) if isinstance(effect, Reduce) else nest.points
        accessed += NUMPY_TYPES[effect.buffer.dtype].itemsize * places
    return float(work * nest.points), float(accessed)


def _counts(x: Value) -> bool:
    return any(y.op not in ("constant", "size") for y in x.operands)


def _places(nest: Nest, index: Index) -> int:
    """Return how many elements an index without values reaches in a nest, at most."""
    return math.prod(int(axis.size) for axis in nest.axes if index.factor(axis) != 0)
