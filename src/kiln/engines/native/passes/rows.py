"""Row programs: consecutive nests over the same outer axis run row by row.

What one of them computes for a row is still in cache when the next reads it, and a temporary that
only they access needs the space of one row: it is on the thread's stack. Long rows are in turn
loops over their own rows, so a softmax over a batch of matrices runs row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kiln.engines.native.loop_ir.buffers import loads, reads, writes
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_positive
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Loop,
    Nest,
    Role,
    Statement,
    While,
    walk,
)
from kiln.engines.native.loop_ir.substitution import bounds, is_within
from kiln.engines.native.passes.rebuilding import with_places
from kiln.ir.sizes.size import Dim

MOST_ROW_BYTES = 1 << 15
"""A longer row is not kept on the stack."""
MOST_PER_ITERATION = 1 << 13
"""An iteration of this many points is itself a loop over rows, if it has an axis for them."""
FEWEST_IN_ROW = 1 << 6
"""But not if those rows are shorter than this: vectors would not be full."""
MOST_BEFORE = 1 << 12
"""Points of a nest that is computed before a group instead of dividing it."""
FEWEST_IN_TURN = 1 << 15
"""What an iteration computes stays in cache anyway if it has no more points than this."""


def by_rows(function: Function) -> None:
    """Group the nests of each block that share an outer axis."""
    touches = Counter(function.outputs)
    for statement in walk(function.body):
        touches.update({*reads(statement), *writes(statement)})
    _grouped(function.body, touches, 0)


def _grouped(
    statements: list[Statement],
    touches: Counter[Buffer],
    fewest: int,
    outer: tuple[Axis, ...] = (),
    around: tuple[Axis, ...] = (),
) -> None:
    for statement in statements:
        inner = FEWEST_IN_TURN if isinstance(statement, (Loop, While)) else fewest
        axes = (*around, statement.axis) if isinstance(statement, Loop) else around
        for block in statement.blocks:
            _grouped(block, touches, inner, (), axes)
    found: list[Statement] = []
    enclosing = (*outer, *around)
    group = _Group(enclosing)

    def close() -> None:
        nests = group.nests
        if len(nests) < 2 or sum(estimate(nest.points) for nest in nests) < fewest:
            found.extend(nests)
            return
        axis = nests[0].axes[0]
        iteration = max(estimate(nest.points) for nest in nests) // estimate(axis.size)
        if outer and iteration < FEWEST_IN_ROW:
            found.extend(nests)
            return
        loop = Loop(axis, list(nests), parallel=True, source=nests[0].source)
        _contract(loop, touches, enclosing)
        if iteration >= MOST_PER_ITERATION:
            _grouped(loop.body, touches, 0, (*outer, axis), around)
        found.append(loop)

    for statement in statements:
        if not isinstance(statement, Nest) or not (
            _may_lead(statement) or (around and group.nests and _is_of_rows(statement))
        ):
            if group.nests and group.may_follow(statement):
                found.append(statement)
                continue
            close()
            group = _Group(enclosing)
            found.append(statement)
        elif not group.takes(statement):
            close()
            group = _Group(enclosing)
            group.takes(statement)
    close()
    statements[:] = found


def _may_lead(nest: Nest) -> bool:
    """Tell whether the outermost axis of a nest can be a loop around it."""
    return (
        not nest.ordered
        and len([axis for axis in nest.axes if axis.size != 1]) > 1
        and nest.axes[0].size != 1
        and nest.axes[0] not in nest.reduced_axes()
    )


def _is_of_rows(nest: Nest) -> bool:
    """Tell whether a nest computes one element for each row."""
    if nest.ordered or not nest.axes or nest.axes[0] in nest.reduced_axes():
        return False
    return all(axis.size == 1 for axis in nest.axes[1:])


def accesses(nest: Nest) -> Iterator[tuple[Buffer, Index, bool]]:
    """Iterate over the accesses of a nest: buffer, index, and true for writes."""
    for x in loads(nest):
        yield (*x.attr, False)
    for effect in nest.effects:
        yield effect.buffer, effect.index, True


class _Group:
    """Nests over the same rows, each of which accesses only its own row.

    The `outer` axes are those of the loops around them.
    """

    def __init__(self, outer: tuple[Axis, ...]) -> None:
        self.outer = outer
        self.nests: list[Nest] = []
        self.rows: dict[Buffer, list[tuple[Index, bool]]] = {}

    def may_follow(self, statement: Statement) -> bool:
        """Tell whether a statement is a small nest that may run before the nests of the group.

        The factors of a normalization are one, between the padded operand of a depthwise
        convolution and its sums.
        """
        if not isinstance(statement, Nest) or estimate(statement.points) > MOST_BEFORE:
            return False
        written = set(writes(statement))
        return not any(
            is_written or buffer in written
            for buffer in {*reads(statement), *written}
            for _, is_written in self.rows.get(buffer, ())
        )

    def takes(self, nest: Nest) -> bool:
        """Add a nest, if it fits the previous ones."""
        mine: dict[Buffer, list[tuple[Index, bool]]] = {}
        for buffer, index, written in accesses(nest):
            mine.setdefault(buffer, []).append((index, written))
        if self.nests:
            axis = self.nests[0].axes[0]
            if nest.axes[0] is not axis:
                return False
            shares = False
            for buffer, places in mine.items():
                known = [*self.rows.get(buffer, ()), *places]
                if not any(written for _, written in known):
                    shares |= buffer.role is not Role.CONST and len(known) > 1
                    continue
                if len(known) > 1:
                    if _stride(known, axis, self.outer) is None:
                        return False
                    shares = True
            if not shares:
                return False
        self.nests.append(nest)
        for buffer, places in mine.items():
            self.rows.setdefault(buffer, []).extend(places)
        return True


def _stride(places: list[tuple[Index, bool]], axis: Axis, outer: tuple[Axis, ...]) -> Dim | None:
    """Return the stride of rows, if all accesses are within their own row.

    In loops over `outer` axes they are rows of the same iteration.
    """
    first = places[0][0]
    stride = first.factor(axis)
    if not is_positive(stride):
        return None
    for index, _ in places:
        if any(index.factor(each) != first.factor(each) for each in (axis, *outer)):
            return None
        low, high = bounds(without(index, axis, *outer))
        if low is None or high is None or not is_within(low, high, stride):
            return None
    return stride


def _contract(loop: Loop, touches: Counter[Buffer], outer: tuple[Axis, ...]) -> None:
    """Shrink temporaries that only this loop accesses to one row; `touches` counts all accesses."""
    nests = [each for each in loop.body if isinstance(each, Nest)]
    rows: dict[Buffer, list[tuple[Index, bool]]] = {}
    mine: Counter[Buffer] = Counter()
    for nest in nests:
        found = list(accesses(nest))
        mine.update({buffer for buffer, _, _ in found})
        for buffer, index, written in found:
            if buffer.role in (Role.TEMP, Role.ROW):
                rows.setdefault(buffer, []).append((index, written))
    made: dict[Buffer, Buffer] = {}
    for buffer, places in rows.items():
        stride = _stride(places, loop.axis, outer)
        if stride is None or touches[buffer] > mine[buffer]:
            continue
        row = Buffer(buffer.name, buffer.dtype, stride, Role.ROW)
        if at_least(MOST_ROW_BYTES, row.nbytes):
            made[buffer] = row
            touches[row] = touches[buffer]

    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        row = made.get(buffer)
        return (buffer, index) if row is None else (row, without(index, loop.axis, *outer))

    loop.body[:] = [with_places(nest, nest.axes[1:], move) for nest in nests]


def without(index: Index, *axes: Axis) -> Index:
    """Return an index without its terms in some axes."""
    return Index(index.const, [(t, f) for t, f in index.terms if t not in axes])
