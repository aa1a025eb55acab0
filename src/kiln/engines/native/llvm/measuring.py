"""Measuring the cost of statements: memory for the counters, and the code that updates them.

A program that is compiled with the option `profile` reads the clock around each statement; those
that share a parallel region count as one. See `_runtime/abi/measurements.cc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.costs import costs_of
from kiln.engines.native.loop_ir.statements import Blocked, Function, Loop, Statement

DECLARATIONS = ("declare i64 @kiln_clock()", "declare i64 @kiln_measured(ptr, i64, i64, i64, i64)")
MOST_EVENTS = 4096
"""The number of statement runs recorded with their times; further ones are only counted."""
_HEAD, _OF_STATEMENT = 3, 4


class Measured(NamedTuple):
    """A statement: its loop depth, how often it ran, and the total cost of all runs."""

    statement: Statement
    depth: int
    runs: int
    seconds: float
    bytes: int
    flops: int


class Event(NamedTuple):
    """One run of a statement, in nanoseconds of `time.monotonic_ns`, and its cost."""

    statement: int
    start: int
    end: int
    bytes: int
    flops: int


class Measurements:
    """The counters of one program; its code holds their address, so they must live as long."""

    def __init__(self, function: Function) -> None:
        self.statements = list(_walk(function.body, 0))
        self._numbers = {each: i for i, (each, _) in enumerate(self.statements)}
        room = _OF_STATEMENT * len(self.statements) + len(Event._fields) * MOST_EVENTS
        self._figures = np.zeros(_HEAD + room, np.int64)
        self._figures[:2] = len(self.statements), MOST_EVENTS

    def begin(self, w: Writer) -> str:
        """Emit a clock reading; return the register of the time."""
        return w.emit("call i64 @kiln_clock()")

    def end(self, w: Writer, statement: Statement, start: str) -> str:
        """Emit the record of a statement's end; return the register of the time."""
        number = self._numbers[statement]
        if self.statements[number][1]:
            number = ~number
        address = f"ptr inttoptr (i64 {self._figures.ctypes.data} to ptr)"
        # Computed from the call's sizes, if they are named.
        flops, accessed = map(w.dim, costs_of([statement]))
        costs = f"i64 {accessed}, i64 {flops}"
        return w.emit(f"call i64 @kiln_measured({address}, i64 {number}, i64 {start}, {costs})")

    def measured(self) -> list[Measured]:
        """Return the counters of each statement, in program order."""
        end = _HEAD + _OF_STATEMENT * len(self.statements)
        figures = self._figures[_HEAD:end].reshape(-1, _OF_STATEMENT).tolist()
        return [
            Measured(statement, depth, count, nanoseconds / 1e9, accessed, flops)
            for (statement, depth), (count, nanoseconds, accessed, flops) in zip(
                self.statements, figures, strict=True
            )
        ]

    def events(self) -> list[Event]:
        """Return the first runs of statements outside of loops."""
        start = _HEAD + _OF_STATEMENT * len(self.statements)
        count = min(int(self._figures[2]), MOST_EVENTS)
        width = len(Event._fields)
        rows = self._figures[start : start + width * count].reshape(-1, width).tolist()
        return [Event(*row) for row in rows]


def _walk(statements: Sequence[Statement], depth: int) -> Iterator[tuple[Statement, int]]:
    for statement in statements:
        yield statement, depth
        if isinstance(statement, Blocked) or (isinstance(statement, Loop) and statement.parallel):
            continue
        for block in statement.blocks:
            yield from _walk(block, depth + 1)
