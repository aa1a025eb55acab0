"""How a nest runs: the order of its axes, which one is vectorized, the vector width."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kiln.base.records import Record
from kiln.engines.native.loop_ir.buffers import loads
from kiln.engines.native.loop_ir.extents import Grain, estimate, is_named, quotient
from kiln.engines.native.loop_ir.scalars import Value, bits, cost, postorder
from kiln.engines.native.loop_ir.statements import Axis, Index, Nest, Reduce, Store
from kiln.engines.native.loop_ir.substitution import bounds, is_within

REGISTERS = 32
"""Loop bodies are unrolled over several vectors if their values fit in this many registers."""
MOST_VECTORS = 4
LONG_BODY = 64
"""Longer bodies are unrolled over only two vectors, to save compile time."""
LONG_MAP = 12
"""Bodies of nests that only store are not unrolled if they have more instructions: out-of-order
execution overlaps several points anyway."""
MASKED_BYTES = 16
"""Masked stores of bytes store this many at a time, never 8. LLVM 22 widens an 8-lane mask to a
16-lane register by `kmovb`, which its register allocator treats as a copy: if the mask is spilled
in between, bytes beyond the eighth are stored. The masks of remainders have no bits there."""
SPLIT_POINTS = 1 << 17
"""The least number of points per task."""
AWAKE_POINTS = 1 << 15
"""The same where other threads have just worked, and wait for more."""


class Schedule(Record):
    """The axes from the outermost to the innermost; the first `kept` are not reduced."""

    order: tuple[Axis, ...]
    kept: int
    vector: Axis | None
    width: int
    is_exact: bool
    work: float
    """Roughly how many instructions a point takes, as a fraction of a default vector."""
    grain: int | Grain
    """The grain: iterations of the outermost axis per task; 0: single-threaded."""


def schedule(nest: Nest, vector_bytes: int, widest: int = 0, *, is_awake: bool = False) -> Schedule:
    """Return how a nest runs on vectors of this many bytes.

    Each vector has elements of `widest` bytes, if given: nests that access registers have to agree.
    `is_awake` tells whether other threads have just worked.
    """
    reduced = nest.reduced_axes()
    axes = [axis for axis in nest.axes if axis.size != 1]
    kept = [axis for axis in axes if axis not in reduced]
    if nest.ordered:
        outer = _apart_from_others(nest, kept)
        kept = outer + [axis for axis in kept if axis not in outer]
    nodes = postorder(
        [effect.value for effect in nest.effects]
        + [v for effect in nest.effects for v in effect.index.operands]
    )
    fits = _is_apart if nest.ordered else varies
    candidates = [axis for axis in axes if fits(nest, axis)]
    vector = _vector_axis(nest, nodes, candidates)
    if vector is not None and vector in _few_positions(nest, vector_bytes):
        rows = [a for a in candidates if a in kept and estimate(a.size) >= vector_bytes]
        vector = rows[-1] if rows else vector
    width = 1
    if vector is not None:
        width = _width(nodes, vector, vector_bytes, is_map=nest.is_map)
        if widest and estimate(vector.size) * widest >= vector_bytes:
            width = vector_bytes // widest
        if width == 8 and vector_bytes == 64 and any(map(_stores_bytes_under_a_mask, nest.effects)):
            width = MASKED_BYTES
        home = reduced if vector in reduced else kept
        home.remove(vector)
        home.append(vector)
    order = (*kept, *reduced)
    return Schedule(
        order,
        len(kept),
        vector,
        width,
        vector is not None and quotient(vector.size, width) is not None,
        1 + sum(map(cost, nodes)) / 4,
        _grain(nodes, order, vector, width, is_awake) if kept and _is_shared(nest, order[0]) else 0,
    )


def _few_positions(nest: Nest, vector_bytes: int) -> set[Axis]:
    """Return the axes of so few positions that comparing lanes costs more than a gather."""
    return {
        e.along
        for e in nest.effects
        if isinstance(e, Reduce) and e.along and estimate(e.along.size) <= vector_bytes
    }


def _stores_bytes_under_a_mask(effect: Store | Reduce) -> bool:
    return isinstance(effect, Store) and effect.mask is not None and bits(effect.buffer.dtype) <= 8


def varies(nest: Nest, axis: Axis) -> bool:
    """Tell whether all stores along an axis are to different elements."""
    return all(
        effect.index.factor(axis) != 0
        or any(_depends(value, axis) for value in effect.index.operands)
        for effect in nest.effects
        if isinstance(effect, Store)
    )


def _is_apart(nest: Nest, axis: Axis) -> bool:
    """Tell whether an ordered nest stores contiguous elements along an axis, each once."""
    return all(
        effect.index.factor(axis) == 1
        and not any(_depends(value, axis) for value in effect.index.operands)
        for effect in nest.effects
    )


def _apart_from_others(nest: Nest, axes: list[Axis]) -> list[Axis]:
    """Return axes whose indices determine which elements an ordered nest writes, outermost first.

    For each of their indices the nest writes elements of its own: in any order, if each element is
    written in the order of the others.
    """
    found: list[Axis] = []
    while True:
        more = next((a for a in axes if a not in found and _is_shared(nest, a, found)), None)
        if more is None:
            return found
        found.append(more)


def _is_shared(nest: Nest, axis: Axis, fixed: Sequence[Axis] = ()) -> bool:
    """Tell whether threads may share an axis: its index determines which element is written.

    Within one iteration of each `fixed` axis.
    """
    if not nest.ordered:
        return True
    factors = {effect.index.factor(axis) for effect in nest.effects}
    if len(factors) > 1 or len({effect.buffer for effect in nest.effects}) > 1:
        return False
    (factor,) = factors
    places = {(effect.buffer, effect.index) for effect in nest.effects}
    buffer = nest.effects[0].buffer
    if any(x.attr[0] is buffer and x.attr not in places for x in loads(nest)):
        return False
    for effect in nest.effects:
        terms = [(t, f) for t, f in effect.index.terms if t is not axis and t not in fixed]
        low, high = bounds(Index(effect.index.const, terms))
        if low is None or high is None or not is_within(low, high, factor):
            return False
    return True


def _depends(value: Value, axis: Axis) -> bool:
    for x in postorder([value]):
        index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
        if index is not None and index.factor(axis) != 0:
            return True
    return False


def vector_axis(nest: Nest) -> Axis | None:
    """Return the axis along which a nest is vectorized."""
    roots = [effect.value for effect in nest.effects]
    return _vector_axis(nest, postorder(roots), [axis for axis in nest.axes if axis.size != 1])


def _vector_axis(nest: Nest, nodes: list[Value], axes: list[Axis]) -> Axis | None:
    if not axes:
        return None
    indices = [(x.attr[1], 1) for x in nodes if x.op == "load"]
    indices += [(e.index, 2) for e in nest.effects if isinstance(e, Store)]

    def score(axis: Axis) -> float:
        total = 0.0
        for index, weight in indices:
            factor = index.factor(axis)
            total += weight * (1 if factor == 1 else 0 if factor == 0 else -1)
        # Short axes leave lanes idle.
        return total - (0.5 if estimate(axis.size) < 8 else 0) + 0.1 * axes.index(axis) / len(axes)

    return max(axes, key=score)


def _width(nodes: list[Value], vector: Axis, vector_bytes: int, *, is_map: bool) -> int:
    varying = _varying(nodes, vector)
    widest = max([bits(x.dtype) // 8 or 1 for x in varying if x.op != "index"] or [4])
    base = max(1, vector_bytes // widest)
    # A named axis may be longer than assumed.
    size = max(2, estimate(vector.size))
    if size < base:
        return 1 << (size - 1).bit_length()
    most = MOST_VECTORS if len(varying) < LONG_BODY else 2
    if is_map and sum(map(cost, varying)) > LONG_MAP:
        most = 1
    vectors = max(1, min(most, REGISTERS // max(_most_alive(varying), 1)))
    vectors = 1 << (vectors.bit_length() - 1)
    while vectors > 1 and size < 2 * base * vectors:
        vectors //= 2
    return base * vectors


def _varying(nodes: list[Value], vector: Axis) -> list[Value]:
    """Return the nodes that differ from lane to lane."""
    found: dict[Value, None] = {}
    for x in nodes:
        index = x.attr[1] if x.op == "load" else x.attr if x.op == "index" else None
        if any(y in found for y in x.operands) or (index is not None and index.factor(vector) != 0):
            found[x] = None
    return list(found)


def _most_alive(nodes: list[Value]) -> int:
    """Return the register pressure: how many values are live at once, in this order."""
    last = {y: i for i, x in enumerate(nodes) for y in x.operands}
    alive: set[Value] = set()
    ending: dict[int, list[Value]] = {}
    most = 0
    for i, x in enumerate(nodes):
        alive.add(x)
        most = max(most, len(alive))
        ending.setdefault(last.get(x, i), []).append(x)
        alive.difference_update(ending.pop(i, ()))
    return most


def _grain(
    nodes: list[Value], order: tuple[Axis, ...], vector: Axis | None, width: int, is_awake: bool
) -> int | Grain:
    """Return the grain: how many iterations of the outermost axis are worth a task."""
    outermost = order[0]
    work = 1 + sum(map(cost, nodes)) / 4
    inner = math.prod([axis.size for axis in order[1:]])
    if is_named(inner, outermost.size):
        multiple = width if outermost is vector else 1
        return Grain(max(1, int(SPLIT_POINTS / work)), inner, multiple)
    points = inner * work
    steps = max(1, math.ceil((AWAKE_POINTS if is_awake else SPLIT_POINTS) / points))
    if is_awake and 2 * steps <= outermost.size:
        # Equal shares, those of the product's rows.
        steps = math.ceil(outermost.size / (1 << int(math.log2(outermost.size / steps))))
    if outermost is vector:
        steps = -(-steps // width) * width
    return steps if steps * 2 <= outermost.size else 0
