"""Donation: which results may be written to the memory of a donated operand.

A result may take an operand's memory if no statement reads the operand after the first that writes
the result. That statement may read it too, if it is a nest that reads an element just before it
overwrites it. Copies of the whole operand into the result are then dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from kiln.engines.native.loop_ir.buffers import everything, is_whole, nodes, reads
from kiln.engines.native.loop_ir.statements import (
    Blocked,
    Buffer,
    Copy,
    Function,
    Nest,
    Role,
    Statement,
    Store,
)


def reusable(function: Function, wanted: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return those of the requested pairs (result, operand) that are safe."""
    found = []
    for result, operand in wanted.items():
        target, source = function.outputs[result], function.inputs[operand]
        if target.role is Role.OUTPUT and _is_safe(function.body, target, source):
            found.append((result, operand))
    return found


def _is_safe(body: list[Statement], target: Buffer, source: Buffer) -> bool:
    if target.nbytes != source.nbytes or target.dtype != source.dtype:
        return False
    begun = False
    for statement in body:
        if isinstance(statement, Copy) and is_whole(statement):
            if (statement.operand.buffer, statement.result.buffer) == (source, target):
                # Only before the target changes: a later copy would restore the old elements.
                if begun:
                    return False
                continue
        read, written = everything(statement)
        if source in read and begun:
            return False
        if source in read and target in written:
            # Other blocks of a product still read its operands.
            nest: Statement = statement
            if isinstance(statement, Blocked) and source not in reads(statement.product):
                nest = statement.epilogue
            if not isinstance(nest, Nest) or not _in_place(nest, target, source):
                return False
        begun |= target in written
    return True


def _in_place(nest: Nest, target: Buffer, source: Buffer) -> bool:
    """Tell whether a nest reads only the elements that it writes at the same point."""
    stores = [e for e in nest.effects if e.buffer is target]
    reads = [x.attr[1] for x in nodes(nest) if x.op == "load" and x.attr[0] is source]
    return (
        not nest.ordered
        and len(stores) == 1
        and isinstance(stores[0], Store)
        and all(index == stores[0].index for index in reads)
        and not stores[0].mask
        and {axis for axis, _ in stores[0].index.axes()} >= {a for a in nest.axes if a.size != 1}
    )
