"""Fusion: values are recomputed where they are used, and nests over the same domain are merged.

Statements are processed in order. A load from a buffer that a single earlier nest computes is
replaced by the expression, if recomputing costs less than memory traffic; then the nest is merged
into the latest nest over the same axes that follows everything it depends on. Dead stores are
dropped at the end.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

from kiln.engines.native.loop_ir.buffers import Touches, loads, nodes, reads, roots_of, writes
from kiln.engines.native.loop_ir.extents import at_least, estimate, is_positive
from kiln.engines.native.loop_ir.scalars import Value, cost, postorder
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Nest,
    Reduce,
    Statement,
    Store,
    walk,
)
from kiln.engines.native.loop_ir.substitution import bounds, leaves, solved, substituted
from kiln.engines.native.passes.axes import split_axes
from kiln.engines.native.passes.dead import drop_unread
from kiln.engines.native.passes.rebuilding import with_roots
from kiln.ir.sizes.size import Dim

MOST_TRIED = 64
"""How many clusters over the same axes a nest is compared with, latest first."""
MOST_NODES = 600
"""Fusion makes no nest larger than this."""
MOST_MOVED = 120
"""A larger expression is not rewritten in terms of other axes."""
CHEAP = 4
"""An expression of at most this many operations is recomputed rather than stored."""
SMALL = 64
"""Nests of at most this many points are merged even if they share nothing."""


def fuse(function: Function) -> None:
    """Fuse the nests of each block of statements."""
    uses = Counter(b for statement in walk(function.body) for b in set(reads(statement)))
    outputs = set(function.outputs)
    _fuse_block(function.body, uses, outputs, Touches(function))
    drop_unread(function)


def _fuse_block(
    statements: list[Statement],
    uses: Counter[Buffer],
    outputs: set[Buffer],
    touches: Touches,
) -> None:
    for statement in statements:
        inner = statement.blocks
        for block in inner:
            _fuse_block(block, uses, outputs, touches)
        if inner:
            touches.note(statement)
    statements[:] = _Fuser(uses, outputs, statements, touches).run()


class Cluster:
    """A nest being fused, and what is known about its expressions."""

    __slots__ = ("axes", "effects", "inputs", "is_map", "nest", "nodes", "reduced", "spans")

    def __init__(self, nest: Nest, inputs: set[Value]) -> None:
        self.nest = nest
        self.axes = nest.axes
        self.effects = nest.effects
        self.inputs = inputs
        self.nodes = set(nodes(nest))
        self.reduced = frozenset(nest.reduced_axes())
        self.is_map = nest.is_map
        self.spans: dict[Buffer, tuple[Dim, Dim] | None] = {}
        """The range of elements written in each buffer, if it is known."""
        for effect in nest.effects:
            self.widen(effect)

    def widen(self, effect: Store | Reduce) -> None:
        """Record that the cluster writes an effect."""
        own = _span(effect)
        known = self.spans.setdefault(effect.buffer, own)
        if own is None or known is None:
            self.spans[effect.buffer] = None
        elif known is not own:
            low, high = (own[0], known[1]) if at_least(known[0], own[0]) else (known[0], own[1])
            is_hull = all(at_least(x, low) and at_least(high, y) for x, y in (own, known))
            self.spans[effect.buffer] = (low, high) if is_hull else None

    def is_apart(self, effect: Store | Reduce) -> bool:
        """Tell whether an effect certainly writes no element that the cluster writes."""
        if effect.buffer not in self.spans:
            return True
        own, known = _span(effect), self.spans[effect.buffer]
        if own is None:
            return False
        if known is not None and _are_separate(own, known):
            return True
        for other in self.effects:
            if other.buffer is effect.buffer and not _alternate(other.index, effect.index):
                span = _span(other)
                if span is None or not _are_separate(own, span):
                    return False
        return True


class Definition:
    """What a single nest stores to a buffer."""

    __slots__ = ("cluster", "cost", "inputs", "lines", "position", "size", "store")

    def __init__(
        self,
        store: Store,
        cluster: int,
        inputs: set[Value],
        cost: int,
        size: int,
        position: int,
        lines: Mapping[Any, float],
    ) -> None:
        self.lines = lines
        self.store = store
        self.cluster = cluster
        self.inputs = inputs
        self.cost = cost
        self.size = size
        self.position = position


class _Fuser:
    def __init__(
        self,
        uses: Counter[Buffer],
        outputs: set[Buffer],
        statements: list[Statement],
        touches: Touches,
    ) -> None:
        self.touches = touches
        self.uses = uses
        self.outputs = outputs
        self.statements = statements
        self.done: list[Statement | Cluster] = []
        self.definitions: dict[Buffer, list[Definition]] = {}
        self.last_read: dict[Buffer, int] = {}
        self.last_written: dict[Buffer, int] = {}
        self.by_axes: dict[tuple[Axis, ...], list[int]] = {}
        self.writers: Counter[Buffer] = Counter()
        self.write_times: dict[Buffer, list[int]] = {}
        for time, statement in enumerate(statements):
            for buffer in touches.of(statement)[1]:
                self.writers[buffer] += 1
                self.write_times.setdefault(buffer, []).append(time)

    def run(self) -> list[Statement]:
        for time, statement in enumerate(self.statements):
            if isinstance(statement, Nest):
                self._nest(statement, time)
            else:
                self._barrier(statement)
        return [x.nest if isinstance(x, Cluster) else x for x in self.done]

    def _barrier(self, statement: Statement) -> None:
        place = len(self.done)
        self.done.append(statement)
        read, written = self.touches.of(statement)
        self._note(place, read, written)

    def _note(self, place: int, read: Set[Buffer], written: Set[Buffer]) -> None:
        for buffer in read:
            self.last_read[buffer] = max(place, self.last_read.get(buffer, -1))
        for buffer in written:
            self.last_written[buffer] = max(place, self.last_written.get(buffer, -1))

    # One nest.

    def _nest(self, nest: Nest, time: int) -> None:
        nest = self._in_axes_of_operands(nest)
        roots = roots_of(nest)
        own = nodes(nest)
        read = loads(nest)
        repeats = Counter([x.attr[0] for x in read])
        home = -1 if nest.ordered else self._home(nest, read, len(own))
        replaced: dict[Value, Value] = {}
        inputs: set[Value] = set()
        size, work = len(own), sum(map(cost, own))
        share = (1.0 + work) / sum(nest.lines.values())
        lines = {source: part * share for source, part in nest.lines.items()}
        for x in read:
            definition = self._definition(x, nest, time, home, repeats[x.attr[0]])
            made = None
            if definition is not None and size + definition.size > MOST_NODES:
                # The sum of sizes counts shared subexpressions of definitions more than once.
                definition.size = len(postorder([definition.store.value]))
                shared = postorder([*replaced.values(), definition.store.value])
                size = len(own) + len(shared) - definition.size
            if definition is not None and size + definition.size <= MOST_NODES:
                made = self._inlined(x, definition)
            if made is None or definition is None:
                inputs.add(x)
                continue
            replaced[x] = made[0]
            inputs |= made[1]
            size += definition.size
            work += definition.cost
            _add(lines, definition.lines)
        if replaced:
            nest = with_roots(nest, substituted(roots, {}, replaced))
        nest.lines = lines
        if nest.ordered:
            self._barrier(nest)
        else:
            self._place(nest, inputs, size, work, time)

    def _in_axes_of_operands(self, nest: Nest) -> Nest:
        """Return a nest with an axis split if it spans several axes of what it reads."""
        for x in loads(nest):
            buffer, index = x.attr
            if x.operands or self.writers[buffer] != 1:
                continue
            for definition in self.definitions.get(buffer, ()):
                stored = definition.store.index
                if solved(stored, index) is None:
                    split = split_axes(nest, stored, index)
                    if split is not None:
                        return split
        return nest

    def _home(self, nest: Nest, loads: Sequence[Value], size: int) -> int:
        """Return where a nest of some size could be merged with the producer of what it reads."""
        read: set[Buffer] = set()
        for x in loads:
            # Cheap values are inlined in any case, so their operands are read.
            cheap = [d for d in self.definitions.get(x.attr[0], ()) if _is_cheap(d)]
            read |= {y.attr[0] for y in cheap[-1].inputs} if cheap else {x.attr[0]}
        after = self._earliest(read, set(writes(nest)))
        places = self.by_axes.get(nest.axes, ())
        if not places or places[-1] < after:
            return -1
        place = places[-1]
        cluster = self.done[place]
        if isinstance(cluster, Cluster) and len(cluster.nodes) + size > MOST_NODES:
            return -1  # It would not be merged, and so recompute everything.
        made_there = {b for b in read if self.last_written.get(b) == place}
        return place if all(b in self.definitions for b in made_there) else -1

    def _earliest(self, read: set[Buffer], written: set[Buffer]) -> int:
        """Return the position of the last statement that must precede it."""
        found = -1
        for buffer in read:
            found = max(found, self.last_written.get(buffer, -1))
        for buffer in written:
            found = max(found, self.last_written.get(buffer, -1), self.last_read.get(buffer, -1))
        return found

    def _definition(
        self, x: Value, nest: Nest, time: int, home: int, repeats: int
    ) -> Definition | None:
        """Return the definition of what is read, if it should be recomputed here."""
        buffer, index = x.attr
        if self.writers[buffer] != 1 or len(x.operands) != len(index.operands):
            return None
        for definition in self.definitions.get(buffer, ()):
            axes = solved(definition.store.index, index)
            if axes is None:
                continue
            if not all(
                self._lasts(y, definition, nest, time, bool(axes)) for y in definition.inputs
            ):
                return None
            pays = self._pays(definition, x, nest, home, bool(axes), repeats)
            return definition if pays else None
        return None

    def _lasts(self, y: Value, definition: Definition, nest: Nest, time: int, moved: bool) -> bool:
        """Tell whether what a definition reads is unchanged, or is overwritten only here."""
        buffer, index = y.attr
        for t in self.write_times.get(buffer, ()):
            if t == time:
                # A point reads before it writes: what it reads of a buffer must be what it writes.
                if moved or nest.ordered or not is_in_place(index, buffer, nest):
                    return False
            elif definition.position <= t < time:
                return False
        return True

    def _pays(
        self, definition: Definition, x: Value, nest: Nest, home: int, moved: bool, repeats: int
    ) -> bool:
        """Tell whether to recompute a value instead of reading it; `repeats` counts such reads."""
        buffer, index = x.attr
        if moved and definition.size > MOST_MOVED:
            return False
        if definition.cluster == home and not moved:
            return True
        times = _evaluations(nest, index) * repeats
        points = math.prod(estimate(axis.size) for axis, _ in definition.store.index.axes())
        once = self.uses[buffer] == 1 and buffer not in self.outputs
        if once and times <= points:
            return True
        if _is_cheap(definition):
            return True
        return points <= 1 and definition.cost <= 8 and not definition.inputs

    def _inlined(self, x: Value, definition: Definition) -> tuple[Value, set[Value]] | None:
        axes = solved(definition.store.index, x.attr[1])
        if axes is None:
            return None
        if not axes:
            return definition.store.value, definition.inputs
        (made,) = substituted([definition.store.value], axes, {})
        return made, set(leaves([made]))

    # Placement.

    def _place(self, nest: Nest, inputs: set[Value], size: int, work: int, time: int) -> None:
        read = {x.attr[0] for x in inputs}
        written = set(writes(nest))
        after = self._earliest(read, written)
        place = self._joined(nest, inputs, after, read)
        if place is None:
            place = len(self.done)
            self.done.append(Cluster(nest, set(inputs)))
            self.by_axes.setdefault(nest.axes, []).append(place)
        self._note(place, read, written)
        for effect in nest.effects:
            if isinstance(effect, Store) and effect.mask is None and _is_whole(effect, nest):
                self.definitions.setdefault(effect.buffer, []).append(
                    Definition(effect, place, inputs, work, size, time, nest.lines)
                )

    def _joined(self, nest: Nest, inputs: set[Value], after: int, read: set[Buffer]) -> int | None:
        """Add the nest to a suitable cluster, if there is one; return its position."""
        reduced, is_map = frozenset(nest.reduced_axes()), nest.is_map
        for place in itertools.islice(reversed(self.by_axes.get(nest.axes, ())), MOST_TRIED):
            if place < after:
                return None
            cluster = self.done[place]
            assert isinstance(cluster, Cluster)
            if place == after and not self._forwards(cluster, nest, inputs):
                continue
            # A sum over an axis of one element reduces nothing, but is not a map either.
            if not (is_map or cluster.is_map) and reduced != cluster.reduced:
                continue
            near = any(x.attr[0] in read for x in cluster.inputs) or place == after
            if not near and estimate(nest.points) > SMALL:
                continue
            more = _fresh(roots_of(nest), cluster.nodes)
            if len(cluster.nodes) + len(more) > MOST_NODES:
                continue
            cluster.effects.extend(nest.effects)
            for effect in nest.effects:
                cluster.widen(effect)
            cluster.nest.lines = _add(dict(cluster.nest.lines), nest.lines)
            cluster.inputs |= inputs
            cluster.nodes |= more
            cluster.reduced |= reduced
            cluster.is_map &= is_map
            return place
        return None

    def _forwards(self, cluster: Cluster, nest: Nest, inputs: set[Value]) -> bool:
        """Tell whether a nest reads nothing that the cluster writes, and overwrites nothing.

        It may overwrite what the cluster reads at the same point, as the next value of a carry.
        """
        if any(x.attr[0] in cluster.spans for x in inputs):
            return False
        mine = set(writes(nest))
        overwritten = [x for x in cluster.inputs if x.attr[0] in mine]
        if overwritten and not (
            cluster.is_map
            and all(isinstance(e, Store) and _is_whole(e, nest) for e in nest.effects)
            and all(is_in_place(x.attr[1], x.attr[0], nest) for x in overwritten)
        ):
            return False
        # One nest may write several parts of a buffer, as in a concatenation.
        return all(cluster.is_apart(effect) for effect in nest.effects)


def _add(lines: dict[Any, float], more: Mapping[Any, float]) -> dict[Any, float]:
    for source, work in more.items():
        lines[source] = lines.get(source, 0.0) + work
    return lines


def _fresh(roots: Sequence[Value], known: set[Value]) -> set[Value]:
    """Return the unknown nodes below some; the operands of a known node are known."""
    found: set[Value] = set()
    stack = list(roots)
    while stack:
        x = stack.pop()
        if x not in known and x not in found:
            found.add(x)
            stack.extend(x.operands)
    return found


def _span(effect: Store | Reduce) -> tuple[Dim, Dim] | None:
    """Return the first and the last element that a store may write, if they are known."""
    if isinstance(effect, Reduce):
        return None
    low, high = bounds(effect.index)
    return None if low is None or high is None else (low, high)


def _are_separate(x: tuple[Dim, Dim], y: tuple[Dim, Dim]) -> bool:
    return at_least(y[0], x[1] + 1) or at_least(x[0], y[1] + 1)


def _alternate(x: Index, y: Index) -> bool:
    """Tell whether two indices are never equal, as those of even and of odd elements."""
    numbers = [x.const - y.const, *(factor for _, factor in (*x.terms, *y.terms))]
    whole = [number for number in numbers if isinstance(number, int)]
    return len(whole) == len(numbers) and whole[0] % (math.gcd(*whole[1:]) or math.inf) != 0


def _is_whole(store: Store, nest: Nest) -> bool:
    """Tell whether a store of a nest writes an element at each point, no two the same."""
    index = store.index
    if index.operands:
        return False
    covered = {axis for axis, _ in index.axes()}
    if not covered:
        return nest.points == 1
    return all(is_positive(f) for _, f in index.axes()) and all(
        axis in covered for axis in nest.axes if axis.size != 1
    )


def is_in_place(index: Index, buffer: Buffer, nest: Nest) -> bool:
    """Tell whether a point that reads a buffer reads only what it writes itself.

    A nest of one point reads all before it writes.
    """
    if nest.points == 1:
        return not nest.ordered
    written = {e.index for e in nest.effects if e.buffer is buffer}
    if index not in written or nest.ordered:
        return False
    # The parts of a complex number are written by one point.
    if any(each.terms != index.terms or each.const.__class__ is not int for each in written):
        return len(written) == 1
    first = min(each.const for each in written)
    return all(each.const - first < len(written) for each in written) and all(
        f % len(written) == 0 for _, f in index.axes()
    )


def _is_cheap(definition: Definition) -> bool:
    """Tell whether to recompute a value rather than read it."""
    return definition.cost <= CHEAP and len(definition.inputs) <= 2


def _evaluations(nest: Nest, index: Index) -> int:
    """Return how often a nest computes an expression of an index, hoisted as far as possible."""
    reduced = nest.reduced_axes()
    order = [a for a in nest.axes if a not in reduced] + reduced
    total, found = 1, 1
    for axis in order:
        total *= estimate(axis.size)
        if index.operands or index.factor(axis) != 0:
            found = total
    return found
