"""The addresses of a function's buffers, as its code finds them in a call."""

from __future__ import annotations

from collections.abc import Set

from kiln.engines.native.llvm.iteration import PROMOTED, promoted_rows
from kiln.engines.native.llvm.module import Module
from kiln.engines.native.llvm.sequences import MOST_BUFFERS, Where
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.buffers import everywhere
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import Buffer, Nest, Place, Role, Statement

# The fields of `Call`, by number.
_OPERANDS, _RESULTS, _SIZES, WORKSPACE = range(4)


class CallBuffers:
    """Finds buffers among operands, results, constants and in the workspace."""

    def __init__(self, module: Module, w: Writer) -> None:
        self.module = module
        self.w = w
        self.pointers: dict[Buffer, str] = {}
        self.fields: list[str] = []
        self.fixed: dict[Buffer, str] = {}
        self.promoted: Set[Buffer] = frozenset()

    def places(self, operands: list[Place]) -> list[Where] | None:
        """Return the addresses of operands, if they are known and not too many."""
        found = [where for where in map(self.where, operands) if where is not None]
        return found if len(found) == len(operands) <= MOST_BUFFERS else None

    def where(self, place: Place) -> Where | None:
        """Return the address of an operand, if it is known."""
        buffer, module = place.buffer, self.module
        if buffer.role is Role.BLOCK:
            return Where(3)
        if place.index.terms or buffer in self.fixed or buffer.role is Role.ROW:
            return None
        offset = place.index.const * NUMPY_TYPES[buffer.dtype].itemsize
        if buffer in module.inputs:
            return Where(0, module.inputs[buffer], offset)
        if buffer in module.outputs:
            return Where(1, module.outputs[buffer], offset)
        if buffer.role is Role.CONST:
            return Where(3, 0, offset, module.constant(buffer))
        return Where(2, 0, module.offsets[buffer] + offset)

    def field(self, number: int) -> str:
        """Return the register of a field of `Call`."""
        place = self.w.emit(f"getelementptr i64, ptr %call, i64 {number}")
        return self.w.emit(f"load ptr, ptr {place}, align 8")

    def pointer(self, buffer: Buffer) -> str:
        """Return the register with the address of a buffer."""
        w, fields = self.w, self.fields
        if buffer.role is Role.BLOCK:
            return "null"
        if buffer in self.module.inputs:
            table, number = fields[_OPERANDS], self.module.inputs[buffer]
        elif buffer in self.module.outputs:
            table, number = fields[_RESULTS], self.module.outputs[buffer]
        elif buffer.role is Role.CONST:
            return self.module.constant(buffer)
        else:
            offset = self.module.offsets[buffer]
            place = w.dim(offset)
            return w.emit(f"getelementptr i8, ptr {fields[WORKSPACE]}, i64 {place}")
        place = w.emit(f"getelementptr ptr, ptr {table}, i64 {number}")
        return w.emit(f"load ptr, ptr {place}, align 8")

    def rows(self, statements: list[Statement]) -> None:
        """Allocate stack space for the rows of statements."""
        found: dict[Buffer, None] = {}
        for statement in statements:
            found.update((b, None) for b in everywhere(statement) if b.role is Role.ROW)
        self.promoted = promoted_rows(statements)
        for buffer in found:
            size = max(buffer.nbytes, 1)
            kind, hint = f"i8, i64 {size}", "v"
            if buffer in self.promoted:
                # LLVM promotes arrays, but no allocations of several bytes.
                kind, hint = f"[{size} x i8]", PROMOTED
            self.pointers[buffer] = self.w.emit(f"alloca {kind}, align 64", hint)

    def widest(self, nest: Nest) -> int:
        """Return the bytes of the widest row in registers, if a nest accesses any; 0 otherwise."""
        if self.promoted.isdisjoint(everywhere(nest)):
            return 0
        rows = [each for each in self.promoted if each.size != 1]
        return max([NUMPY_TYPES[each.dtype].itemsize for each in rows], default=0)
