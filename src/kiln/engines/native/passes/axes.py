"""Nests in other axes: replaced by linear functions of others, or split into several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from kiln.engines.native.extents import at_least, estimate, is_positive
from kiln.engines.native.loop_ir import Axis, Index, Nest, Reduce, Store
from kiln.engines.native.passes.substitution import substituted
from kiln.engines.native.scalars import Value


def split_axes(nest: Nest, stored: Index, read: Index) -> Nest | None:
    """Return a nest in the axes of a store, if it reads what is stored there along fewer axes.

    A value of shape [a, b] that is read as [a * b] is read by a nest whose axis is split in two.
    None if the axes do not fit.
    """
    terms = sorted(stored.axes(), key=lambda term: estimate(term[1]))
    for axis, factor in read.axes():
        if axis not in nest.axes or not is_positive(factor) or _is_counted(nest, axis):
            continue
        parts, step, end = [], factor, factor * axis.size
        for mine, f in terms:
            if f == step and step != end and at_least(end, step):
                parts.append(mine)
                step *= mine.size
        if len(parts) < 2 or math.prod(part.size for part in parts) != axis.size:
            continue
        parts.reverse()
        if any(part in nest.axes for part in parts):
            parts = [Axis(part.name, part.size) for part in parts]
        index, step = Index(), 1
        for part in reversed(parts):
            index += Index(0, ((part, step),))
            step *= part.size
        place = nest.axes.index(axis)
        return with_axes(nest, [*nest.axes[:place], *parts, *nest.axes[place + 1 :]], {axis: index})
    return None


def _is_counted(nest: Nest, axis: Axis) -> bool:
    """Tell whether the number that an axis has is a result."""
    return any(isinstance(e, Reduce) and e.along is axis for e in nest.effects)


def with_axes(nest: Nest, axes: Sequence[Axis], replaced: Mapping[Axis, Index]) -> Nest:
    """Return a nest over other axes, with those it had replaced by indices."""
    roots = [effect.value for effect in nest.effects]
    roots += [value for effect in nest.effects for value, _ in effect.index.values()]
    roots += [e.mask for e in nest.effects if isinstance(e, Store) and e.mask is not None]
    moved: dict[Value, Value] = dict(zip(roots, substituted(roots, replaced, {}), strict=True))
    effects: list[Store | Reduce] = []
    for effect in nest.effects:
        index = effect.index.replaced(replaced, moved)
        if isinstance(effect, Store):
            mask = None if effect.mask is None else moved[effect.mask]
            effects.append(Store(effect.buffer, index, moved[effect.value], mask))
        else:
            effects.append(
                Reduce(effect.buffer, index, effect.op, moved[effect.value], effect.along)
            )
    return Nest(axes, effects, ordered=nest.ordered, source=nest.source)
