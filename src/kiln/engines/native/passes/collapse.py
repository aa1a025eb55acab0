"""Collapsing: two axes over which all accesses are evenly strided become one longer axis.

Longer axes fill vectors better and are divided among threads more evenly.
"""

from __future__ import annotations

from kiln.engines.native.loop_ir.buffers import nodes
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Function,
    Index,
    Nest,
    Reduce,
    Statement,
)
from kiln.engines.native.passes.rebuilding import with_axes


def collapse(function: Function) -> None:
    """Collapse the axes of all nests."""
    _collapse(function.body)


def _collapse(statements: list[Statement]) -> None:
    for i, statement in enumerate(statements):
        for block in statement.blocks:
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
                if index.factor(last) != 0:
                    replaced[old] = Index()
            replaced[last] = Index()
            replaced[axis] = Index(0, ((both, 1),))
            if last in reduced:
                reduced.add(both)
            kept[-1], factors[-1] = both, mine
        else:
            kept.append(axis)
            factors.append(mine)
    return with_axes(nest, kept, replaced) if replaced else nest


def _has_index(op: str) -> bool:
    return op in ("load", "index")
