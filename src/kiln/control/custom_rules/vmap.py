"""`custom_vmap`: a function with a user-defined rule for stacks of its arguments.

A call records the function, with the rule, as one equation. Under `vmap` the rule runs in place of
the function. When differentiated, the equation becomes two: the function, and its tangents, whose
rule is the derivative of the user's rule.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source, definition_of, name_of
from kiln.base.tree import (
    PyTreeDef,
    broadcast_prefix,
    tree_unflatten,
)
from kiln.control.regions.arguments import FlatFunction, flatten_arrays, positional, rule_setter
from kiln.control.regions.region import (
    Extend,
    Region,
    after_state,
    avals_of,
    fill_zeros,
    memoized,
    merge,
    pull_back,
    select_by,
)
from kiln.core.absent import is_linear, is_zero
from kiln.core.meaning import meaning
from kiln.core.staging import eval_jaxpr, stage_region
from kiln.core.trace import aval_of, in_users_lines
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.ops.shape import filled, mapped_at, move_axis
from kiln.transforms.batching import MappedAxis
from kiln.transforms.jvp import jvp, jvp_jaxpr

Stacks = tuple[list[Any], list[bool]]
"""Results, leaf by leaf, and which of them are stacks along axis 0."""


@dataclasses.dataclass(frozen=True)
class VmapRule:
    """The user's rule, as a function of leaves."""

    fun: Callable[..., Any]
    of: Callable[..., Any]
    in_tree: PyTreeDef
    out_tree: PyTreeDef

    @property
    def __name__(self) -> str:
        return name_of(self.fun)

    def __call__(self, size: Any, stacked: Sequence[bool], xs: Sequence[Any]) -> Stacks:
        """Return results for stacks of `size`.

        Raises: ValueError unless the rule returns a pair with the structure of the function.
        """
        with in_users_lines():
            found = self.fun(
                size,
                list(tree_unflatten(self.in_tree, stacked)),
                *tree_unflatten(self.in_tree, xs),
            )
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise self._error(
                f"returned {found!r:.60}, not a pair", "return (result, whether it is a stack)"
            )
        outs, tree = flatten_arrays("custom_vmap rule", self.fun, found[0])
        if tree != self.out_tree:
            raise self._error(
                f"structure of output value and structure of the function's differ: {tree} vs "
                f"{self.out_tree}",
                "return as first element what the function returns",
            )
        flags = broadcast_prefix(found[1], tree_unflatten(tree, outs))
        return outs, list(map(bool, flags))

    def _error(self, wrong: str, remedy: str) -> ValueError:
        asked = f"vmap of {definition_of(self.of)} at {current_source()}"
        return ValueError(three_lines(asked, f"the rule {name_of(self.fun)} {wrong}", remedy))


@dataclasses.dataclass(frozen=True)
class TangentRule:
    """The derivative of a rule: takes operands, then the tangents of those that move."""

    inner: Callable[[Any, Sequence[bool], Sequence[Any]], Stacks]
    moving: tuple[bool, ...]
    kept: tuple[bool, ...]

    @property
    def __name__(self) -> str:
        return name_of(self.inner)

    def __call__(self, size: Any, stacked: Sequence[bool], xs: Sequence[Any]) -> Stacks:
        """Return the tangents of results for stacks of `size`."""
        count = len(self.moving)
        also = merge(self.moving, stacked[count:], [False] * self.moving.count(False))
        either = [a or b for a, b in zip(stacked[:count], also, strict=True)]
        primals = [_stack(x, s, e, size) for x, s, e in zip(xs, stacked, either, strict=False)]
        given = zip(xs[count:], stacked[count:], select_by(self.moving, either), strict=True)
        tangents = fill_zeros(
            self.moving,
            [_stack(t, s, e, size) for t, s, e in given],
            [aval_of(x).tangent() for x in primals],
        )
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            outs, found = self.inner(size, either, args)
            flags[:] = found
            return outs

        _, moved = jvp(run, primals, tangents)
        return [filled(t) for t in select_by(self.kept, moved)], select_by(self.kept, flags)


@dataclasses.dataclass(frozen=True)
class RuleWithState:
    """A rule behind the leading operands of a state, which are returned unchanged."""

    inner: Callable[[Any, Sequence[bool], Sequence[Any]], Stacks]
    count: int

    @property
    def __name__(self) -> str:
        return name_of(self.inner)

    def __call__(self, size: Any, stacked: Sequence[bool], xs: Sequence[Any]) -> Stacks:
        """Return the state, and the results for stacks of `size`."""
        n = self.count
        outs, flags = self.inner(size, stacked[n:], xs[n:])
        return [*xs[:n], *outs], [*stacked[:n], *flags]


def _stack(x: Any, is_stack: bool, wanted: bool, size: Any) -> Any:
    return mapped_at(x, size, None, 0) if wanted and not is_stack else x


