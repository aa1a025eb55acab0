"""Kernels whose rows are divided among threads, as functions of a range of rows; copies."""

from __future__ import annotations

from kiln.engines.native.llvm.module import Module
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.buffers import is_whole
from kiln.engines.native.loop_ir.extents import Grain, is_named, is_positive
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import Copy, Kernel, Role
from kiln.ir.sizes.size import as_ints

SHARED_BYTES = 1 << 20
"""Copies of at least this size are divided among threads."""


def shared_copy(copy: Copy) -> Kernel | None:
    """Return the kernel that makes a copy with several threads, if it is large."""
    item = NUMPY_TYPES[copy.result.buffer.dtype].itemsize
    if is_named(copy.count) or copy.count * item < SHARED_BYTES:
        return None
    numbers = [item.bit_length() - 1, 1, copy.count, 0]
    return Kernel("kiln_transpose", [copy.operand], [copy.result], numbers, copy.source)


def write_copy(w: Writer, copy: Copy, operand: str, result: str) -> None:
    """Emit a copy between two addresses."""
    count = w.dim(copy.count * NUMPY_TYPES[copy.result.buffer.dtype].itemsize)
    # The result may be in place of the donated operand.
    may_be_same = is_whole(copy) and copy.operand.buffer.role is Role.INPUT
    w.copy(result, operand, count, may_be_same=may_be_same)


def by_rows(module: Module, kernel: Kernel) -> str:
    """Return the name of a function that runs a kernel on a range of its rows.

    Its context holds the buffers of the kernel.
    """
    w = module.writer()
    count = len(kernel.numbers)
    numbers = w.emit(f"alloca i64, i64 {count}, align 8")
    table = numbers_of(module, w, kernel)
    w.copy(numbers, table, str(8 * count))
    w.do(f"store i64 %begin, ptr {numbers}, align 8")
    rows = w.emit("sub i64 %end, %begin")
    second = w.emit(f"getelementptr i64, ptr {numbers}, i64 1")
    w.do(f"store i64 {rows}, ptr {second}, align 8")
    status = w.emit(f"call i32 @{kernel.symbol}(ptr %call, ptr %context, ptr {numbers})")
    w.do(f"ret i32 {status}")
    return module.part(w)


def numbers_of(module: Module, w: Writer, kernel: Kernel) -> str:
    """Return the address of a kernel's numbers: in a table, or where the call supplies them."""
    if is_named(*kernel.numbers):
        return w.place(module.sizes.block(kernel.numbers))
    return module.table(as_ints(kernel.numbers))


def may_be_empty(kernel: Kernel) -> bool:
    """Tell whether the results of a kernel have no elements for some sizes of named axes."""
    sizes = [x.buffer.size for x in kernel.results]
    return is_named(*sizes) and not any(map(is_positive, sizes))


def is_by_rows(kernel: Kernel) -> bool:
    """Tell whether a kernel may have enough rows for two threads."""
    if isinstance(kernel.grain, Grain) or is_named(*kernel.numbers[1:2]):
        return bool(kernel.grain)
    return bool(kernel.grain) and 2 * kernel.grain <= kernel.numbers[1]
