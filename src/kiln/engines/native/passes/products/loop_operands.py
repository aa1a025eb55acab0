"""Matrices that every iteration of a loop multiplies by transposed are transposed before the loop.

A product of few rows reads a row-major matrix in place, but has to pack a transposed one: each
iteration would.
"""

from __future__ import annotations

from collections.abc import Set

from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import (
    Buffer,
    Function,
    Index,
    Kernel,
    Loop,
    Place,
    Role,
    Statement,
)
from kiln.engines.native.passes.invariants import insert_before_loops
from kiln.engines.native.passes.products.chains import numbers_of

MOST_ROWS = 64
"""With more rows, packing takes a small part of the time of a product."""
FEWEST_ROWS = 2
"""A single row reads a transposed matrix in place."""


def transpose_matrices(function: Function) -> None:
    """Transpose matrices that loops do not change, once before each loop."""
    insert_before_loops(function, _before)


def _before(loop: Loop, changing: Set[Buffer]) -> list[Statement]:
    """Let the products of a loop read transposed matrices; return the kernels that make them."""
    made: dict[tuple[Buffer, Index, int, int], Kernel] = {}
    for i, statement in enumerate(loop.body):
        numbers = numbers_of(statement)
        if numbers is None or not isinstance(statement, Kernel):
            continue
        left, right = statement.operands
        is_constant = right.buffer not in changing and not right.index.operands
        if (
            not numbers.transpose_b
            or numbers.b_step != 0
            or not is_constant
            or right.index.factor(loop.axis) != 0
            or not FEWEST_ROWS <= numbers.batch * numbers.m <= MOST_ROWS
        ):
            continue
        key = (right.buffer, right.index, numbers.n, numbers.k)
        if key not in made:
            to = Buffer(
                f"{right.buffer.name}t", right.buffer.dtype, numbers.n * numbers.k, Role.TEMP
            )
            item = NUMPY_TYPES[to.dtype].itemsize.bit_length() - 1
            shape = [item, 2, numbers.n, numbers.k, 1, 0]
            made[key] = Kernel("kiln_transpose", [right], [Place(to)], shape, statement.source)
        row_major = [*statement.numbers[:5], 0, *statement.numbers[6:]]
        operands = [left, *made[key].results]
        loop.body[i] = Kernel(
            statement.symbol, operands, statement.results, row_major, statement.source
        )
    return list(made.values())
