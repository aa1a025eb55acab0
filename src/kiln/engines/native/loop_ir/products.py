"""Results of products and convolutions as matrices, whose blocks an epilogue reads."""

from __future__ import annotations

import math

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.convolutions import Window, is_first, last, window_of
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.statements import Kernel, Statement

PRODUCTS = ("kiln_gemm_f32", "kiln_gemm_f64")
PACKED = 4
"""The flag of a product whose right operand is what `kiln_gemm_pack_*` wrote: see `kiln_gemm_T`."""
REPEATED = 8
"""The flag of a packed product in a loop: threads share its rows, as they share those of its
operand and its result, rather than its columns."""
_READ_ROWS, _SHARED_WORK = 16, 1 << 21
"""Fewer multiplications, with at least so many rows, are computed by one thread: `blocked.cc`."""
_PANEL = 32
"""Columns are rounded up to a multiple of the widest panel of all microarchitecture levels."""


def packed_size(columns: int, terms: int) -> int:
    """Return the elements of the panels of a matrix."""
    return -(-columns // _PANEL) * _PANEL * terms


def is_shared(statement: Statement) -> bool:
    """Tell whether it is a product in a loop that is large enough for two threads."""
    if not isinstance(statement, Kernel) or statement.symbol not in PRODUCTS:
        return False
    if is_named(*statement.numbers) or not int(statement.numbers[9]) & REPEATED:
        return False
    _, m, n, k = (int(number) for number in statement.numbers[:4])
    return max(m, _READ_ROWS) * n * k >= _SHARED_WORK


class Matrix(NamedTuple):
    """The result of a kernel, row-major: its rows, its columns, and the terms of each element."""

    rows: int
    columns: int
    terms: int


def matrix_of(kernel: Kernel) -> Matrix | None:
    """Return the result of a kernel as a matrix; None if it has no epilogue.

    The rows of a convolution are the positions of each item if features are last, and its features
    of each item if they are first.
    """
    if is_named(*kernel.numbers):
        return None
    numbers = [int(number) for number in kernel.numbers]
    if kernel.symbol in PRODUCTS:
        batch, m, n, k = numbers[:4]
        # It adds to its result, or leaves room between its items.
        if numbers[9] & ~(PACKED | REPEATED) or numbers[8] != m * n:
            return None
        return Matrix(batch * m, n, k)
    window = window_of(kernel)
    return None if window is None else _of_convolution(window)


def _of_convolution(window: Window) -> Matrix | None:
    out = window.result
    if is_first(window.result_spec):
        columns = math.prod(out[2:])
    elif window.result_spec == last(len(out)):
        columns = out[-1]
    else:
        return None
    if window.batch_groups != 1 or 0 in out:
        return None
    return Matrix(math.prod(out) // columns, columns, window.terms)
