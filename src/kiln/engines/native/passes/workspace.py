"""Allocates temporaries: values with disjoint live ranges share memory.

Statements are numbered in order; the live range of a temporary extends from the first statement
that accesses it to the last. What is live at the start of an iteration, or before the loop, is live
throughout the loop. Temporaries of named sizes follow those whose sizes are known, in slots.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from kiln.engines.native.loop_ir.buffers import everywhere, reads, writes
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_named
from kiln.engines.native.loop_ir.statements import (
    Blocked,
    Buffer,
    Function,
    Loop,
    Role,
    Statement,
    While,
)
from kiln.engines.native.passes.liveness import Liveness
from kiln.ir.sizes.size import Dim

ALIGNMENT = 64


class _Lives:
    """The first and the last statement of each temporary's live range."""

    def __init__(self, liveness: Liveness) -> None:
        self.now = 0
        self.liveness = liveness
        self.spans: dict[Buffer, list[int]] = {}
        self.touched: list[Buffer] = []
        """What the enclosing loops and earlier statements have accessed so far."""

    def touch(self, buffer: Buffer) -> None:
        if buffer.role is Role.TEMP:
            self.spans.setdefault(buffer, [self.now, self.now])[1] = self.now
            self.touched.append(buffer)

    def walk(self, statements: list[Statement]) -> None:
        for statement in statements:
            self.now += 1
            if isinstance(statement, Blocked):
                # Its epilogue writes while other blocks still read.
                for buffer in everywhere(statement):
                    self.touch(buffer)
                continue
            for buffer in (*reads(statement), *writes(statement)):
                self.touch(buffer)
            inner = statement.blocks
            if not inner:
                continue
            start, count = self.now, len(self.touched)
            for block in inner:
                self.walk(block)
            self.now += 1
            if isinstance(statement, (Loop, While)):
                self._stretch(statement, start, count)

    def _stretch(self, statement: Statement, start: int, count: int) -> None:
        """Extend the live ranges of what a loop carries, or shares with the code around, over the
        whole loop.

        What it accessed was recorded after the first `count` entries.
        """
        inside = dict.fromkeys(self.touched[count:])
        carried = self.liveness.carried[statement]
        around = self.liveness.sharing(statement, inside.keys()) | carried
        self.touched[count:] = [x for x in inside if x in around]
        for buffer in inside:
            span = self.spans[buffer]
            if span[0] < start or buffer in carried:
                span[0], span[1] = min(span[0], start), self.now


def workspace(function: Function) -> tuple[dict[Buffer, Dim], Dim]:
    """Return the offset of each temporary, and their total size in bytes."""
    lives = _Lives(Liveness(function))
    lives.walk(function.body)
    named: list[tuple[Buffer, list[int]]] = []
    known: list[tuple[Any, Buffer, list[int]]] = []
    for buffer, span in lives.spans.items():
        if is_named(buffer.nbytes):
            named.append((buffer, span))
        else:
            known.append((buffer.nbytes, buffer, span))
    order = sorted(known, key=lambda item: -item[0])
    # Of each allocated temporary, by first byte: first and last statement, first byte and end.
    placed = np.empty((4, len(order)), np.int64)
    offsets: dict[Buffer, Dim] = {}
    total = 0
    for i, (nbytes, buffer, (first, last)) in enumerate(order):
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        at_once = (placed[0, :i] <= last) & (placed[1, :i] >= first)
        offset = _first_gap(placed[2, :i][at_once], placed[3, :i][at_once], size)
        offsets[buffer] = offset
        place = int(placed[2, :i].searchsorted(offset))
        placed[:, place + 1 : i + 1] = placed[:, place:i]
        placed[:, place] = first, last, offset, offset + size
        total = max(total, offset + size)
    return offsets, _slots(named, offsets, total)


def _first_gap(lows: Any, highs: Any, size: int) -> int:
    """Return the offset of the first `size` free bytes between parts, which are sorted by start."""
    if not lows.size:
        return 0
    ends = np.maximum.accumulate(highs)
    room = lows >= size
    room[1:] = lows[1:] >= ends[:-1] + size
    place = int(room.argmax())
    if not room[place]:
        return int(ends[-1])
    return int(ends[place - 1]) if place else 0


def _slots(named: list[tuple[Buffer, list[int]]], offsets: dict[Buffer, Dim], total: Dim) -> Dim:
    """Place temporaries of named sizes after `total` bytes; return the bytes of all."""
    fits = functools.cache(at_least)
    slots: list[tuple[Dim, Dim, list[list[int]]]] = []
    for buffer, span in sorted(named, key=lambda item: -estimate(item[0].nbytes)):
        size = (buffer.nbytes + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
        for offset, room, spans in slots:
            is_free = all(span[1] < first or last < span[0] for first, last in spans)
            if is_free and fits(room, size):
                offsets[buffer] = offset
                spans.append(span)
                break
        else:
            offsets[buffer] = total
            slots.append((total, size, [span]))
            total += size
    return total
