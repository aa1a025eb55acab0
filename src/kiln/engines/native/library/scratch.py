"""How much scratch memory the kernels of a program need, so that contexts have it in advance.

A kernel takes it from the context of its call: it packs operands, copies rows, or holds a block of
results. These are bounds for any kernel, from the operands alone; what a kernel needs beyond them,
it allocates in the first call. The tests count the allocations of all primitives' first calls.
"""

from __future__ import annotations

from kiln.engines.native.loop_ir.buffers import everywhere
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import Blocked, Function, Kernel, walk
from kiln.ir.sizes.size import Dim, maximum, minimum

_TRANSFORM, _SORT = "fft", "sort"
_TIMES, _MORE = 4, 1 << 16
"""Of the bytes of all operands and results, and besides: packed blocks of small operands."""
_PRODUCT, _PACKED_ROW, _PACKED_ROWS = "kiln_gemm_", 264 * 8, 576
"""Products; the bytes of a packed row of a matrix, however short it is, and the most such rows: of
`products/blocked.cc`."""
_SORTED = 40
"""The most bytes per element of a row that is sorted: `bytes_to_sort` of `kernels/sorting.cc`."""
_TOGETHER, _COPIED = 16, 1 << 18
"""The most rows that are copied before they are sorted, and the most elements of several rows."""


def scratch_bytes(function: Function) -> Dim:
    """Return the most scratch memory that a kernel of a program takes on a thread.

    Without that of Fourier transforms, which the runtime computes from the factors of sizes.
    """
    found = [
        _bytes(statement)
        for statement in walk(function.body)
        if isinstance(statement, (Blocked, Kernel)) and not _is_transform(statement)
    ]
    return maximum(0, *dict.fromkeys(found))


def transforms(function: Function) -> list[tuple[Dim, ...]]:
    """Return the numbers of the Fourier transforms of a program, each once."""
    found = [s.numbers for s in walk(function.body) if isinstance(s, Kernel) and _is_transform(s)]
    return list(dict.fromkeys(found))


def _is_transform(statement: Blocked | Kernel) -> bool:
    return isinstance(statement, Kernel) and statement.symbol == _TRANSFORM


def _bytes(statement: Blocked | Kernel) -> Dim:
    """Return a bound for a kernel, or for the blocks of a product and its epilogue."""
    total: Dim = _MORE
    for buffer in set(everywhere(statement)):
        total = total + _TIMES * buffer.nbytes
    for kernel in walk([statement]):
        if isinstance(kernel, Kernel) and kernel.symbol == _SORT:
            total = total + _copied_rows(kernel)
        if isinstance(kernel, Kernel) and kernel.symbol.startswith(_PRODUCT):
            total = total + _PACKED_ROW * minimum(maximum(*kernel.numbers[:2]), _PACKED_ROWS)
    return total


def _copied_rows(statement: Kernel) -> Dim:
    """Return the bytes of rows that are not contiguous, and of what sorting them takes."""
    size = statement.numbers[2]
    # Of a complex number a buffer has two elements.
    width = sum(2 * NUMPY_TYPES[place.buffer.dtype].itemsize for place in statement.operands)
    rows = minimum(_TOGETHER * size, _COPIED + size)
    return _SORTED * size + 2 * width * rows
