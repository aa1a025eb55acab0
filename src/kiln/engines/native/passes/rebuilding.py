"""Rebuilding a nest with other expressions, axes or indices: done only here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kiln.engines.native.loop_ir.buffers import roots_of
from kiln.engines.native.loop_ir.scalars import Value
from kiln.engines.native.loop_ir.statements import Axis, Index, Nest, Reduce, Store
from kiln.engines.native.loop_ir.substitution import Moving, substituted


def with_roots(
    nest: Nest,
    roots: Sequence[Value],
    axes: Sequence[Axis] | None = None,
    move: Moving | None = None,
) -> Nest:
    """Return a nest with other expressions, in the order of `roots_of`.

    `move` says where each effect writes instead.
    """
    made: Iterator[Value] = iter(roots)
    effects: list[Store | Reduce] = []
    for effect in nest.effects:
        value = next(made)
        values = {old: next(made) for old in effect.index.operands}
        buffer, index = effect.buffer, effect.index.replaced({}, values)
        if move is not None:
            buffer, index = move(buffer, index)
        if isinstance(effect, Store):
            mask = None if effect.mask is None else next(made)
            effects.append(Store(buffer, index, value, mask))
        else:
            effects.append(Reduce(buffer, index, effect.op, value, effect.along))
    over = nest.axes if axes is None else axes
    return Nest(over, effects, ordered=nest.ordered, source=nest.source, lines=nest.lines)


def with_axes(nest: Nest, axes: Sequence[Axis], replaced: Mapping[Axis, Index]) -> Nest:
    """Return a nest over other axes, with its old axes replaced by indices."""
    roots = substituted(roots_of(nest), replaced, {})
    return with_roots(
        nest, roots, axes, lambda buffer, index: (buffer, index.replaced(replaced, {}))
    )


def with_places(nest: Nest, axes: Sequence[Axis], move: Moving) -> Nest:
    """Return a nest over other axes that reads and writes its elements elsewhere."""
    return with_roots(nest, substituted(roots_of(nest), {}, {}, move), axes, move)
