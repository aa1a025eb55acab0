"""The cost of a function of loops: operations, bytes read and written, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kiln.base.records import Record
from kiln.engines.native.loop_ir.buffers import nodes, reads, writes
from kiln.engines.native.loop_ir.convolutions import products_of
from kiln.engines.native.loop_ir.extents import estimate, smallest
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Value
from kiln.engines.native.loop_ir.statements import (
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Reduce,
    Role,
    Statement,
)
from kiln.ir.sizes.size import Dim, Size, maximum

_FREE = frozenset(
    (
        "constant",
        "size",
        "load",
        "index",
        "select",
        "bitcast",
        "convert",
        "rare",
        "checked",
        "within",
    )
)
_OPERATIONS = {"fma": 2, "muladd": 2}


class MemoryAnalysis(Record):
    """The memory that a program needs, in bytes."""

    argument_size_in_bytes: Dim
    output_size_in_bytes: Dim
    alias_size_in_bytes: Dim
    temp_size_in_bytes: Dim
    generated_code_size_in_bytes: int


def costs(function: Function) -> dict[str, float | Size]:
    """Return the operations and the bytes accessed; a `while` loop counts once.

    A function such as `exp` is one operation. Among kernels, operations are known for products and
    convolutions; for the others only bytes are counted. Convolutions by a kernel count no products
    with padding or holes. With named sizes the results are polynomials.
    """
    flops, accessed = costs_of(function.body)
    found = {"flops": flops, "bytes accessed": accessed}
    return {name: cost if isinstance(cost, Size) else float(cost) for name, cost in found.items()}


def costs_of(statements: Sequence[Statement]) -> tuple[Dim, Dim]:
    """Return the operations of statements, and the bytes that they read and write."""
    flops: Dim = 0
    accessed: Dim = 0
    more: Dim
    touched: Dim
    for statement in statements:
        if isinstance(statement, Nest):
            more, touched = _nest_costs(statement)
        elif isinstance(statement, (Kernel, Copy)):
            more = _kernel_flops(statement) if isinstance(statement, Kernel) else 0
            touched = sum(b.nbytes for b in (*reads(statement), *writes(statement)))
        else:
            parts = [costs_of(block) for block in statement.blocks]
            iterations = statement.axis.size if isinstance(statement, Loop) else 1
            together = _greatest if isinstance(statement, Branch) else sum
            more = iterations * together([f for f, _ in parts])
            touched = iterations * together([b for _, b in parts])
        flops += more
        accessed += touched
    return flops, accessed


def _kernel_flops(kernel: Kernel) -> Dim:
    """Return the operations of a product or a convolution, or 0 for other kernels."""
    symbol = kernel.symbol
    if symbol.startswith(("kiln_gemm_pack_", "kiln_conv_pack_")):
        return 0
    # A complex product is 4 multiplications and 2 additions, a complex sum 2 additions.
    factor = 8 if symbol.endswith(("_c64", "_c128")) else 2
    if symbol.startswith("kiln_conv_"):
        return factor * products_of(kernel.numbers)
    if not symbol.startswith("kiln_gemm_"):
        return 0
    count = 3 if symbol.startswith("kiln_gemm_strip_") else 4
    return factor * math.prod(kernel.numbers[:count])


def _greatest(dims: Sequence[Dim]) -> Dim:
    return maximum(*dims) if dims else 0


def _nest_costs(nest: Nest) -> tuple[Dim, Dim]:
    values = nodes(nest)
    work = sum(_OPERATIONS.get(x.op, 1) for x in values if x.op not in _FREE and _counts(x))
    work += sum(isinstance(e, Reduce) for e in nest.effects)
    read: dict[Buffer, Dim] = {}
    for x in values:
        if x.op == "load" and x.attr[0].role is not Role.CONST:
            buffer, index = x.attr
            places = nest.points if x.operands else _places(nest, index)
            read[buffer] = read.get(buffer, 0) + places
    accessed: Dim = 0
    for buffer, count in read.items():
        accessed += _lesser(buffer.size, count) * NUMPY_TYPES[buffer.dtype].itemsize
    for effect in nest.effects:
        places = _places(nest, effect.index) if isinstance(effect, Reduce) else nest.points
        accessed += NUMPY_TYPES[effect.buffer.dtype].itemsize * places
    return work * nest.points, accessed


def _lesser(x: Dim, y: Dim) -> Dim:
    """Return the lesser of two sizes; if that depends, the one that is usually less, or y."""
    found = smallest((x, y))
    return min(y, x, key=estimate) if found is None else found


def _counts(x: Value) -> bool:
    return any(y.op not in ("constant", "size") for y in x.operands)


def _places(nest: Nest, index: Index) -> Dim:
    """Return at most how many elements an index without values accesses in a nest."""
    found: Dim = 1
    for axis in nest.axes:
        if index.factor(axis) != 0:
            found *= axis.size
    return found
