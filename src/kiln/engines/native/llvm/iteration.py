"""The cost of loop iterations, and which buffers live in registers during a loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kiln.engines.native.loop_ir.buffers import everywhere, reads, writes
from kiln.engines.native.loop_ir.extents import Grain, estimate, is_named
from kiln.engines.native.loop_ir.statements import (
    Blocked,
    Branch,
    Buffer,
    Copy,
    Function,
    Kernel,
    Loop,
    Nest,
    Role,
    Statement,
    While,
)
from kiln.engines.native.passes.schedule import SPLIT_POINTS, schedule
from kiln.engines.native.passes.sequential.straight_line import is_promoted, is_short
from kiln.ir.sizes.size import Dim

PROMOTED = "scalar"
"""The prefix of names of stack memory that is promoted to registers."""
ASSUMED = 16
"""How often a `while` loop is taken to run, where its work is divided among threads."""
BETWEEN_POLLS = 1 << 15
"""Roughly how many instructions run before a loop polls for signals: about ten microseconds."""


def work(statements: Sequence[Statement], vector_bytes: int) -> int:
    """Return roughly how many instructions statements run, except for loops inside them."""
    total = 1
    for statement in statements:
        match statement:
            case Nest():
                plan = schedule(statement, vector_bytes)
                total += int(4 * plan.work * estimate(statement.points) / plan.width)
            case Copy():
                total += estimate(statement.count) // 4
            case Kernel() | Blocked():
                total += BETWEEN_POLLS
            case Branch():
                total += max(work(block, vector_bytes) for block in statement.blocks)
    return min(total, BETWEEN_POLLS)


def grain_of(loop: Loop) -> int | Grain:
    """Return how many iterations are worth a task; 0 if all together are not."""
    plans = [(points, schedule(each, 16)) for each, points in _nests(loop.body, 1)]
    points = sum((points for points, _ in plans), start=0)
    if is_named(points, loop.axis.size):
        most = max((plan.work for _, plan in plans), default=1.0)
        return Grain(max(1, int(SPLIT_POINTS / most)), points)
    work = sum(points * plan.work for points, plan in plans)
    grain = max(1, math.ceil(SPLIT_POINTS / max(work, 1)))
    return grain if 2 * grain <= loop.axis.size else 0


def _nests(statements: Sequence[Statement], iterations: Dim) -> Iterator[tuple[Nest, Dim]]:
    """Iterate over the nests inside loops, each with the points it computes in all iterations."""
    for each in statements:
        if isinstance(each, Nest):
            yield each, iterations * each.points
        elif isinstance(each, Loop):
            yield from _nests(each.body, iterations * each.axis.size)
        elif isinstance(each, While):
            yield from _nests(each.body, iterations * ASSUMED)


def in_registers(function: Function) -> list[Buffer]:
    """Return the small buffers that loops update or read repeatedly."""
    found: dict[Buffer, None] = {}
    _find(function.body, False, found)
    return list(found)


def promoted_rows(statements: Sequence[Statement]) -> set[Buffer]:
    """Return the small rows that sequential loops among some statements access."""
    found: set[Buffer] = set()
    for statement in statements:
        if isinstance(statement, While) or (isinstance(statement, Loop) and not statement.parallel):
            for each in everywhere(statement):
                if each.role is Role.ROW and is_short(each):
                    found.add(each)
    return found


def _find(statements: Sequence[Statement], is_inside: bool, found: dict[Buffer, None]) -> None:
    for statement in statements:
        if isinstance(statement, Loop) and statement.parallel:
            continue
        inside = is_inside or isinstance(statement, (Loop, While))
        if inside:
            for buffer in (*reads(statement), *writes(statement)):
                if is_promoted(buffer):
                    found[buffer] = None
        for block in statement.blocks:
            _find(block, inside, found)
