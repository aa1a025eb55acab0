"""A temporary of columns that no access mixes is a buffer for each column.

Indices into several dimensions are stacked to a matrix with a column for each dimension. Several
nests write it, so that none was fused with the gather that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from kiln.engines.native.loop_ir.buffers import accesses, reads, writes
from kiln.engines.native.loop_ir.extents import is_named, quotient
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Nest,
    Role,
    Statement,
    walk,
)
from kiln.engines.native.passes.rebuilding import with_places
from kiln.ir.sizes.size import Dim

MOST_COLUMNS = 8


def divide_columns(function: Function) -> None:
    """Divide temporaries whose accesses all stay in a column."""
    columns = {b: made for b, count in _counts(function).items() if (made := _divided(b, count))}
    if columns:
        _rewrite(function.body, columns)


def _terms(index: Index) -> Iterator[tuple[Axis | Value, Dim]]:
    """Iterate over the terms that are not always zero."""
    return ((t, f) for t, f in index.terms if not isinstance(t, Axis) or t.size != 1)


def _counts(function: Function) -> dict[Buffer, int]:
    """Return what divides the steps of all accesses to a temporary, if it is more than 1."""
    found: dict[Buffer, int] = {}
    others: list[Statement] = []
    for statement in walk(function.body):
        if not isinstance(statement, Nest):
            others.append(statement)
            continue
        for buffer, index in accesses(statement):
            count = found.get(buffer, 0)
            if count == 1 or buffer.role is not Role.TEMP:
                continue
            steps = [0 if is_named(f) else int(f) for _, f in _terms(index)]
            is_known = 0 not in steps and not is_named(index.const)
            found[buffer] = math.gcd(count, *steps) if is_known else 1
    found = {b: n for b, n in found.items() if 1 < n <= MOST_COLUMNS}
    if not found:
        return found  # as in most programs
    elsewhere = {*function.outputs, *chain.from_iterable((*reads(x), *writes(x)) for x in others)}
    return {b: n for b, n in found.items() if b not in elsewhere}


def _divided(buffer: Buffer, count: int) -> list[Buffer] | None:
    """Return a buffer for each column; None if they have different sizes."""
    size = quotient(buffer.size, count)
    if size is None:
        return None
    return [Buffer(f"{buffer.name}c{i}", buffer.dtype, size, Role.TEMP) for i in range(count)]


def _rewrite(statements: list[Statement], columns: dict[Buffer, list[Buffer]]) -> None:
    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        made = columns.get(buffer)
        if made is None:
            return buffer, index
        row, column = divmod(int(index.const), len(made))
        terms = [(t, int(f) // len(made)) for t, f in _terms(index)]
        return made[column], Index(row, terms)

    for i, statement in enumerate(statements):
        for block in statement.blocks:
            _rewrite(block, columns)
        if isinstance(statement, Nest) and any(b in columns for b, _ in accesses(statement)):
            statements[i] = with_places(statement, statement.axes, move)
