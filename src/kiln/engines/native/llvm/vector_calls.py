"""Calls of elementary functions on numbers, several of them as one call on a vector.

A scan whose carry is many numbers calls the same functions for each of them: a call on a vector
takes as long as one on a number. Vectors are gathered in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.engines.native.llvm.instructions import type_text
from kiln.engines.native.llvm.iteration import PROMOTED
from kiln.engines.native.llvm.values import Frame
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.checks import CHECKED, WITHIN
from kiln.engines.native.loop_ir.scalars import BASIC, NUMPY_TYPES, Value

FEWEST_CALLS = 4
_OTHERS = frozenset(("constant", "load", "index", "size", "rare", "of_runtime", CHECKED, WITHIN))


def grouped(level: Sequence[Value], is_vector: Mapping[Value, bool]) -> list[list[Value]]:
    """Return values in an order in which they can be computed; those of a group are one call.

    Numbers for which a function is called at the same depth of calls do not depend on each other.
    """
    calls = {x for x in level if not is_vector[x] and x.op not in BASIC and x.op not in _OTHERS}
    if len(calls) < FEWEST_CALLS:
        return [[x] for x in level]
    depths: dict[Value, int] = {}
    groups: dict[object, list[Value]] = {}
    for x in level:
        depths[x] = max([depths.get(y, 0) for y in x.operands], default=0) + (x in calls)
        if x in calls:
            of = tuple([y.dtype for y in x.operands])
            groups.setdefault((depths[x], x.op, x.attr, x.dtype, of), []).append(x)
    together = {group[0]: group for group in groups.values() if len(group) >= FEWEST_CALLS}
    if not together:
        return [[x] for x in level]
    later = {x for group in together.values() for x in group[1:]}
    order = sorted(level, key=lambda x: (depths[x], x not in calls))
    return [together.get(x, [x]) for x in order if x not in later]


def compute(frame: Frame, group: Sequence[Value]) -> None:
    """Emit a value, or calls of one function on numbers as calls on vectors."""
    w, first = frame.w, group[0]
    most = w.target.vector_bytes // NUMPY_TYPES[first.dtype].itemsize
    for start in range(0, len(group), most):
        some = group[start : start + most]
        if len(some) == 1:
            frame.compute(some[0])
            continue
        width = min(most, 1 << (len(some) - 1).bit_length())
        # The other lanes have a number that takes no longer than those asked for.
        lanes = [*some, *[first] * (width - len(some))]
        operands = []
        for i, y in enumerate(first.operands):
            kind, whole = type_text(y.dtype, 1), type_text(y.dtype, width)
            place = w.stack(f"[{width} x {kind}]", PROMOTED)
            for lane, x in enumerate(lanes):
                number, at = frame.operand(x.operands[i], 1), _at(w, place, kind, lane)
                w.do(f"store {kind} {number}, ptr {at}, align {NUMPY_TYPES[y.dtype].itemsize}")
            operands.append(w.emit(f"load {whole}, ptr {place}, align 64"))
        kind, whole = type_text(first.dtype, 1), type_text(first.dtype, width)
        place = w.stack(f"[{width} x {kind}]", PROMOTED)
        w.do(f"store {whole} {frame.call(first, operands, width)}, ptr {place}, align 64")
        bytes_ = NUMPY_TYPES[first.dtype].itemsize
        for lane, x in enumerate(some):
            at = _at(w, place, kind, lane)
            frame.names[x] = w.emit(f"load {kind}, ptr {at}, align {bytes_}")


def _at(w: Writer, place: str, kind: str, lane: int) -> str:
    return w.emit(f"getelementptr {kind}, ptr {place}, i64 {lane}") if lane else place
