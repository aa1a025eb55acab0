"""Which code generator compiles a program: the extension's assembler, or LLVM.

The assembler (`_runtime/assembler/`) takes microseconds where LLVM takes milliseconds. Its code
gives the same bits and is a little slower, so LLVM compiles what runs for long: at once if one call
does much work, otherwise once calls add up to that. Deep loop nests stay with the assembler.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kiln import _runtime
from kiln.base.options.config import options
from kiln.engines.native.llvm.assembly import LEAST_EFFORT, USUAL_EFFORT, assemble, host_target
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.scalars import postorder
from kiln.engines.native.loop_ir.statements import (
    Blocked,
    Branch,
    Copy,
    Function,
    Loop,
    Nest,
    Statement,
    While,
)

LEVELS = ("x86-64-v3", "x86-64-v4")
"""The assembler generates code for these microarchitecture levels."""
WORTH_LLVM = 1 << 27
"""This many scalar operations take about ten milliseconds, as long as LLVM takes for `LINES`."""
LINES = 128
FEWEST_CALLS = 2
"""If fewer calls do as much work as compiling, LLVM compiles the program at once."""
MOST_NESTED = 32
"""Loops nested deeper than this are not optimized by LLVM."""
_PER_STATEMENT = 256
_PER_TURN = 64
_FEWEST_POINTS = 16
"""A number takes as long as a vector: its operations count as those of this many points."""


def generated(text: str, function: Function) -> tuple[bytes, int]:
    """Return the object file of a program, and after how many calls LLVM's pays off.

    The number is 0 if the object file is already LLVM's, or will always be the assembler's.
    """
    chosen = options().code_generator
    effort = effort_for(function)
    if chosen != "llvm" and host_target().name in LEVELS:
        calls = 0
        if chosen == "auto" and effort != LEAST_EFFORT:
            calls = calls_before_llvm(function, text.count("\n"))
        if calls or chosen == "kiln" or effort == LEAST_EFFORT:
            image = assembled(text)
            if image is not None:
                return image, calls
    return assemble(text, codegen=effort), 0


def effort_for(function: Function) -> int:
    """Return LLVM's optimization level for a program: the lowest for deeply nested loops.

    Its loop analyses take 3 s for 400 nested loops; without them compile time is linear.
    """
    waiting: list[tuple[Sequence[Statement], int]] = [(function.body, 0)]
    while waiting:
        statements, depth = waiting.pop()
        if depth > MOST_NESTED:
            return LEAST_EFFORT
        for each in statements:
            is_loop = isinstance(each, (Loop, While))
            waiting += [(block, depth + is_loop) for block in each.blocks]
    return USUAL_EFFORT


def assembled(text: str) -> bytes | None:
    """Return the assembler's object file for the host; None if it does not support the text."""
    found = _runtime.assemble_text(text, host_target().name)
    return found if isinstance(found, bytes) else None


def calls_before_llvm(function: Function, lines: int) -> int:
    """Return after how many calls LLVM's code of some lines pays off; 0 if one call suffices."""
    calls = int(WORTH_LLVM * max(1.0, lines / LINES) / max(_work(function.body), 1))
    return calls if calls >= FEWEST_CALLS else 0


def _work(statements: Sequence[Statement]) -> float:
    """Return roughly how many operations statements run, except those of kernels."""
    total = 0.0
    for statement in statements:
        total += _PER_STATEMENT
        match statement:
            case Nest():
                points = max(estimate(statement.points), _FEWEST_POINTS)
                total += points * len(postorder([e.value for e in statement.effects]))
            case Loop():
                turns = max(estimate(statement.axis.size), 1)
                total += turns * (_work(statement.body) + _PER_TURN)
            case Blocked():
                total += _work(statement.body)
            case While():
                # Its trip count is unknown.
                return math.inf
            case Branch():
                total += max(map(_work, statement.blocks))
            case Copy():
                total += estimate(statement.count)
    return total
