"""Matrices that every iteration of a loop multiplies by are packed before the loop.

A product reads its right operand in panels. It packs the operand on every call, or with few rows
reads it in place, with large strides: the same panels are read faster, and written once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from kiln.engines.native.loop_ir.convolutions import PACKED as WINDOWS_PACKED
from kiln.engines.native.loop_ir.convolutions import Window, window_of
from kiln.engines.native.loop_ir.products import PACKED, REPEATED, packed_size
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
_PACKING = ("kiln_gemm_pack_", "kiln_conv_pack_")
FEWEST_NEAR_ROWS = 10
"""With fewer rows, a matrix between these sizes is read as fast in place."""


class Packing:
    """The panels that were made of parts of matrices, each once."""

    def __init__(self, flags: int = PACKED) -> None:
        """Products of these panels have the flags."""
        self._flags = flags
        self._made: dict[tuple[object, ...], Kernel] = {}

    @property
    def statements(self) -> list[Statement]:
        """The kernels that pack."""
        return list(self._made.values())

    @property
    def nbytes(self) -> int:
        """The bytes of all panels."""
        return sum(int(each.results[0].buffer.nbytes) for each in self._made.values())

    def adopt(self, packing: Kernel) -> Buffer:
        """Return the panels that a statement makes, or equal ones that were made before."""
        return self._made.setdefault(_key(packing), packing).results[0].buffer

    def product(self, statement: Kernel, numbers: Numbers) -> Kernel:
        """Return a product that reads its right operand from panels."""
        shape = [numbers.n, numbers.k, numbers.transpose_b]
        symbol = statement.symbol.replace("gemm", "gemm_pack")
        panels = self._panels(statement, symbol, shape, packed_size(numbers.n, numbers.k))
        flagged = [*statement.numbers[:9], numbers.flags | self._flags]
        operands = [statement.operands[0], Place(panels)]
        return Kernel(statement.symbol, operands, statement.results, flagged, statement.source)

    def convolution(self, statement: Kernel, window: Window) -> Kernel:
        """Return a convolution that reads its kernel from panels."""
        symbol = statement.symbol.replace("conv", "conv_pack")
        size = packed_size(window.features, window.terms)
        panels = self._panels(statement, symbol, window.of_kernel.numbers, size)
        symbol = statement.symbol.replace("kiln_conv_", WINDOWS_PACKED)
        operands = [statement.operands[0], Place(panels)]
        return Kernel(symbol, operands, statement.results, statement.numbers, statement.source)

    def _panels(self, reader: Kernel, symbol: str, numbers: Sequence[int], size: int) -> Buffer:
        right = reader.operands[1]
        to = Buffer(f"{right.buffer.name}p", right.buffer.dtype, size, Role.TEMP)
        return self.adopt(Kernel(symbol, [right], [Place(to)], numbers, reader.source))

    def packed(self, statement: Kernel) -> Kernel | None:
        """Return a statement that reads its right operand from panels, if it is faster."""
        numbers, window = numbers_of(statement), window_of(statement)
        size = NUMPY_TYPES[statement.results[0].buffer.dtype].itemsize
        if numbers is not None and is_worth_packing(numbers, size):
            return self.product(statement, numbers)
        if window is None or statement.symbol.startswith(WINDOWS_PACKED) or not window.has_lines:
            return None
        return self.convolution(statement, window)


def _key(packing: Kernel) -> tuple[object, ...]:
    (place,) = packing.operands
    return packing.symbol, place.buffer, place.index, packing.numbers


def pack_matrices(function: Function) -> None:
    """Pack matrices that loops do not change, once before each loop."""
    insert_before_loops(function, _before)


def is_packing(statement: Statement) -> bool:
    """Tell whether a statement packs a matrix, or the kernel of a convolution."""
    return isinstance(statement, Kernel) and statement.symbol.startswith(_PACKING)


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
    packing = Packing(PACKED | REPEATED)
    moved: list[Statement] = []
    for statement in list(loop.body):
        if not isinstance(statement, Kernel) or not statement.operands:
            continue
        right = statement.operands[-1]
        is_constant = right.buffer not in changing and not right.index.operands
        if not is_constant or right.index.factor(loop.axis) != 0:
            continue
        if is_packing(statement):
            # It was made for a loop inside this one.
            loop.body.remove(statement)
            moved.append(statement)
        elif (packed := packing.packed(statement)) is not None:
            loop.body[loop.body.index(statement)] = packed
    return [*moved, *packing.statements]
