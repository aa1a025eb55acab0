"""Batching: the same program on a batch of operands, one operation at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.options.config import options
from kiln.base.records import Record
from kiln.core.leaks import check_leaks
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import Trace, Tracer, aval_of, axis_bound, check_live, state
from kiln.ir.effects import named_axis
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray, with_split
from kiln.ops.shape import mapped_at


class MappedAxis(Record):
    """The axis being mapped: its size, its name if it has one, and whether a mesh has it.

    `split` is a mesh and which of its Explicit axes split the stacks along this axis, if some do;
    `spmd` are the mesh axes that constraints and shards are to split it by: a name, or a tuple.
    """

    size: Dim
    name: Any = None
    is_of_mesh: bool = False
    split: tuple[Any, Any] | None = None
    spmd: Any = None
    is_checked: bool = dataclasses.field(default_factory=lambda: options().checks_operations)
    """Whether operations are checked: examples then compute only what one computes alone."""

    def stack_of(self, aval: Any, at: int) -> Any:
        """Return the type of a stack of values of a type, with this axis at a position."""
        found = aval.with_axis(at, self.size)
        if self.split is None or not isinstance(found, ShapedArray):
            return found
        mesh, entry = self.split
        split = (*found.split[:at], entry, *found.split[at + 1 :])
        return with_split(found, mesh, split, found.sums)

    def keeps_examples_apart(self, jaxpr: Jaxpr) -> bool:
        """Tell whether checks of a program concern single examples, which it does not combine."""
        return self.is_checked and (self.name is None or named_axis(self.name) not in jaxpr.effects)


class BatchTracer(Tracer):
    """A stack of values: `value` with the mapped axis at `axis`."""

    __slots__ = ("axis", "value")

    def __init__(self, owner: Trace, value: Any, axis: int) -> None:
        aval = aval_of(value)
        self.owner = owner
        self.value = value
        self.axis = axis
        self.aval = aval.without_axis(axis)

    def inside(self) -> tuple[Any, ...]:
        """Return the stack."""
        return (self.value,)

    def abstract(self) -> Tracer:
        """Return the innermost tracer that has no value."""
        return self.value.abstract() if isinstance(self.value, Tracer) else self


class BatchTrace(Trace):
    """Applies the batch rule of each operation.

    Traces with the same `tag` map over the same axis and share their tracers: a function that a
    rule runs again, under another parent, may close over tracers of the first run.
    """

    __slots__ = ("axis", "effect", "tag")

    def __init__(self, parent: Trace, axis: MappedAxis, tag: object = None) -> None:
        super().__init__(parent)
        self.axis = axis
        self.tag = tag or object()
        self.effect = None if axis.name is None else named_axis(axis.name)

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply an operation to stacks."""
        values: list[Any] = []
        axes: list[int | None] = []
        mapped = False
        for x in args:
            if type(x) is BatchTracer and x.owner.tag is self.tag:  # type: ignore[attr-defined]
                values.append(x.value)
                axes.append(x.axis)
                mapped = True
            else:
                values.append(x)
                axes.append(None)
        if not mapped and self.effect is not None:
            mapped = self.effect in primitive.effects(params)
        assert self.parent is not None
        state.trace = self.parent
        try:
            if not mapped:
                return primitive.bind(*values, **params)
            out, at = primitive.batch_over(self.axis, values, axes, **params)
        finally:
            state.trace = self
        if primitive.multiple:
            return [self.wrap(x, a) for x, a in zip(out, at, strict=True)]
        return self.wrap(out, at)

    def wrap(self, value: Any, axis: int | None) -> Any:
        """Return a stack as a tracer; an unmapped value unchanged."""
        if axis is None:
            return value
        out = BatchTracer(self, value, axis)
        if self.made is not None:
            self.note_origin(out)
        return out

    def split(self, x: Any) -> tuple[Any, int | None]:
        """Return a value and the position of its mapped axis."""
        if type(x) is BatchTracer and x.owner.tag is self.tag:  # type: ignore[attr-defined]
            return x.value, x.axis
        if isinstance(x, Tracer):
            check_live(x)
        return x, None

    def describe(self) -> str:
        """Describe what is being traced, for messages."""
        return "under vmap"


def batch(
    fun: Callable[..., Sequence[Any]],
    axis: MappedAxis,
    args: Sequence[Any],
    in_axes: Sequence[int | None],
    tag: object = None,
) -> tuple[list[Any], list[int | None]]:
    """Return outputs of `fun(*args) -> list` over stacks, and the position of each mapped axis."""
    parent = state.trace
    trace = BatchTrace(parent, axis, tag)
    state.trace = trace
    try:
        tracers = [trace.wrap(x, a) for x, a in zip(args, in_axes, strict=True)]
        if axis.name is None:
            outs = fun(*tracers)
        else:
            with axis_bound(axis.name, axis.size):
                outs = fun(*tracers)
        pairs = [trace.split(x) for x in outs]
        del tracers, outs
    finally:
        state.trace = parent
        trace.live = False
    check_leaks(trace)
    return [x for x, _ in pairs], [a for _, a in pairs]


def batch_jaxpr(
    jaxpr: Jaxpr,
    axis: MappedAxis,
    in_axes: Sequence[int | None],
    force: Sequence[bool] | bool = False,
) -> tuple[Jaxpr, list[bool]]:
    """Return the jaxpr over stacks, and which outputs are stacks (mapped axis in front).

    `in_axes` gives the mapped axis of each input; `force` makes outputs stacks.
    """
    forced = [force] * len(jaxpr.outvars) if isinstance(force, bool) else list(force)
    key = ("batch", axis, tuple(in_axes), tuple(forced))
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo[key] = _batch_jaxpr(jaxpr, axis, in_axes, forced)
    return found


def _batch_jaxpr(
    jaxpr: Jaxpr, axis: MappedAxis, in_axes: Sequence[int | None], forced: Sequence[bool]
) -> tuple[Jaxpr, list[bool]]:
    stacked: list[bool] = []

    def over(*args: Any) -> list[Any]:
        outs, at = batch(lambda *xs: eval_jaxpr(jaxpr, (), *xs), axis, args, in_axes)
        stacked[:] = [f or a is not None for f, a in zip(forced, at, strict=True)]
        return [
            mapped_at(x, axis.size, a, 0) if s else x
            for x, a, s in zip(outs, at, stacked, strict=True)
        ]

    avals = [
        v.aval if a is None else axis.stack_of(v.aval, a)
        for v, a in zip(jaxpr.invars, in_axes, strict=True)
    ]
    result = stage_pure(over, avals, name=jaxpr.name, purpose="vmap")
    return result, list(stacked)
