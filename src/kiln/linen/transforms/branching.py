"""Lifted control flow: running one of several functions of a module, or one repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.control.branches import cond as plain_cond
from kiln.control.branches import switch as plain_switch
from kiln.control.loops.loops import while_loop as plain_while_loop
from kiln.linen.module import Module
from kiln.linen.scopes.filters import Filter, in_filter, subtract_filters
from kiln.linen.transforms.axes import run_method
from kiln.linen.transforms.lift import Group, Lift, LiftedKeys, Roots, Target
from kiln.linen.transforms.lifted import required_module
from kiln.random.keys import fold_in

Function = Callable[..., Any]


def cond(
    pred: Any,
    true_fun: Function,
    false_fun: Function,
    mdl: Module,
    *operands: Any,
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Run `true_fun(mdl, *operands)` if `pred` holds, `false_fun` otherwise.

    Both must return the same types and write the same variables.

    Source: the documentation of `flax.linen.cond`.
    Example:
        >>> class Gate(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x, is_on):
        ...         return linen.cond(is_on, lambda m, x: 2 * x, lambda m, x: x, self, x)
        >>> Gate().apply({}, jnp.ones(2), True)
        Array([2., 2.], dtype=float32)
    """

    def choose(yes: Function, no: Function, *values: Any) -> Any:
        return plain_cond(pred, yes, no, *values)

    return _branched(choose, (true_fun, false_fun), mdl, operands, variables, rngs)


def switch(
    index: Any,
    branches: Sequence[Function],
    mdl: Module,
    *operands: Any,
    variables: Filter = True,
    rngs: Filter = True,
) -> Any:
    """Run `branches[index](mdl, *operands)`, with the index clamped into range.

    All branches must return the same types and write the same variables.

    Source: the documentation of `flax.linen.switch`.
    Example:
        >>> class Chosen(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x, index):
        ...         return linen.switch(index, [lambda m, x: -x, lambda m, x: 2 * x], self, x)
        >>> Chosen().apply({}, jnp.ones(2), 1)
        Array([2., 2.], dtype=float32)
    """

    def choose(*values: Any) -> Any:
        count = len(branches)
        return plain_switch(index, values[:count], *values[count:])

    return _branched(choose, branches, mdl, operands, variables, rngs)


def _branched(
    choose: Function,
    branches: Sequence[Function],
    mdl: Module,
    operands: tuple[Any, ...],
    variables: Filter,
    rngs: Filter,
) -> Any:
    lift = Lift(required_module(mdl), (operands, {}))

    def branch(fun: Function) -> Function:
        target = Target(fun)

        def pure(group: Group, roots: Roots, values: Any) -> Any:
            application = lift.application(group, LiftedKeys(roots, lift), variables)
            result = lift.run(target, application, values, run_method)
            return result, lift.written(application)

        return pure

    result, written = choose(
        *map(branch, branches), lift.variables(variables), lift.roots(rngs), lift.values
    )
    lift.commit(written)
    return result


def while_loop(
    cond_fn: Function,
    body_fn: Function,
    mdl: Module,
    init: Any,
    carry_variables: Filter = False,
    broadcast_variables: Filter = True,
    split_rngs: Mapping[Any, bool] = {},
) -> Any:
    """Run `c = body_fn(mdl, c)`, starting from `init`, while `cond_fn(mdl, c)` holds.

    The body may write variables of `carry_variables`. Streams split by `split_rngs` give different
    numbers in each step.

    Raises: TypeError if the condition is not a boolean, or the carry changes its type.
    Source: the documentation of `flax.linen.while_loop`.
    Example:
        >>> class Doubling(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.while_loop(lambda m, c: c < 10, lambda m, c: 2 * c, self, x)
        >>> Doubling().apply({}, 3)
        Array(12, dtype=int32, weak_type=True)
    """
    lift = Lift(required_module(mdl), ((), {}))
    shared = subtract_filters(broadcast_variables, carry_variables)
    carried, constant = lift.variables(carry_variables), lift.variables(shared)
    changes = {n: t for n, t in carried.items() if in_filter(lift.mutable, n)}
    stays = {**constant, **{n: t for n, t in carried.items() if n not in changes}}
    condition, body = Target(cond_fn), Target(body_fn)
    splits = {
        name: next(is_split for f, is_split in split_rngs.items() if in_filter(f, name))
        for name in lift.roots(tuple(n for n in lift.roots() if _is_given(split_rngs, n)))
    }

    def inside(target: Target, carry: Any, written: Filter) -> Any:
        i, value, changing = carry
        roots = {
            name: fold_in(lift.roots()[name], i) if is_split else lift.roots()[name]
            for name, is_split in splits.items()
        }
        application = lift.application({**stays, **changing}, LiftedKeys(roots, lift), written)
        result = lift.run(target, application, ((value,), {}), run_method)
        return result, lift.written(application)

    def goes_on(carry: Any) -> Any:
        return inside(condition, carry, False)[0]

    def step(carry: Any) -> Any:
        value, changed = inside(body, carry, carry_variables)
        return carry[0] + 1, value, changed

    _, value, changed = plain_while_loop(goes_on, step, (0, init, changes))
    lift.commit(changed)
    return value


def _is_given(split_rngs: Mapping[Any, bool], name: str) -> bool:
    return any(in_filter(f, name) for f in split_rngs)