class CustomVmapCall(Region):
    """Run `call`; for stacks, run the rule. `num_consts` operands are closed over."""

    name = "custom_vmap_call"

    def infer(self, *xs: Any, call: Jaxpr, **_: Any) -> list[ShapedArray]:
        return call.out_avals

    def numpy(self, *xs: Any, call: Jaxpr, **_: Any) -> Any:
        return meaning(call, xs)

    def evaluate(self, *xs: Any, call: Jaxpr, **_: Any) -> Any:
        return eval_jaxpr(call, (), *xs)

    def expand(self, *xs: Any, call: Jaxpr, **_: Any) -> Any:
        return eval_jaxpr(call, (), *xs)

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        call: Jaxpr,
        num_consts: int,
        rule: Callable[..., Stacks],
    ) -> Any:
        outs = self.bind(*primals, call=call, num_consts=num_consts, rule=rule)
        moving = tuple(not is_zero(t) for t in tangents)
        both, there = jvp_jaxpr(call, moving)
        count = len(call.outvars)
        wanted = [False] * count + [True] * there.count(True)
        only = memoized(both, "tangents", lambda: eliminate_dead_code(both, wanted)[0])
        operands = [*primals, *select_by(moving, tangents)]
        if any(moving[:num_consts]):
            # The rule does not take closed-over values, so it does not take their tangents either.
            moved = eval_jaxpr(only, (), *operands)
        else:
            derivative = TangentRule(rule, moving[num_consts:], tuple(there))
            moved = self.bind(*operands, call=only, num_consts=num_consts, rule=derivative)
        return outs, fill_zeros(there, moved, [a.tangent() for a in call.out_avals])

    def transpose(self, cts: Sequence[Any], *xs: Any, call: Jaxpr, **_: Any) -> Any:
        linear = [is_linear(x) for x in xs]
        moving = [not is_zero(ct) for ct in cts]
        back, there = pull_back(call, linear, moving)
        outs = eval_jaxpr(back, (), *select_by(linear, xs, False), *select_by(moving, cts))
        pulled = fill_zeros(there, outs, avals_of(select_by(linear, xs)))
        return merge(linear, pulled, [None] * linear.count(False))

    def batch_over(
        self,
        axis: MappedAxis,
        xs: Sequence[Any],
        axes: Sequence[Any],
        *,
        call: Jaxpr,
        num_consts: int,
        rule: Callable[..., Stacks],
    ) -> Any:
        if any(a is not None for a in axes[:num_consts]):
            raise ValueError(
                three_lines(
                    f"vmap of the custom_vmap function {call.name} at {current_source()}",
                    "the function closes over a mapped value, of which its rule knows nothing",
                    "pass the value to the function as an argument",
                )
            )
        args = [
            x if a is None else move_axis(x, a, 0)
            for x, a in zip(xs[num_consts:], axes[num_consts:], strict=True)
        ]
        outs, stacked = rule(axis.size, [a is not None for a in axes[num_consts:]], args)
        for x, s, aval in zip(outs, stacked, call.out_avals, strict=True):
            wanted = aval.with_axis(0, axis.size) if s else aval
            if not aval_of(x).same_type(wanted):
                raise ValueError(
                    three_lines(
                        f"vmap of the custom_vmap function {call.name} at {current_source()}",
                        f"the rule {name_of(rule)} returned {aval_of(x)} where the function's "
                        f"result is {aval}, for {'stacks' if s else 'no stacks'} of {axis.size}",
                        f"return an array {wanted}",
                    )
                )
        return outs, [0 if s else None for s in stacked]

    def thread_state(
        self,
        extend: Extend,
        state: Sequence[Any],
        xs: Sequence[Any],
        *,
        call: Jaxpr,
        num_consts: int,
        rule: Callable[..., Stacks],
    ) -> Any:
        """Run the extended function; the rule leaves the state as it is."""
        return self.bind(
            *(*xs[:num_consts], *state, *xs[num_consts:]),
            call=after_state(extend(call), len(state), num_consts),
            num_consts=num_consts,
            rule=RuleWithState(rule, len(state)),
        )


custom_vmap_p = CustomVmapCall()


class custom_vmap:
    """A function with its own behavior under `vmap`; `def_vmap` sets the rule.

    Example:
        >>> @kiln.custom_batching.custom_vmap
        ... def double(x):
        ...     return 2 * x
        >>> @double.def_vmap
        ... def rule(axis_size, in_batched, x):
        ...     return 2 * x + 100, in_batched[0]
        >>> kiln.vmap(double)(jnp.arange(3))
        Array([100, 102, 104], dtype=int32)
    """

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule: `rule(axis_size, in_batched, *args) -> (result, out_batched)`.

        The flags say which arguments and results are stacks, along axis 0.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    __getattr__ = rule_setter

    @api_boundary
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.vmap_rule is None:
            raise AttributeError(
                three_lines(
                    f"call of {definition_of(self.fun)} at {current_source()}",
                    f"No batching rule defined for custom_vmap function {name_of(self.fun)} using "
                    "def_vmap.",
                    f"define one: @{name_of(self.fun)}.def_vmap",
                )
            )
        given = tuple(positional(self.fun, args, kwargs))
        leaves, in_tree = flatten_arrays("arguments", self.fun, given)
        flat = FlatFunction(self.fun, in_tree, ())
        jaxpr, consts = stage_region(
            flat,
            avals_of(leaves),
            name=name_of(self.fun),
            definition=definition_of(self.fun),
            purpose="custom_vmap",
        )
        rule = VmapRule(self.vmap_rule, self.fun, in_tree, flat.structure)
        outs = custom_vmap_p.bind(*consts, *leaves, call=jaxpr, num_consts=len(consts), rule=rule)
        return tree_unflatten(flat.structure, outs)

    def __repr__(self) -> str:
        return f"<custom_vmap function {definition_of(self.fun)}>"
