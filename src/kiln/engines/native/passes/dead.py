"""Dead code: what nothing reads is not computed, and what one arm of a branch reads only there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from kiln.engines.native.loop_ir.buffers import everything, reads, writes
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.statements import (
    EFFECTS,
    Branch,
    Buffer,
    Copy,
    Function,
    Kernel,
    Loop,
    Nest,
    Role,
    Statement,
    walk,
)

MOST_CONSIDERED = 32
"""How many statements before a branch may move into its arms."""
MOST_DEEP = 16
"""How many blocks deep the readers of a value are searched."""
KEPT = 1 << 20
"""Operands of this many bytes may be kept for the arm that computes with them."""


def drop_unread(function: Function) -> None:
    """Drop what only dead buffers hold: stores, kernels, copies, and blocks that become empty.

    Kernels with side effects stay, and so do `While` loops, which may not end.
    """
    writers: dict[Buffer, list[list[Buffer]]] = {}
    needed = dict.fromkeys(function.outputs)
    for statement in walk(function.body):
        if isinstance(statement, Nest):
            for effect in statement.effects:
                operands = [x.attr[0] for x in effect.loads]
                writers.setdefault(effect.buffer, []).append(operands)
        elif is_pure(statement):
            operands = list(reads(statement))
            for buffer in writes(statement):
                writers.setdefault(buffer, []).append(operands)
        else:
            needed.update(dict.fromkeys(reads(statement)))
    waiting = list(needed)
    while waiting:
        for operands in writers.get(waiting.pop(), ()):
            for buffer in operands:
                if buffer not in needed:
                    needed[buffer] = None
                    waiting.append(buffer)
    _keep(function.body, set(needed))


def is_pure(statement: Statement) -> bool:
    """Tell whether a statement without blocks has no effect but its results."""
    if isinstance(statement, Kernel):
        return statement.symbol not in EFFECTS
    return isinstance(statement, (Nest, Copy))


def _keep(statements: list[Statement], needed: set[Buffer]) -> None:
    kept: list[Statement] = []
    for statement in statements:
        inner = statement.blocks
        for block in inner:
            _keep(block, needed)
        if isinstance(statement, Nest):
            statement.effects[:] = [e for e in statement.effects if e.buffer in needed]
            if not statement.effects:
                continue
        elif isinstance(statement, (Loop, Branch)):
            if not any(inner):
                continue
        elif is_pure(statement) and needed.isdisjoint(writes(statement)):
            continue
        kept.append(statement)
    statements[:] = kept


# Partly dead code.


def sink(function: Function) -> None:
    """Move statements whose results only one arm of a branch reads into that arm."""
    if any(isinstance(statement, Branch) for statement in walk(function.body)):
        _Sinking(function).block(function.body)


class _Sinking:
    def __init__(self, function: Function) -> None:
        self._around: dict[int, int] = {}
        """The block around each block."""
        self._readers: dict[Buffer, Counter[int]] = {}
        """How many statements of each block read a buffer."""
        self._writers: Counter[Buffer] = Counter()
        self._note(function.body)

    def _note(self, statements: list[Statement]) -> None:
        here = id(statements)
        for statement in statements:
            for buffer in set(reads(statement)):
                self._readers.setdefault(buffer, Counter())[here] += 1
            self._writers.update(set(writes(statement)))
            for block in statement.blocks:
                self._around[id(block)] = here
                self._note(block)

    def block(self, statements: list[Statement]) -> None:
        """Move statements of a block into the arms of its branches, then on from there."""
        place = len(statements)
        while place > 0:
            place -= 1
            branch = statements[place]
            if isinstance(branch, Branch):
                place -= self._into_arms(statements, place, branch)
        for statement in statements:
            for block in statement.blocks:
                self.block(block)

    def _into_arms(self, statements: list[Statement], place: int, branch: Branch) -> int:
        """Move statements before a branch into its arms; return how many."""
        moved, here = 0, id(statements)
        arms = {id(block): block for block in branch.blocks}
        between: list[Statement] = []
        """The statements that stay between a candidate and the branch."""
        for i in range(place - 1, max(place - MOST_CONSIDERED, 0) - 1, -1):
            statement = statements[i]
            read = set(reads(statement))
            arm = self._arm(statement, here, arms)
            if (
                arm is None
                or self._growth(statement, read) > KEPT
                or not all(read.isdisjoint(everything(each)[1]) for each in between)
            ):
                between.append(statement)
                continue
            del statements[i]
            moved += 1
            arms[arm].insert(0, statement)
            for buffer in read:
                readers = self._readers[buffer]
                readers[here] -= 1
                readers[arm] += 1
        return moved

    def _arm(self, statement: Statement, here: int, arms: Mapping[int, object]) -> int | None:
        """Return the arm that holds all readers of what a statement computes, if there is one."""
        if not is_pure(statement) or has_checks([statement]):
            return None
        found: set[int | None] = set()
        for buffer in set(writes(statement)):
            if buffer.role is not Role.TEMP or self._writers[buffer] != 1:
                return None
            for block, count in self._readers.get(buffer, {}).items():
                if count:
                    found.add(self._child(block, here))
        (arm,) = found if len(found) == 1 else (None,)
        return arm if arm in arms else None

    def _child(self, block: int, here: int) -> int | None:
        """Return the block directly inside another one that holds a third; None for itself."""
        for _ in range(MOST_DEEP):
            around = self._around.get(block)
            if around is None or around == here:
                return block if around == here else None
            block = around
        return None

    def _growth(self, statement: Statement, read: Set[Buffer]) -> int:
        """Return how many more bytes are live until the branch, if a statement moves there."""
        growth = -sum(estimate(buffer.nbytes) for buffer in set(writes(statement)))
        for buffer in read:
            # What nothing else reads may move too.
            moves = self._readers[buffer].total() == 1 and self._writers[buffer] == 1
            if buffer.role is Role.TEMP and not moves:
                growth += estimate(buffer.nbytes)
        return growth
