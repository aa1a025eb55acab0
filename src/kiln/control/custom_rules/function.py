"""Functions with custom derivatives, forward or reverse: binding, recording, mapping.

A call binds the function itself with its rules, so that its Python control flow sees concrete
values where they exist. Under `vmap`, function and rules are mapped. While a program is recorded,
the function becomes an equation that holds the rules as Python functions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from kiln.base.errors import UnexpectedTracerError, three_lines
from kiln.base.records import Record
from kiln.base.source import current_source, definition_of, name_of
from kiln.base.tree import PyTreeDef
from kiln.control.regions.arguments import Static, fitted
from kiln.control.regions.region import Extend, Region, after_state, merge
from kiln.core.absent import is_linear, is_zero
from kiln.core.meaning import meaning
from kiln.core.primitive import Primitive
from kiln.core.staging import eval_jaxpr, stage_region
from kiln.core.trace import aval_of, state
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.own_effects import check_allowed, custom_derivatives_allowed_effects
from kiln.ir.types import ShapedArray
from kiln.ops.shape import mapped_at
from kiln.transforms.batching import BatchTrace, MappedAxis, batch, batch_jaxpr
from kiln.transforms.reverse import backward


class UserRule(Record):
    """A user-written rule `of` a function, as a function of leaves."""

    fun: Callable[..., Any]
    of: Callable[..., Any]
    in_tree: PyTreeDef
    static: Static
    symbolic_zeros: bool

    kind: ClassVar[str]

    @property
    def __name__(self) -> str:
        return name_of(self.fun)

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.kind} {name_of(self.fun)}"


class ForwardRule(UserRule):
    """A rule that also returns the function's results; `box` receives their structure."""

    box: list[PyTreeDef] = dataclasses.field(compare=False, repr=False)
    out_tree: PyTreeDef | None = None
    """The structure of the function's result, if the function has run before."""

    def error(self, wrong: str, remedy: str) -> TypeError:
        """Return the error for a rule that is `wrong`."""
        return TypeError(
            three_lines(
                f"derivative of {definition_of(self.of)}",
                f"{self.title} for function {name_of(self.of)} {wrong}.",
                remedy,
            )
        )


class Mapped(Record):
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
        """Return a copy without the tag, for a program that outlives its traces."""
        return dataclasses.replace(self, inner=detached(self.inner), tag=None)


def detached(rule: Any) -> Any:
    """Return a rule in the form stored in programs: recorded again, the program is equal."""
    return rule.detached() if isinstance(rule, Mapped) else rule


class MappedFunction(Mapped):
    """A function of leaves over stacks; all results are stacks along axis 0."""

    def __call__(self, *xs: Any) -> list[Any]:
        """Return the stacks."""
        outs, at = batch(self.inner, self.axis, xs, self.in_axes, self.tag)
        return [mapped_at(x, self.axis.size, a, 0) for x, a in zip(outs, at, strict=True)]


class Body(Record):
    """The value that is bound: a function of leaves; subclasses add their rules."""

    name: str
    fun: Callable[..., list[Any]]
    structure: Callable[[], PyTreeDef]
    definition: str
    symbolic_zeros: bool

    construct: ClassVar[str]

    def mapped(self, axis: MappedAxis, in_axes: tuple[int | None, ...], tag: object) -> Self:
        """Return the body over stacks."""
        raise NotImplementedError

    def recorded(self) -> tuple[Primitive, dict[str, Any]]:
        """Return the primitive that represents the body in programs, and its rules."""
        raise NotImplementedError


class CustomFunction(Primitive):
    """A function with its rules, as Python functions. Subclasses differ only in `jvp`."""

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
        check_allowed(body.construct, jaxpr.effects, custom_derivatives_allowed_effects)
        primitive, rules = body.recorded()
        recorded = {
            "name": body.name,
            "call_jaxpr": jaxpr,
            "num_consts": len(consts),
            "symbolic_zeros": body.symbolic_zeros,
            **rules,
        }
        atoms = [trace.atom(x) for x in [*consts, *args]]
        return trace.record(primitive, atoms, jaxpr.out_avals, recorded)


