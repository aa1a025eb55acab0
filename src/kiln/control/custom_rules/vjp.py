"""Functions with a user-defined reverse derivative.

When differentiated, the forward rule runs in place of the function, and `custom_lin` represents its
tangents: an equation that can only be transposed, which runs the backward rule.
`function.py` binds, maps and records the function.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from kiln.base.errors import UnexpectedTracerError, three_lines
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import (
    tree_flatten,
    tree_unflatten,
)
from kiln.content.fingerprint import DESCRIPTION, Reading, readable
from kiln.control.custom_rules.function import (
    Body,
    CustomCall,
    CustomFunction,
    MappedFunction,
    check_constants,
    closed_over,
    detached,
    fit_results,
)
from kiln.control.custom_rules.vjp_rules import (
    Backward,
    BackwardWithState,
    Forward,
    ForwardWithState,
    MappedBackward,
    MappedForward,
    MappedPullBack,
    PullBack,
)
from kiln.control.regions.arguments import (
    FlatFunction,
    Static,
    flatten_arrays,
    nondiff_of,
    positional,
    rule_setter,
    split_static,
)
from kiln.control.regions.held_refs import check_apart, held
from kiln.control.regions.region import select_by
from kiln.core.absent import Zero, is_zero
from kiln.core.primitive import Primitive
from kiln.core.trace import Tracer, aval_of, state
from kiln.ir.effects import HELD, Effects
from kiln.ir.types import ShapedArray
from kiln.ops.shape import filled, mapped_at, zeros_of
from kiln.transforms.batching import MappedAxis
from kiln.transforms.partial_eval import PartialEvalTrace

FORWARD_ONLY = "can't apply forward-mode autodiff (jvp) to a custom_vjp function."

P = ParamSpec("P")
R = TypeVar("R")


class CustomLin(Primitive):
    """The tangents of a function with a backward rule: residuals and tangents -> tangents.

    Only its transpose is known.
    """

    name = "custom_lin"
    multiple = True
    infers_shardings = True
    pulls_zeros = True

    def bind(self, *args: Any, **params: Any) -> Any:
        trace = state.trace
        if not isinstance(trace, PartialEvalTrace):
            return trace.process(self, args, params)
        # Recorded even if all operands are known: using a tangent forwards is an error, which is
        # detected when the program runs.
        atoms = [trace.atom(x) for x in args]
        return trace.record(self, atoms, self.infer(**params), params)

    def infer(self, *xs: Any, num_res: int, bwd: Any) -> list[ShapedArray]:
        return select_by(bwd.moving_out, bwd.out_avals)

    def evaluate(self, *xs: Any, num_res: int, bwd: Any) -> Any:
        if not all(map(_is_nothing, xs[num_res:])):
            raise forward_mode(bwd)
        return [zeros_of(aval) for aval in self.infer(num_res=num_res, bwd=bwd)]

    def numpy(self, *xs: Any, num_res: int, bwd: Any) -> Any:
        if any(np.any(t) for t in xs[num_res:]):
            raise forward_mode(bwd)
        return [np.zeros(a.shape, a.dtype) for a in self.infer(num_res=num_res, bwd=bwd)]

    def jvp(self, primals: Any, tangents: Any, *, num_res: int, bwd: Any) -> Any:
        if not all(map(is_zero, tangents[:num_res])):
            raise forward_mode(bwd)
        residuals = primals[:num_res]
        moved = [*residuals, *map(filled, tangents[num_res:])]
        outs = self.bind(*primals, num_res=num_res, bwd=bwd)
        return outs, self.bind(*moved, num_res=num_res, bwd=bwd)

    def transpose(self, cts: Sequence[Any], *xs: Any, num_res: int, bwd: Any) -> Any:
        return [*[None] * num_res, *bwd(xs[:num_res], cts)]

    def batch_over(
        self, axis: MappedAxis, xs: Sequence[Any], axes: Sequence[Any], *, num_res: int, bwd: Any
    ) -> Any:
        tangents = [
            mapped_at(t, axis.size, at, 0)
            for t, at in zip(xs[num_res:], axes[num_res:], strict=True)
        ]
        mapped = MappedPullBack(bwd, axis, tuple(axes[:num_res]))
        outs = self.bind(*xs[:num_res], *tangents, num_res=num_res, bwd=mapped)
        return outs, [0] * len(outs)


class CustomVJPCall(CustomCall):
    """Run `call_jaxpr`; differentiate by the pair of rules."""

    name = "custom_vjp_call"
    for_transformations = ("fwd_jaxpr_thunk", "bwd")

    def effects(self, params: dict[str, Any]) -> Effects:
        found = super().effects(params)
        return found | {HELD} if params.get("holds") else found

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        count = params["num_consts"]
        check_constants(params["name"], "custom_vjp", tangents[:count])
        outs, moved = linearized(
            params["fwd_jaxpr_thunk"], params["bwd"], primals[count:], tangents[count:]
        )
        return fit_results(params["name"], "fwd", outs, params["call_jaxpr"].out_avals), moved

    def mapped_rules(
        self, axis: MappedAxis, in_axes: tuple[int | None, ...], params: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "fwd_jaxpr_thunk": MappedForward(params["fwd_jaxpr_thunk"], axis, in_axes, None),
            "bwd": MappedBackward(params["bwd"], axis, in_axes, None),
        }

    def rules_with_state(self, count: int, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "fwd_jaxpr_thunk": ForwardWithState(params["fwd_jaxpr_thunk"], count),
            "bwd": BackwardWithState(params["bwd"], count),
        }


class RulesBody(Body):
    """A function with its pair of rules."""

    fwd: Callable[..., Any]
    bwd: Callable[..., Any]
    holds: bool
    """Whether references, or other mutable values, are among the arguments."""

    construct = "custom_vjp"

    def mapped(self, axis: MappedAxis, in_axes: tuple[int | None, ...], tag: object) -> RulesBody:
        return dataclasses.replace(
            self,
            fun=MappedFunction(self.fun, axis, in_axes, tag),
            fwd=MappedForward(self.fwd, axis, in_axes, tag),
            bwd=MappedBackward(self.bwd, axis, in_axes, tag),
        )

    def recorded(self) -> tuple[Primitive, dict[str, Any]]:
        fwd = self.fwd
        if isinstance(fwd, Forward):
            fwd = dataclasses.replace(fwd, out_tree=self.structure())
        rules = {"fwd_jaxpr_thunk": detached(fwd), "bwd": detached(self.bwd)}
        return custom_vjp_call_p, {**rules, "holds": True} if self.holds else rules


class CustomVJPFunction(CustomFunction):
    """A function with a pair of rules; recorded as `custom_vjp_call`."""

    name = "custom_vjp_function"

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, body: RulesBody) -> Any:
        try:
            return linearized(body.fwd, body.bwd, primals, tangents)
        except UnexpectedTracerError as error:
            raise closed_over(body.definition, "custom_vjp") from error


custom_lin_p = CustomLin()
custom_vjp_call_p = CustomVJPCall()
custom_vjp_function_p = CustomVJPFunction()


def linearized(
    fwd: Callable[..., Any],
    bwd: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
) -> tuple[list[Any], list[Any]]:
    """Run the forward rule; return results, and tangents that can only be pulled back."""
    moving = tuple(not is_zero(t) for t in tangents)
    outs, residuals, info = fwd(primals, moving)
    in_avals = tuple(aval_of(x) for x in primals)
    pull = PullBack(bwd, info, in_avals, moving, tuple(aval_of(x) for x in outs))
    moved = iter(
        custom_lin_p.bind(
            *residuals, *select_by(moving, tangents), num_res=len(residuals), bwd=pull
        )
    )
    return outs, [
        next(moved) if m else Zero(aval_of(x).tangent())
        for m, x in zip(pull.moving_out, outs, strict=True)
    ]


def forward_mode(bwd: Any) -> TypeError:
    """Build the error for forward-mode differentiation of a function with a backward rule."""
    return TypeError(
        three_lines(
            f"forward derivative of a function with the bwd rule {name_of(bwd)}",
            FORWARD_ONLY,
            "use reverse mode (grad, vjp, jacrev), or define the function with custom_jvp",
        )
    )


def _is_nothing(t: Any) -> bool:
    return not isinstance(t, Tracer) and not np.any(np.asarray(t))


class custom_vjp(Generic[P, R]):
    """A function with its own reverse-mode derivative; `defvjp` sets the rules.

    Arguments in `nondiff_argnums`, or named in `nondiff_argnames`, may be any values: the forward
    rule takes them at their positions, the backward rule before residuals and cotangent.

    Example:
        >>> @kiln.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1, 1),))
        >>> float(kiln.grad(lambda x: 5 * clipped(x))(2.0))
        1.0
        >>> clipped(2.0)
        2.0
    """

    def __init__(
        self, fun: Callable[P, R], nondiff_argnums: Any = (), nondiff_argnames: Any = ()
    ) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.nondiff_argnums = nondiff_of(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules: `fwd(*args) -> (out, residuals)`, `bwd(residuals, ct) -> cts`.

        With `symbolic_zeros`, the leaves of `args` are `CustomVJPPrimal`s, a value and whether it
        has a tangent, and cotangents known to be zero are `SymbolicZero`s.
        """
        self.symbolic_zeros = symbolic_zeros
        self.fwd, self.bwd = fwd, bwd

    __getattr__ = rule_setter

    @api_boundary
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                three_lines(
                    f"call of {definition_of(self.fun)} at {current_source()}",
                    f"No VJP defined for custom_vjp function {name_of(self.fun)} using defvjp.",
                    f"define one: {name_of(self.fun)}.defvjp(fwd, bwd)",
                )
            )
        static, dynamic = split_static(
            self.fun, positional(self.fun, args, kwargs), self.nondiff_argnums, "nondiff_argnums"
        )
        self._check_static(static)
        kept = held(given := tuple(dynamic))
        if kept is not given:
            check_apart(f"custom_vjp of {name_of(self.fun)}", self.fun, args)
        leaves, in_tree = flatten_arrays("arguments", self.fun, kept)
        flat = FlatFunction(self.fun, in_tree, static)
        zeros = self.symbolic_zeros
        fwd = Forward(self.fwd, self.fun, in_tree, static, zeros, flat.box)
        bwd = Backward(self.bwd, self.fun, in_tree, static, zeros)
        name = name_of(self.fun)
        body = RulesBody(
            *(name, flat, lambda: flat.structure, definition_of(self.fun), zeros, fwd, bwd),
            kept is not given,
        )
        outs = custom_vjp_function_p.bind(*leaves, body=body)
        return tree_unflatten(flat.structure, outs)

    def _check_static(self, static: Static) -> None:
        for i, value in static:
            if any(isinstance(x, Tracer) for x in tree_flatten(value)[0]):
                raise UnexpectedTracerError(
                    three_lines(
                        f"call of {definition_of(self.fun)} at {current_source()}",
                        f"Found a traced value in argument {i} of a custom_vjp function, which is "
                        "in nondiff_argnums",
                        "take the argument out of nondiff_argnums and return None for it in bwd",
                    )
                )

    def __repr__(self) -> str:
        return f"<custom_vjp function {definition_of(self.fun)}>"


def _read(reading: Reading, f: custom_vjp[..., Any]) -> Hashable:
    return reading.again(f) or ("custom_vjp", reading.read_attributes(f, DESCRIPTION))


readable(custom_vjp, _read)
