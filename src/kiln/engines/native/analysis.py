"""What a function of loops costs: operations, bytes that are read and written, memory."""

from __future__ import annotations

import dataclasses

from kiln.engines.native.loop_ir import (
    Branch,
    Copy,
    Function,
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
    ("constant", "load", "index", "select", "bitcast", "convert", "rare", "checked", "within")
)


@dataclasses.dataclass(frozen=True)
class MemoryAnalysis:
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
    flops, accessed = _costs(function.body)
    return {"flops": flops, "bytes accessed": accessed}


def _costs(statements: list[Statement]) -> tuple[float, float]:
    flops = accessed = 0.0
    for statement in statements:
        if isinstance(statement, Nest):
            more, touched = _nest_costs(statement)
        elif isinstance(statement, (Kernel, Copy)):
            more = 0.0
            touched = float(sum(b.nbytes for b in (*reads(statement), *writes(statement))))
        else:
            parts = [_costs(block) for block in blocks(statement)]
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
    loaded = {
        x.attr[0]: None for x in values if x.op == "load" and x.attr[0].role is not Role.CONST
    }
    stored = sum(NUMPY_TYPES[e.buffer.dtype].itemsize * _places(nest, e) for e in nest.effects)
    return float(work * nest.points), float(sum(b.nbytes for b in loaded) + stored)


def _counts(x: Value) -> bool:
    return any(y.op != "constant" for y in x.operands)


def _places(nest: Nest, effect: object) -> int:
    total = 1
    for axis in nest.axes:
        if not isinstance(effect, Reduce) or effect.index.factor(axis):
            total *= axis.size
    return total
