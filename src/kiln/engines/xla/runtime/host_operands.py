"""Host memory for XLA: operands rewritten on each call, and copies of large values.

Memory from kiln's allocator avoids page faults, and the buffers of an executable's small operands
are created once: later calls write NumPy arrays and Python scalars directly into them
(`_runtime/programs/launcher.cc`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kiln import _runtime
from kiln.core.engines.engine import Program
from kiln.engines.xla.runtime.buffers import Buffer, pointer
from kiln.engines.xla.runtime.client import Client
from kiln.engines.xla.stablehlo.text import host_dtype

STAGED_BYTES = 1 << 16
"""The maximum total size of the operands for which one executable keeps memory."""

OperandType = tuple[np.dtype, int]


def staged_operands(program: Program) -> list[OperandType | None]:
    """Return dtype and size of the operands of a program that may be staged; None for others.

    Donated operands are not staged: results reuse their memory.
    """
    types: list[OperandType | None] = []
    left = STAGED_BYTES
    for number, aval in enumerate(program.jaxpr.in_avals):
        shape, dtype = host_dtype(aval)
        size = dtype.itemsize * math.prod(shape)
        fits = dtype.isbuiltin == 1 and 0 < size <= left and number not in program.donated
        types.append((dtype, size) if fits else None)
        left -= size if fits else 0
    return types


def sharer(
    program: Program, client: Client
) -> Callable[[int, _runtime.MemoryBlock], Buffer | None]:
    """Return the function that wraps an operand's memory in a buffer; None if XLA copies it."""

    def share(number: int, memory: _runtime.MemoryBlock) -> Buffer | None:
        shape, dtype = host_dtype(program.jaxpr.in_avals[number])
        value = np.frombuffer(memoryview(memory), dtype).reshape(shape)
        buffer = client.put(value, share=True)
        return buffer if pointer(buffer) == value.ctypes.data else None

    return share
