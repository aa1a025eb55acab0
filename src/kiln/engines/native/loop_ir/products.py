"""Results of products and convolutions as matrices, whose blocks an epilogue reads."""

from __future__ import annotations

import math

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.convolutions import Window, is_first, last, window_of
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.statements import Kernel

PRODUCTS = ("kiln_gemm_f32", "kiln_gemm_f64")
PACKED = 4
"""The flag of a product whose right operand is what `kiln_gemm_pack_*` wrote: see `kiln_gemm_T`."""
_PANEL = 32
"""Columns are rounded up to a multiple of the widest panel of all microarchitecture levels."""


def packed_size(columns: int, terms: int) -> int:
    """Return the elements of the panels of a matrix."""
    return -(-columns // _PANEL) * _PANEL * terms


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
        if numbers[9] not in (0, PACKED) or numbers[8] != m * n:
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
