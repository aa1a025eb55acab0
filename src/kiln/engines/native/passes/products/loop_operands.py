"""Matrices that every iteration of a loop multiplies by are packed before the loop.

A product reads its right operand in panels. It packs the operand on every call, or with few rows
reads it in place, with large strides: the same panels are read faster, and written once.
"""

from __future__ import annotations

from collections.abc import Set

from kiln.engines.native.loop_ir.products import PACKED, packed_size
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import (
    Buffer,
    Function,
    Kernel,
    Loop,
    Place,
    Role,
    Statement,
)
from kiln.engines.native.passes.invariants import insert_before_loops
from kiln.engines.native.passes.products.chains import Numbers, numbers_of

MOST_ROWS = 256
"""With more rows, packing takes a small part of the time of a product."""
FEWEST_ROWS = 2
"""A single row is another algorithm."""
FEWEST_COLUMNS = 8
FEWEST_TERMS = 4
"""Smaller products read no panels."""
FEWEST_ELEMENTS = 1 << 10
NEAR_BYTES = 1 << 19
"""Up to this size a matrix in place is read as fast as panels."""
FAR_BYTES = 1 << 20
"""A larger matrix is read faster from panels however few the rows."""
FEWEST_NEAR_ROWS = 10
"""With fewer rows, a matrix between these sizes is read as fast in place."""


class Packing:
    """The panels that were made of parts of matrices, each once."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], Kernel] = {}

    @property
    def statements(self) -> list[Statement]:
        """The kernels that pack."""
        return list(self._made.values())

    @property
    def nbytes(self) -> int:
        """The bytes of all panels."""
        return sum(int(each.results[0].buffer.nbytes) for each in self._made.values())

    def product(self, statement: Kernel, numbers: Numbers) -> Kernel:
        """Return a product that reads its right operand from panels."""
        left, right = statement.operands
        key = (right.buffer, right.index, numbers.n, numbers.k, numbers.transpose_b)
        if key not in self._made:
            size = packed_size(numbers.n, numbers.k)
            to = Buffer(f"{right.buffer.name}p", right.buffer.dtype, size, Role.TEMP)
            shape = [numbers.n, numbers.k, numbers.transpose_b]
            symbol = statement.symbol.replace("gemm", "gemm_pack")
            self._made[key] = Kernel(symbol, [right], [Place(to)], shape, statement.source)
        flagged = [*statement.numbers[:9], numbers.flags | PACKED]
        operands = [left, *self._made[key].results]
        return Kernel(statement.symbol, operands, statement.results, flagged, statement.source)


def pack_matrices(function: Function) -> None:
    """Pack matrices that loops do not change, once before each loop."""
    insert_before_loops(function, _before)


def is_packing(statement: Statement) -> bool:
    """Tell whether a statement packs a matrix."""
    return isinstance(statement, Kernel) and statement.symbol.startswith("kiln_gemm_pack_")


def is_worth_packing(numbers: Numbers, itemsize: int) -> bool:
    """Tell whether a product is faster with a packed right operand, apart from the packing.

    The product computes the same bits from panels.
    """
    if numbers.b_step != 0 or numbers.n < FEWEST_COLUMNS or numbers.k < FEWEST_TERMS:
        return False
    is_one = not numbers.transpose_a and numbers.a_step == numbers.m * numbers.k
    rows = numbers.m * (numbers.batch if is_one else 1)
    elements = numbers.n * numbers.k
    if not FEWEST_ROWS <= rows <= MOST_ROWS or elements < FEWEST_ELEMENTS:
        return False
    if numbers.transpose_b or elements * itemsize > FAR_BYTES:
        return True
    return rows >= FEWEST_NEAR_ROWS and elements * itemsize > NEAR_BYTES


def _before(loop: Loop, changing: Set[Buffer]) -> list[Statement]:
    """Let the products of a loop read panels; return the kernels that make them."""
    packing = Packing()
    moved: list[Statement] = []
    for statement in list(loop.body):
        if not isinstance(statement, Kernel) or not statement.operands:
            continue
        right = statement.operands[-1]
        is_constant = right.buffer not in changing and not right.index.operands
        if not is_constant or right.index.factor(loop.axis) != 0:
            continue
        numbers = numbers_of(statement)
        if numbers is not None:
            if is_worth_packing(numbers, NUMPY_TYPES[right.buffer.dtype].itemsize):
                loop.body[loop.body.index(statement)] = packing.product(statement, numbers)
        elif is_packing(statement):
            # It was made for a loop inside this one.
            loop.body.remove(statement)
            moved.append(statement)
    return [*moved, *packing.statements]
