"""Functions with derivatives of their own, forward or reverse: binding, recording, mapping.

A call binds the function itself with its rules, so that its Python control flow sees values
wherever there are some. Mapped, function and rules are mapped. Where a program is recorded, the
function becomes an equation that keeps the rules as Python functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from kiln.base.source import name_of
from kiln.base.tree import PyTreeDef
from kiln.core.primitive import Primitive
from kiln.core.staging import stage_region
from kiln.core.trace import aval_of, state
from kiln.ir.types import ShapedArray
from kiln.ops.shape import mapped_at
from kiln.transforms.batching import BatchTrace, MappedAxis, batch


@dataclasses.dataclass(frozen=True)
class Mapped:
    """A function or rule `inner`, over stacks.

    While `inner` may close over values mapped by the trace with `tag`, it runs under that tag.
    """

    inner: Callable[..., Any]
    axis: MappedAxis
    in_axes: tuple[int | None, ...]
    tag: object

    @property
    def __name__(self) -> str:
        return name_of(self.inner)

    def detached(self) -> Self:
        """Return this without the tag, for a program that outlives its traces."""
        return dataclasses.replace(self, inner=detached(self.inner), tag=None)


def detached(rule: Any) -> Any:
    """Return a rule as a recorded program holds it: recorded again, the program is equal."""
    return rule.detached() if isinstance(rule, Mapped) else rule


class MappedFunction(Mapped):
    """A function of leaves over stacks; all results are stacks along axis 0."""

    def __call__(self, *xs: Any) -> list[Any]:
        """Return the stacks."""
        outs, at = batch(self.inner, self.axis, xs, self.in_axes, self.tag)
        return [mapped_at(x, self.axis.size, a, 0) for x, a in zip(outs, at, strict=True)]


@dataclasses.dataclass(frozen=True)
class Body:
    """What is bound: a function of leaves; kinds of bodies add their rules."""

    name: str
    fun: Callable[..., list[Any]]
    structure: Callable[[], PyTreeDef]
    definition: str

    construct: ClassVar[str]

    def mapped(self, axis: MappedAxis, in_axes: tuple[int | None, ...], tag: object) -> Self:
        """Return the body over stacks."""
        raise NotImplementedError

    def recorded(self) -> tuple[Primitive, dict[str, Any]]:
        """Return the primitive that stands for the body in programs, and its rules."""
        raise NotImplementedError


class CustomFunction(Primitive):
    """A function with its rules, as they are. `jvp` is the only thing its kinds differ in."""

    multiple = True
    region = True

    def bind(self, *args: Any, body: Body) -> Any:
        trace = state.trace
        if not isinstance(trace, BatchTrace):
            return trace.process(self, args, {"body": body})
        # Mapped under this very trace: the function may close over its tracers.
        pairs = [trace.split(x) for x in args]
        mapped = body.mapped(trace.axis, tuple(a for _, a in pairs), trace.tag)
        assert trace.parent is not None
        state.trace = trace.parent
        try:
            outs = self.bind(*[x for x, _ in pairs], body=mapped)
        finally:
            state.trace = trace
        return [trace.wrap(x, 0) for x in outs]

    def infer(self, *xs: Any, body: Body) -> list[ShapedArray]:
        return stage_region(body.fun, xs)[0].out_avals

    def numpy(self, *xs: Any, body: Body) -> Any:
        return body.fun(*xs)

    def evaluate(self, *xs: Any, body: Body) -> Any:
        return body.fun(*xs)

    def stage(self, trace: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        body: Body = params["body"]
        jaxpr, consts = stage_region(
            body.fun,
            [aval_of(x) for x in args],
            name=body.name,
            definition=body.definition,
            purpose=body.construct,
        )
        primitive, rules = body.recorded()
        recorded = {
            "name": body.name,
            "call_jaxpr": jaxpr,
            "num_consts": len(consts),
            "symbolic_zeros": False,
            **rules,
        }
        atoms = [trace.atom(x) for x in [*consts, *args]]
        return trace.record(primitive, atoms, jaxpr.out_avals, recorded)