class Called(Record):
    """The recorded function, as called by interpreters of programs that do not know its rules."""

    jaxpr: Jaxpr

    def call_wrapped(self, *xs: Any) -> list[Any]:
        """Run the function."""
        return eval_jaxpr(self.jaxpr, (), *xs)


class CustomCall(Region):
    """Run `call_jaxpr`, differentiate by rules. `num_consts` operands are closed over."""

    def bind(self, *args: Any, subfuns: Sequence[Called] = (), **params: Any) -> Any:
        return super().bind(*args, **params)

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**params, "subfuns": (Called(params["call_jaxpr"]),)}

    def infer(self, *xs: Any, call_jaxpr: Jaxpr, **_: Any) -> list[ShapedArray]:
        return call_jaxpr.out_avals

    def numpy(self, *xs: Any, call_jaxpr: Jaxpr, **_: Any) -> Any:
        return meaning(call_jaxpr, xs)

    def evaluate(self, *xs: Any, call_jaxpr: Jaxpr, **_: Any) -> Any:
        return eval_jaxpr(call_jaxpr, (), *xs)

    def mapped_rules(
        self, axis: MappedAxis, in_axes: tuple[int | None, ...], params: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the parameters that hold rules, over stacks."""
        raise NotImplementedError

    def rules_with_state(self, count: int, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters that hold rules, adapted to skip leading operands of a state."""
        raise NotImplementedError

    def programs(self, xs: Sequence[Any], *, call_jaxpr: Jaxpr, **_: Any) -> Any:
        return [(call_jaxpr, xs)]

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        return key_uses.run(eqn.params["call_jaxpr"], operands)

    def thread_state(
        self, extend: Extend, state: Sequence[Any], xs: Sequence[Any], **params: Any
    ) -> Any:
        """Run the extended function; the rules leave the state as it is."""
        consts, count = params["num_consts"], len(state)
        jaxpr = after_state(extend(params["call_jaxpr"]), count, consts)
        changed = {"call_jaxpr": jaxpr, **self.rules_with_state(count, params)}
        return self.bind(*xs[:consts], *state, *xs[consts:], **{**params, **changed})

    def batch_over(
        self, axis: MappedAxis, xs: Sequence[Any], axes: Sequence[Any], **params: Any
    ) -> Any:
        jaxpr, _ = batch_jaxpr(params["call_jaxpr"], axis, axes, force=True)
        rules = self.mapped_rules(axis, tuple(axes[params["num_consts"] :]), params)
        outs = self.bind(*xs, **{**params, "call_jaxpr": jaxpr, **rules})
        return outs, [0] * len(outs)

    def transpose(self, cts: Sequence[Any], *xs: Any, call_jaxpr: Jaxpr, **_: Any) -> Any:
        # Inside a linear program, where the rules have already been applied.
        linear = [is_linear(x) for x in xs]
        return merge(linear, backward(call_jaxpr, (), xs, cts), [None] * linear.count(False))


def closed_over(name: str, kind: str) -> UnexpectedTracerError:
    """Build the error for differentiating with respect to a closed-over value."""
    return UnexpectedTracerError(
        three_lines(
            f"derivative of {name} at {current_source()}",
            f"Detected differentiation of a {kind} function with respect to a closed-over value: "
            "the custom rule only speaks of the explicit arguments",
            "pass the closed-over value to the function as an argument, and adapt its rules",
        )
    )


def check_constants(name: str, kind: str, tangents: Sequence[Any]) -> None:
    """Raise UnexpectedTracerError if a closed-over value has a tangent."""
    if not all(map(is_zero, tangents)):
        raise closed_over(name, kind)


def fit_results(
    name: str, rule: str, outs: Sequence[Any], avals: Sequence[ShapedArray]
) -> list[Any]:
    """Check a rule's results against those of the function.

    Raises: TypeError if shapes or dtypes differ.
    """
    found = [fitted(x, a) for x, a in zip(outs, avals, strict=True)]
    for x, y, aval in zip(outs, found, avals, strict=True):
        if y is None:
            raise TypeError(
                three_lines(
                    f"derivative of {name} at {current_source()}",
                    f"the {rule} rule produced an output of type {aval_of(x)} where the function "
                    f"itself has one of type {aval}",
                    "return from the rule what the function itself returns",
                )
            )
    return found
