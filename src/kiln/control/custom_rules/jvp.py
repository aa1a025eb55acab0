"""Functions with a user-defined forward derivative.

When differentiated, the rule runs in place of the function. A recorded function keeps its rule as a
Python function: it is traced when the program is differentiated. See `function.py`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from kiln.base import dtypes
from kiln.base.errors import UnexpectedTracerError, three_lines
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import tree_flatten, tree_map, tree_unflatten
from kiln.content.fingerprint import DESCRIPTION, Reading, readable
from kiln.control.custom_rules.function import (
    Body,
    CustomCall,
    CustomFunction,
    ForwardRule,
    Mapped,
    MappedFunction,
    check_constants,
    closed_over,
    detached,
    fit_results,
)
from kiln.control.regions.arguments import (
    FlatFunction,
    fitted,
    flatten_arrays,
    instantiated,
    nondiff_of,
    positional,
    rule_setter,
    split_static,
)
from kiln.core.absent import Zero, is_zero
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of, in_users_lines
from kiln.ops.elements.families import add
from kiln.transforms.batching import MappedAxis

Pair = tuple[list[Any], list[Any]]
"""Results and their tangents, leaf by leaf; a tangent may be Zero."""

P = ParamSpec("P")
R = TypeVar("R")


class Rule(ForwardRule):
    """A user rule as a function of leaves."""

    kind = "Custom JVP rule"

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Pair:
        """Return results and tangents.

        Raises: TypeError if the rule does not return a pair of equal structures.
        """
        if not self.symbolic_zeros:
            tangents = [instantiated(t) for t in tangents]
        with in_users_lines():
            result = self.fun(
                *[x for _, x in self.static],
                tree_unflatten(self.in_tree, primals),
                tree_unflatten(self.in_tree, tangents),
            )
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise self.error(
                "must produce a pair (list or tuple of length two) representing primal and "
                f"tangent outputs, but got {result!r}",
                "return (result, tangent)",
            )
        outs, tree = flatten_arrays("custom JVP rule", self.of, result[0])
        moved, moved_tree = tree_flatten(result[1])
        if tree != moved_tree:
            raise self.error(
                "must produce primal and tangent outputs with equal container (pytree) "
                f"structures, but got {tree} and {moved_tree} respectively",
                "return a tangent for each result",
            )
        if self.out_tree is not None and tree != self.out_tree:
            raise self.error(
                "must produce primal outputs with the container (pytree) structure of the "
                f"function's output, but got {tree} where the function has {self.out_tree}",
                "return as first element what the function itself returns",
            )
        self.box[:] = [tree]
        return outs, [self._tangent(x, t) for x, t in zip(outs, moved, strict=True)]

    def _tangent(self, out: Any, t: Any) -> Any:
        aval = aval_of(out).tangent()
        if type(t) is Zero or aval.dtype == dtypes.float0:
            return Zero(aval)
        moved = fitted(t, aval)
        if moved is None:
            raise self.error(
                "must produce primal and tangent outputs with corresponding shapes and dtypes. "
                f"Expected {aval} (tangent type of {aval_of(out)}) but got {aval_of(t)}",
                "return a tangent with the shape and dtype of its result",
            )
        return moved


class MappedRule(Mapped):
    """A rule over stacks."""

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Pair:
        """Return stacks of results and tangents."""
        count = len(primals)
        moving = [not is_zero(t) for t in tangents]
        still: list[bool] = []

        def flat(*xs: Any) -> list[Any]:
            inner, given = xs[:count], iter(xs[count:])
            moved = [
                next(given) if m else Zero(aval_of(x).tangent())
                for x, m in zip(inner, moving, strict=True)
            ]
            outs, out_tangents = self.inner(inner, moved)
            still[:] = map(is_zero, out_tangents)
            return [*outs, *[t for t in out_tangents if not is_zero(t)]]

        axes = [*self.in_axes, *[a for a, m in zip(self.in_axes, moving, strict=True) if m]]
        xs = [*primals, *[t for t in tangents if not is_zero(t)]]
        stacks = MappedFunction(flat, self.axis, tuple(axes), self.tag)(*xs)
        outs = stacks[: len(still)]
        given = iter(stacks[len(still) :])
        return outs, [
            Zero(aval_of(x).tangent()) if s else next(given)
            for x, s in zip(outs, still, strict=True)
        ]


class RuleWithState(Record):
    """A rule behind `count` leading operands, which are returned unchanged."""

    inner: Callable[[Sequence[Any], Sequence[Any]], Pair]
    count: int

    @property
    def __name__(self) -> str:
        return name_of(self.inner)

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Pair:
        """Return results and tangents; a state has no tangent."""
        given = primals[: self.count]
        outs, moved = self.inner(primals[self.count :], tangents[self.count :])
        return [*given, *outs], [*[Zero(aval_of(x).tangent()) for x in given], *moved]


class CustomJVPCall(CustomCall):
    """Run `call_jaxpr`; differentiate by the rule."""

    name = "custom_jvp_call"
    for_transformations = ("jvp_jaxpr_fun",)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        count = params["num_consts"]
        check_constants(params["name"], "custom_jvp", tangents[:count])
        outs, moved = params["jvp_jaxpr_fun"](primals[count:], tangents[count:])
        avals = params["call_jaxpr"].out_avals
        return fit_results(params["name"], "jvp", outs, avals), moved

    def mapped_rules(
        self, axis: MappedAxis, in_axes: tuple[int | None, ...], params: dict[str, Any]
    ) -> dict[str, Any]:
        return {"jvp_jaxpr_fun": MappedRule(params["jvp_jaxpr_fun"], axis, in_axes, None)}

    def rules_with_state(self, count: int, params: dict[str, Any]) -> dict[str, Any]:
        return {"jvp_jaxpr_fun": RuleWithState(params["jvp_jaxpr_fun"], count)}


class RuleBody(Body):
    """A function with its rule."""

    rule: Callable[[Sequence[Any], Sequence[Any]], Pair]

    construct = "custom_jvp"

    def mapped(self, axis: MappedAxis, in_axes: tuple[int | None, ...], tag: object) -> RuleBody:
        return dataclasses.replace(
            self,
            fun=MappedFunction(self.fun, axis, in_axes, tag),
            rule=MappedRule(self.rule, axis, in_axes, tag),
        )

    def recorded(self) -> tuple[Primitive, dict[str, Any]]:
        rule = self.rule
        if isinstance(rule, Rule):
            rule = dataclasses.replace(rule, out_tree=self.structure())
        return custom_jvp_call_p, {"jvp_jaxpr_fun": detached(rule)}


class CustomJVPFunction(CustomFunction):
    """A function with a forward rule; recorded as `custom_jvp_call`."""

    name = "custom_jvp_function"

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, body: RuleBody) -> Any:
        try:
            return body.rule(primals, tangents)
        except UnexpectedTracerError as error:
            raise closed_over(body.definition, "custom_jvp") from error


custom_jvp_call_p = CustomJVPCall()
custom_jvp_function_p = CustomJVPFunction()


class custom_jvp(Generic[P, R]):
    """A function with its own forward-mode derivative; `defjvp` sets the rule.

    Arguments in `nondiff_argnums`, or named in `nondiff_argnames`, are passed to the rule before
    primals and tangents, and may be any values.

    Example:
        >>> @kiln.custom_jvp
        ... def f(x):
        ...     return jnp.abs(x)
        >>> @f.defjvp
        ... def rule(primals, tangents):
        ...     return f(*primals), 7.0 * tangents[0]
        >>> float(kiln.grad(f)(-1.0))
        7.0
    """

    def __init__(
        self, fun: Callable[P, R], nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = nondiff_of(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule: `jvp(*nondiff, primals, tangents) -> (out, tangent_out)`.

        With `symbolic_zeros`, tangents known to be zero are `SymbolicZero`s.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule per argument: `jvp(tangent, out, *primals) -> tangent_out`, or None."""
        if self.nondiff_argnums:
            raise TypeError(
                three_lines(
                    f"defjvps of {name_of(self.fun)} at {current_source()}",
                    "Can't use defjvps with nondiff_argnums",
                    "use defjvp, with one rule for all arguments",
                )
            )

        called: Callable[..., Any] = self

        def jvp(primals: Any, tangents: Any) -> Any:
            out = called(*primals)
            total = None
            for rule, t in zip(jvps, tangents, strict=True):
                if rule is not None:
                    term = rule(t, out, *primals)
                    total = term if total is None else tree_map(add, total, term)
            if total is None:
                total = tree_map(lambda x: instantiated(Zero(aval_of(x).tangent())), out)
            return out, total

        self.defjvp(jvp)

    __getattr__ = rule_setter

    @api_boundary
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        if self.jvp is None:
            raise AttributeError(
                three_lines(
                    f"call of {definition_of(self.fun)} at {current_source()}",
                    f"No JVP defined for custom_jvp function {name_of(self.fun)} using defjvp.",
                    f"define one: @{name_of(self.fun)}.defjvp",
                )
            )
        static, dynamic = split_static(
            self.fun, positional(self.fun, args, kwargs), self.nondiff_argnums, "nondiff_argnums"
        )
        leaves, in_tree = flatten_arrays("arguments", self.fun, tuple(dynamic))
        flat = FlatFunction(self.fun, in_tree, static)
        rule = Rule(self.jvp, self.fun, in_tree, static, self.symbolic_zeros, flat.box)
        name = name_of(self.fun)
        structure, definition = lambda: flat.structure, definition_of(self.fun)
        body = RuleBody(name, flat, structure, definition, self.symbolic_zeros, rule)
        outs = custom_jvp_function_p.bind(*leaves, body=body)
        return tree_unflatten(flat.structure, outs)

    def __repr__(self) -> str:
        return f"<custom_jvp function {definition_of(self.fun)}>"


def _read(reading: Reading, f: custom_jvp[..., Any]) -> Hashable:
    return reading.again(f) or ("custom_jvp", reading.read_attributes(f, DESCRIPTION))


readable(custom_jvp, _read)
