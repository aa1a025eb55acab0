"""How much scratch memory the kernels of a program need, so that contexts have it in advance.

A kernel takes it from the context of its call: it packs operands, copies rows, or holds a block of
results. These are bounds for any kernel, from the operands alone; what a kernel needs beyond them,
it allocates in the first call. The tests count the allocations of all primitives' first calls.
"""

from __future__ import annotations

from collections.abc import Iterator

from kiln.engines.native.loop_ir.buffers import everywhere
from kiln.engines.native.loop_ir.statements import Blocked, Buffer, Function, Kernel, walk
from kiln.ir.sizes.size import Dim, maximum

TRANSFORM = "fft"
"""The kernel whose scratch memory the runtime computes, from the factors of sizes."""
_TIMES, _MORE = 4, 1 << 16


def scratch_bytes(function: Function) -> Dim:
    """Return the most scratch memory that a kernel of a program takes on a thread."""
    found = {_bytes(buffers) for buffers in _kernels(function)}
    return maximum(0, *found)


def transforms(function: Function) -> list[tuple[Dim, ...]]:
    """Return the numbers of the Fourier transforms of a program, each once."""
    return list(
        dict.fromkeys(
            statement.numbers
            for statement in walk(function.body)
            if isinstance(statement, Kernel) and statement.symbol == TRANSFORM
        )
    )


def _kernels(function: Function) -> Iterator[set[Buffer]]:
    """Yield the buffers that a kernel accesses, or a block of a product and its epilogue."""
    for statement in walk(function.body):
        if isinstance(statement, Blocked) or (
            isinstance(statement, Kernel) and statement.symbol != TRANSFORM
        ):
            yield set(everywhere(statement))


def _bytes(buffers: set[Buffer]) -> Dim:
    total: Dim = 0
    for buffer in buffers:
        total = total + buffer.nbytes
    return _TIMES * total + _MORE
