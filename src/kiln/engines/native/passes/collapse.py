"""Collapsing: two axes over which all elements lie evenly are one longer axis.

Longer axes fill vectors better, and are shared among threads more evenly.
"""

from __future__ import annotations

from kiln.engines.native.loop_ir import (
    Axis,
    Function,
    Index,
    Nest,
    Reduce,
    Statement,
    Store,
    blocks,
)
from kiln.engines.native.passes.buffers import nodes
from kiln.engines.native.passes.substitution import substituted


def collapse(function: Function) -> None:
    """Collapse the axes of all nests."""
    _collapse(function.body)


def _collapse(statements: list[Statement]) -> None:
    for i, statement in enumerate(statements):
        for block in blocks(statement):
            _collapse(block)
        if isinstance(statement, Nest) and len(statement.axes) > 1:
            statements[i] = collapsed(statement)


def collapsed(nest: Nest) -> Nest:
    """Return a nest with as few axes as its indices allow."""
    axes = [axis for axis in nest.axes if axis.size != 1]
    if len(axes) < 2:
        return nest
    indices = [x.attr[1] if x.op == "load" else x.attr for x in nodes(nest) if _has_index(x.op)]
    indices += [effect.index for effect in nest.effects]
    along = {e.along for e in nest.effects if isinstance(e, Reduce)}
    reduced = set(nest.reduced_axes())
    replaced: dict[Axis, Index] = {}
    kept = [axes[0]]
    factors = [[index.factor(axes[0]) for index in indices]]
    for axis in axes[1:]:
        last, mine = kept[-1], [index.factor(axis) for index in indices]
        if (
            all(f == g * axis.size for f, g in zip(factors[-1], mine, strict=True))
            and (last in reduced) == (axis in reduced)
            and last not in along
            and axis not in along
        ):
            both = Axis(last.name, last.size * axis.size)
            for old, index in replaced.items():
                if index.factor(last):
                    replaced[old] = Index()
            replaced[last] = Index()
            replaced[axis] = Index(0, ((both, 1),))
            if last in reduced:
                reduced.add(both)
            kept[-1], factors[-1] = both, mine
        else:
            kept.append(axis)
            factors.append(mine)
    return _with_axes(nest, kept, replaced) if replaced else nest


def _has_index(op: str) -> bool:
    return op in ("load", "index")


def _with_axes(nest: Nest, axes: list[Axis], replaced: dict[Axis, Index]) -> Nest:
    roots = [effect.value for effect in nest.effects]
    roots += [value for effect in nest.effects for value, _ in effect.index.values()]
    roots += [e.mask for e in nest.effects if isinstance(e, Store) and e.mask is not None]
    moved = dict(zip(roots, substituted(roots, replaced, {}), strict=True))
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
