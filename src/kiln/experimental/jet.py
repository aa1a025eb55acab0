"""Higher-order derivatives of functions along a curve, by Taylor mode.

Every operation with a jvp rule is supported (`transforms/series.py`). The rules here are faster:
for linear and bilinear operations, quotients and powers, and for control flow, whose programs
become programs on series.

Sources: Griewank and Walther, "Evaluating derivatives" (2008), chapter 13, for the recurrences.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_flatten, tree_structure, tree_unflatten, treedef_is_leaf
from kiln.core.absent import Zero, is_zero
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ops.elements.elementwise import add, constant, div, mul, sub
from kiln.ops.shape import filled, zeros_of
from kiln.transforms.series import (
    Rule,
    SeriesTrace,
    Terms,
    by_tangent,
    packed,
    scaled,
    series,
    series_jaxpr,
    unpacked,
)

__all__ = ["fact", "jet", "jet2", "jet_rules"]

Given = Sequence[Terms]
_series = series


def jet(
    fun: Callable[..., Any], primals: Any, series: Any, factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """Return the value of `fun` at `primals`, and its derivatives along a curve.

    `series[i]` lists the derivatives of argument i along the curve, starting with the first; the
    result has those of the function's value, in its structure, with a list for each array. Unless
    `factorial_scaled`, both are coefficients of a power series instead: the k-th derivative divided
    by k!.

    Raises: ValueError if lists have different lengths, or arguments are not arrays.
    Source: the documentation of `jax.experimental.jet`.
    Example:
        >>> value, derivatives = jet(jnp.exp, (0.0,), ((1.0, 0.0, 0.0),))
        >>> [float(d) for d in derivatives]
        [1.0, 1.0, 1.0]
    """
    order = _order(series)
    values, coefficients = [], []
    for i, (x, terms) in enumerate(zip(primals, series, strict=True)):
        for name, y in (("primal value", x), *((f"term {j}", t) for j, t in enumerate(terms))):
            if not treedef_is_leaf(tree_structure(y)):
                raise ValueError(
                    three_lines(
                        f"jet at {current_source()}",
                        f"{name} for argument {i} is not an array",
                        "flatten pytrees first, with flatten_util.ravel_pytree",
                    )
                )
        value = jnp.asarray(x)
        values.append(value)
        given = [_of_type(t, value) for t in terms]
        coefficients.append(_divided(given) if factorial_scaled else given)
    box: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        outs, tree = tree_flatten(fun(*xs))
        box[:] = [tree]
        return outs

    outs, found = _series(flat, values, coefficients, order, jet_rules)
    filled_in = [
        [jnp.asarray(zeros_of(aval_of(x)))] * order if t is None else t
        for x, t in zip(outs, found, strict=True)
    ]
    if factorial_scaled:
        filled_in = [[scaled(t, _factorial(k)) for k, t in enumerate(ts, 1)] for ts in filled_in]
    return tree_unflatten(box[0], outs), tree_unflatten(box[0], filled_in)


jet2 = functools.partial(jet, factorial_scaled=False)


def fact(n: Any) -> Any:
    """Return n!, as a float."""
    return lax.exp(lax.lgamma(n + 1.0))


def _of_type(term: Any, value: Any) -> Any:
    found = jnp.asarray(term)
    if found.dtype != value.dtype:
        found = found.astype(value.dtype)
    return found if found.shape == value.shape else jnp.broadcast_to(found, value.shape)


def _order(series: Any) -> int:
    lengths = set(map(len, series))
    if len(lengths) != 1:
        raise ValueError(
            three_lines(
                f"jet at {current_source()}",
                f"jet terms have inconsistent lengths for different arguments: {sorted(lengths)}",
                "pass the same number of terms for each argument",
            )
        )
    return lengths.pop()


def _factorial(k: int) -> float:
    return float(np.prod(np.arange(1.0, k + 1)))


def _divided(terms: Sequence[Any]) -> list[Any]:
    return [scaled(t, 1 / _factorial(k)) for k, t in enumerate(terms, 1)]


def _total(terms: Sequence[Any]) -> Any:
    return functools.reduce(add, terms)


def _linear(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    """Apply an operation that is linear in all operands with series, to each coefficient."""
    out, moved = None, []
    for k in range(trace.order):
        tangents = [
            Zero(aval_of(x).tangent()) if t is None else t[k]
            for x, t in zip(primals, terms, strict=True)
        ]
        out, tangent = primitive.jvp(primals, tangents, **params)
        moved.append(tangent)
    if not primitive.multiple:
        return out, None if is_zero(moved[0]) else [filled(t) for t in moved]
    of_each = zip(*moved, strict=True)
    return out, [None if is_zero(ts[0]) else [filled(t) for t in ts] for ts in of_each]


def _bilinear(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    """Apply a product: coefficients are sums over pairs of coefficients."""
    times = functools.partial(primitive.bind, **params)
    x, y = ([p] if t is None else [p, *t] for p, t in zip(primals, terms, strict=True))
    out = []
    for k in range(trace.order + 1):
        pairs = [(i, k - i) for i in range(k + 1) if i < len(x) and k - i < len(y)]
        out.append(_total([times(x[i], y[j]) for i, j in pairs]))
    return out[0], out[1:]


def _quotient(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    """Divide: x = q y, solved for the coefficients of q in order."""
    (x, y), (dx, dy) = primals, terms
    out = [primitive.bind(x, y, **params)]
    for k in range(1, trace.order + 1):
        rest: Any = None if dx is None else dx[k - 1]
        if dy is not None:
            known = _total([mul(dy[j - 1], out[k - j]) for j in range(1, k + 1)])
            rest = lax.neg(known) if rest is None else sub(rest, known)
        out.append(div(rest, y))
    return out[0], out[1:]


def _power(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    """Raise to a power: a variable one as exp(y log x), a constant one by its tangent."""
    if terms[1] is None:
        return by_tangent(trace, primitive, primals, terms, params)
    _outs, moved = _series(
        lambda x, y: [lax.exp(mul(y, lax.log(x)))], primals, terms, trace.order, trace.rules
    )
    return primitive.bind(*primals, **params), moved[0]


def _integral(k: int, speed: Sequence[Any], w: Sequence[Any]) -> Any:
    """Return coefficient k of y, where y' = w x'."""
    terms = [mul(scaled(speed[j - 1], j), w[k - j]) for j in range(1, k + 1)]
    return scaled(_total(terms), 1 / k)


def _square(y: Sequence[Any], k: int) -> Any:
    return _total([mul(y[i], y[k - i]) for i in range(k + 1)])


def _exp(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    y = [primitive.bind(*primals, **params)]
    for k in range(1, trace.order + 1):
        y.append(_integral(k, terms[0] or (), y))
    return y[0], y[1:]


def _sigmoid(slope: Callable[[Sequence[Any], int], Any]) -> Rule:
    """Return the rule for a solution of y' = w x', where w is a polynomial of y."""

    def rule(
        trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
    ) -> Any:
        y = [primitive.bind(*primals, **params)]
        w: list[Any] = []
        for k in range(1, trace.order + 1):
            w.append(slope(y, k - 1))
            y.append(_integral(k, terms[0] or (), w))
        return y[0], y[1:]

    return rule


def _tanh_slope(y: Sequence[Any], k: int) -> Any:
    square = lax.neg(_square(y, k))
    return square if k else add(constant(1, square), square)


def _logistic_slope(y: Sequence[Any], k: int) -> Any:
    return sub(y[k], _square(y, k))


def _circular(first: Callable[[Any], Any], other: Callable[[Any], Any], sign: int) -> Rule:
    """Return the rule for y with y' = z x', z' = +-y x'."""

    def rule(
        trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
    ) -> Any:
        speed = terms[0] or ()
        y, z = [primitive.bind(*primals, **params)], [other(primals[0])]
        ahead, back = (-1, 1) if first is lax.cos else (1, sign)
        for k in range(1, trace.order + 1):
            next_y = scaled(_integral(k, speed, z), ahead)
            z.append(scaled(_integral(k, speed, y), back))
            y.append(next_y)
        return y[0], y[1:]

    return rule


def _program(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    """Run the series version of a program."""
    moving = [t is not None for t in terms]
    program, out_moving = series_jaxpr(params["jaxpr"], moving, trace.order, trace.rules)
    operands = packed(primals, terms, moving, trace.order)
    outs = primitive.bind(*operands, **{**params, "jaxpr": program})
    return unpacked(outs, out_moving, trace.order)


def _cond(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    order, rules = trace.order, trace.rules
    moving = [t is not None for t in terms[1:]]
    branches: Sequence[Jaxpr] = params["branches"]
    masks = [series_jaxpr(b, moving, order, rules)[1] for b in branches]
    union = [any(flags) for flags in zip(*masks, strict=True)]
    programs = tuple(series_jaxpr(b, moving, order, rules, union)[0] for b in branches)
    operands = packed(primals[1:], terms[1:], moving, order)
    outs = primitive.bind(primals[0], *operands, **{**params, "branches": programs})
    return unpacked(outs, union, order)


def _settled(
    body: Jaxpr, others: Callable[[list[bool]], list[bool]], carry: list[bool], trace: SeriesTrace
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """Return the series version of a loop body, and which carries and outputs have series."""
    n = len(carry)
    while True:
        rest = [False] * (len(body.outvars) - n)
        found, out_moving = series_jaxpr(
            body, others(carry), trace.order, trace.rules, [*carry, *rest]
        )
        if out_moving[:n] == carry:
            return found, carry, out_moving
        carry = out_moving[:n]


def _scan(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    moving = [t is not None for t in terms]
    first = params["num_consts"]
    last = first + params["num_carry"]
    body, carry, out_moving = _settled(
        params["jaxpr"], lambda c: [*moving[:first], *c, *moving[last:]], moving[first:last], trace
    )
    more = trace.order
    changed = {
        **params,
        "jaxpr": body,
        "num_consts": first + more * sum(moving[:first]),
        "num_carry": last - first + more * sum(carry),
    }
    mask = [*moving[:first], *carry, *moving[last:]]
    outs = primitive.bind(*packed(primals, terms, mask, more), **changed)
    return unpacked(outs, out_moving, more)


def _while(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    moving = [t is not None for t in terms]
    first = params["cond_nconsts"]
    last = first + params["body_nconsts"]
    body, carry, _ = _settled(
        params["body_jaxpr"], lambda c: [*moving[first:last], *c], moving[last:], trace
    )
    test: Jaxpr = params["cond_jaxpr"]
    order = trace.order
    avals = [v.aval for v in test.invars[:first]]
    for var, m in zip(test.invars[first:], carry, strict=True):
        avals += [var.aval] * (order + 1 if m else 1)

    def tested(*args: Any) -> list[Any]:
        # The condition takes the primals.
        found, _ = unpacked(args[first:], carry, order)
        return eval_jaxpr(test, (), *args[:first], *found)

    changed = {
        **params,
        "cond_jaxpr": stage_pure(tested, avals, name=test.name, purpose="jet"),
        "body_jaxpr": body,
        "body_nconsts": last - first + order * sum(moving[first:last]),
    }
    mask = [*[False] * first, *moving[first:last], *carry]
    outs = primitive.bind(*packed(primals, terms, mask, order), **changed)
    return unpacked(outs, carry, order)


def _without_rule(
    trace: SeriesTrace, primitive: Operation, primals: Sequence[Any], terms: Given, params: Any
) -> Any:
    """Run a function that has only a rule for reverse mode."""

    def function(*xs: Any) -> list[Any]:
        if "body" in params:
            return params["body"].fun(*xs)
        return eval_jaxpr(params["call_jaxpr"], (), *xs)

    return _series(function, primals, terms, trace.order, trace.rules)


_LINEAR = (
    *("add", "add_any", "all_gather", "broadcast_in_dim", "complex", "concatenate", "conj"),
    *("convert_element_type", "copy", "cumsum", "dynamic_slice", "dynamic_update_slice", "fft"),
    *("gather", "imag", "name", "neg", "optimization_barrier", "pad", "ppermute", "psum", "real"),
    *("reduce_sum", "reduce_window_sum", "reshape", "rev", "scatter", "scatter-add", "select_n"),
    *("sharding_constraint", "slice", "split", "squeeze", "sub", "transpose"),
)

jet_rules: dict[str, Rule] = {
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(("mul", "dot_general", "conv_general_dilated"), _bilinear),
    **dict.fromkeys(("jit", "checkpoint"), _program),
    **dict.fromkeys(("custom_vjp_call", "custom_vjp_function"), _without_rule),
    "cond": _cond,
    "cos": _circular(lax.cos, lax.sin, -1),
    "cosh": _circular(lax.cosh, lax.sinh, 1),
    "div": _quotient,
    "exp": _exp,
    "logistic": _sigmoid(_logistic_slope),
    "pow": _power,
    "scan": _scan,
    "sin": _circular(lax.sin, lax.cos, -1),
    "sinh": _circular(lax.sinh, lax.cosh, 1),
    "tanh": _sigmoid(_tanh_slope),
    "while": _while,
}
"""The rules by names of primitives; those of other primitives are derived from jvp rules."""
