"""Rules for stacks of operands: `primitive_batchers`, and ways to define them.

The names are those of `jax.interpreters.batching`. An axis is a number, or None (`not_mapped`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.api.mapping.vmappable import register_vmappable as register_vmappable
from kiln.api.mapping.vmappable import unregister_vmappable as unregister_vmappable
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.interpreters.rule_tables import Rule, RuleTable
from kiln.ops.shape import broadcast_in_dim, mapped_at, reshape
from kiln.ops.shape import move_axis as moveaxis
from kiln.transforms.batching import BatchTrace as BatchTrace
from kiln.transforms.batching import BatchTracer as BatchTracer
from kiln.transforms.batching import MappedAxis as AxisData

not_mapped = None


def _checked(primitive: Primitive, found: Any) -> Any:
    """Count axes of results from the front, as kiln's own rules do."""
    outs, axes = found
    if not primitive.multiple:
        return outs, _from_front(outs, axes)
    return outs, [_from_front(x, axis) for x, axis in zip(outs, axes, strict=True)]


def _from_front(x: Any, axis: int | None) -> int | None:
    return axis if axis is None or axis >= 0 else axis + aval_of(x).ndim


def _plain(primitive: Primitive, rule: Rule) -> Rule:
    def batch_over(axis: AxisData, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        return _checked(primitive, rule(tuple(xs), tuple(axes), **params))

    return batch_over


def _fancy(primitive: Primitive, rule: Rule) -> Rule:
    def batch_over(axis: AxisData, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        return _checked(primitive, rule(axis, tuple(xs), tuple(axes), **params))

    return batch_over


def _of_size(primitive: Primitive, rule: Rule) -> Rule:
    def batch_over(axis: AxisData, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        found = rule(axis.size, axis.name, None, tuple(xs), tuple(axes), **params)
        return _checked(primitive, found)

    return batch_over


def _present(primitive: Primitive) -> Rule:
    def rule(xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        sizes = [aval_of(x).shape[a] for x, a in zip(xs, axes, strict=True) if a is not None]
        return primitive.batch_over(AxisData(sizes[0]), xs, axes, **params)

    return rule


def _present_fancy(primitive: Primitive) -> Rule:
    return primitive.batch_over


def _present_of_size(primitive: Primitive) -> Rule:
    def rule(
        size: Any, name: Any, kind: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> Any:
        return primitive.batch_over(AxisData(size, name), xs, axes, **params)

    return rule


class BatchTable(RuleTable):
    """A table of the rules for stacks; kiln's own may only say how, not for which axis."""

    def _has(self, primitive: Primitive) -> bool:
        return primitive.has("batch_over") or primitive.has("batch")


primitive_batchers = BatchTable("batch_over", _plain, _present)
"""`rule(operands, axes, **params) -> (result, axis)`, both lists if there are several."""

fancy_primitive_batchers = BatchTable("batch_over", _fancy, _present_fancy)
"""`rule(axis_data, operands, axes, **params)`, where `axis_data` has a size and a name."""

axis_primitive_batchers = BatchTable("batch_over", _of_size, _present_of_size)
"""`rule(axis_size, axis_name, None, operands, axes, **params)`."""


def broadcast(x: Any, size: Any, axis: int, mesh_axis: Any = None) -> Any:
    """Return a stack of `size` times the same array, along a new axis.

    `axis` is its position in the result. `mesh_axis` has no effect.
    """
    return mapped_at(x, size, None, axis)


def bdim_at_front(x: Any, axis: int | None, size: Any, mesh_axis: Any = None) -> Any:
    """Return a stack with its mapped axis in front; `size` times the same array if unmapped.

    `axis` is the mapped axis, or None. `mesh_axis` has no effect.
    """
    return mapped_at(x, size, axis, 0)


def defvectorized(primitive: Primitive) -> None:
    """Say that a primitive does to a stack what it does to an array: all axes are alike."""

    def rule(xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        return _alike(primitive, primitive.bind(*xs, **params), axes[0])

    primitive_batchers[primitive] = rule


def defbroadcasting(primitive: Primitive) -> None:
    """Say that a primitive is elementwise, and its operands, of equal rank, broadcast."""

    def rule(xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        mapped = [(x, a) for x, a in zip(xs, axes, strict=True) if a is not None]
        shapes = {aval_of(x).shape for x, _ in mapped}
        if len(mapped) == len(xs) and len(shapes) == 1 and len(set(axes)) == 1:
            return _alike(primitive, primitive.bind(*xs, **params), axes[0])
        moved = [x if a is None else moveaxis(x, a, 0) for x, a in zip(xs, axes, strict=True)]
        rank = 1 + max(aval_of(x).ndim - (a is not None) for x, a in zip(xs, axes, strict=True))
        full = [_of_rank(x, a, rank) for x, a in zip(moved, axes, strict=True)]
        return _alike(primitive, primitive.bind(*full, **params), 0)

    primitive_batchers[primitive] = rule


def _of_rank(x: Any, axis: int | None, rank: int) -> Any:
    """Give an operand axes of size 1, behind its mapped axis, or in front if it has none."""
    shape = aval_of(x).shape
    ones = (1,) * (rank - len(shape))
    if axis is None:
        return broadcast_in_dim(x, (*ones, *shape), range(len(ones), rank)) if shape else x
    return reshape(x, (shape[0], *ones, *shape[1:]))


def defreducer(primitive: Primitive) -> None:
    """Say that a primitive reduces the axes in its parameter `axes`."""

    def rule(xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        (x,), (mapped,) = xs, axes
        reduced = tuple(a + (mapped <= a) for a in params["axes"])
        out = primitive.bind(x, **{**params, "axes": reduced})
        return _alike(primitive, out, mapped - sum(a < mapped for a in reduced))

    primitive_batchers[primitive] = rule


def _alike(primitive: Primitive, out: Any, axis: Any) -> Any:
    return out, [axis] * len(out) if primitive.multiple else axis


__all__ = [
    "AxisData",
    "BatchTrace",
    "BatchTracer",
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "moveaxis",
    "not_mapped",
    "primitive_batchers",
    "register_vmappable",
    "unregister_vmappable",
]
