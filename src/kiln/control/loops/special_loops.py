"""Incomplete gamma and beta functions: elementwise, computed by loops that run to convergence.

In these series and continued fractions each element needs a different number of terms, so no engine
implements them: they expand into `while`. Derivatives with respect to `a` propagate a tangent
through the steps of the loop.
Source: Numerical Recipes (3rd edition), sections 6.2 and 6.4; Stirling's series keeps the
prefactors exact where their logarithms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.control.loops.while_loop import while_p
from kiln.core.array_type import Array, ArrayLike
from kiln.core.meaning import meaning
from kiln.core.staging import stage_pure, stage_region
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import (
    abs,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    div,
    eq,
    exp,
    full_like,
    ge,
    gt,
    is_finite,
    le,
    log,
    log1p,
    lt,
    mul,
    reciprocal,
    select,
    sub,
)
from kiln.ops.elements.families import (
    FLOAT,
    Binary,
    Elementwise,
    add,
    binary,
    constant,
    matched,
    neg,
    stretched,
)
from kiln.ops.elements.special import digamma, lgamma, no_derivative, scipys, widely, widened
from kiln.ops.reductions.reduction import reduce_or
from kiln.ops.shape import broadcast_in_dim, filled
from kiln.transforms.jvp import jvp

LIMIT = 20_000
"""The number of steps after which a loop ends even if some elements have not converged."""

Step = Callable[..., list[Any]]


class LoopedFunction(Elementwise):
    """An elementwise function computed by `loop`, on arrays of one shape and 32 bits or more."""

    def __init__(
        self,
        name: str,
        loop: Callable[..., Any],
        *partials: Callable[..., Any],
        fun: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name, self.by_loop if fun is None else widely(fun), FLOAT, *partials)
        self.loop = loop

    def expand(self, *xs: Any) -> Any:
        out = self.infer(*map(aval_of, xs))
        wide = [widened(x) for x in xs]
        filled_up = [x if aval_of(x).shape else broadcast_in_dim(x, out.shape, ()) for x in wide]
        return convert_element_type(self.loop(*filled_up), out.dtype)

    def by_loop(self, *xs: np.ndarray) -> Any:
        """Run the loop with NumPy, in 64 bits."""
        with override(enable_x64=True):
            wide = [x.astype(np.float64) for x in xs]
            types = [ShapedArray(x.shape, x.dtype) for x in wide]
            return meaning(stage_pure(lambda *ys: [self.expand(*ys)], types), wide)[0].astype(
                xs[0].dtype
            )


def _settle(
    start: Callable[[Any], list[Any]], step: Step, a: Any, busy: Any, moving: bool
) -> tuple[Any, Any]:
    """Iterate `state = step(n, a, *state)`, n = 1, 2, ..., until its last entry converges.

    `busy` marks the elements that matter. Returns the last entry, and its derivative with respect
    to `a` if `moving`.
    """
    precision = constant(float(dtypes.finfo(aval_of(a).dtype).eps), a)
    one = full_like(a, 1)

    def run(fun: Callable[..., list[Any]], values: Sequence[Any], slopes: Sequence[Any]) -> Any:
        if not moving:
            return fun(a, *values), []
        new, pushed = jvp(fun, [a, *values], [one, *slopes])
        return new, [filled(t) for t in pushed]

    def changing(new: Any, old: Any) -> Any:
        return gt(abs(sub(new, old)), mul(precision, abs(new)))

    def more(n: Any, busy: Any, *values: Any) -> list[Any]:
        any_busy = reduce_or(busy, range(len(aval_of(busy).shape)))
        return [bitwise_and(lt(n, constant(LIMIT, n)), any_busy)]

    def body(n: Any, busy: Any, *values: Any) -> list[Any]:
        old, slopes = values[:size], values[size:]
        new, pushed = run(lambda a, *state: step(n, a, *state), old, slopes)
        still = changing(new[-1], old[-1])
        if moving:
            still = bitwise_or(still, changing(pushed[-1], slopes[-1]))
        return [add(n, constant(1, n)), bitwise_and(busy, still), *new, *pushed]

    state, slopes = run(start, (), ())
    size = len(state)
    carry = [convert_element_type(1, aval_of(a).dtype), busy, *state, *slopes]
    avals = [aval_of(x) for x in carry]
    cond_jaxpr, cond_consts = stage_region(more, avals)
    body_jaxpr, body_consts = stage_region(body, avals)
    _, _, *values = while_p.bind(
        *cond_consts,
        *body_consts,
        *carry,
        cond_jaxpr=cond_jaxpr,
        cond_nconsts=len(cond_consts),
        body_jaxpr=body_jaxpr,
        body_nconsts=len(body_consts),
    )
    return values[size - 1], values[-1]


def _lower_series(a: Any, x: Any, busy: Any, moving: bool) -> tuple[Any, Any]:
    """Return the sum of x^n / ((a+1) ... (a+n)) over n >= 0, and its derivative by a."""

    def start(a: Any) -> list[Any]:
        return [full_like(a, 1), full_like(a, 1)]

    def step(n: Any, a: Any, term: Any, total: Any) -> list[Any]:
        term = mul(term, div(x, add(a, n)))
        return [term, add(total, term)]

    return _settle(start, step, a, busy, moving)


def _upper_fraction(a: Any, x: Any, busy: Any, moving: bool) -> tuple[Any, Any]:
    """Return 1/(x+1-a + 1(a-1)/(x+3-a + 2(a-2)/(x+5-a + ...))), and its derivative by a."""

    def start(a: Any) -> list[Any]:
        first = reciprocal(add(sub(x, a), constant(1, a)))
        return [full_like(a, 1e30), first, first]

    def step(n: Any, a: Any, c: Any, d: Any, total: Any) -> list[Any]:
        numerator = mul(n, sub(a, n))
        base = add(add(sub(x, a), constant(1, a)), add(n, n))
        d = reciprocal(add(mul(numerator, d), base))
        c = add(base, div(numerator, c))
        return [c, d, mul(total, mul(c, d))]

    return _settle(start, step, a, busy, moving)


def _beta_fraction(a: Any, b: Any, x: Any, busy: Any) -> Any:
    """Return the continued fraction of the incomplete beta function."""
    one = constant(1, a)
    both, above, below = add(a, b), add(a, one), sub(a, one)

    def part(numerator: Any, c: Any, d: Any) -> tuple[Any, Any]:
        d = reciprocal(_not_zero(add(mul(numerator, d), one)))
        return _not_zero(add(div(numerator, c), one)), d

    def start(a: Any) -> list[Any]:
        first = reciprocal(_not_zero(sub(one, div(mul(both, x), above))))
        return [full_like(a, 1), first, first]

    def step(n: Any, a: Any, c: Any, d: Any, total: Any) -> list[Any]:
        twice = add(n, n)
        even = div(mul(mul(n, sub(b, n)), x), mul(add(below, twice), add(a, twice)))
        c, d = part(even, c, d)
        total = mul(total, mul(c, d))
        odd = div(mul(mul(add(a, n), add(both, n)), x), mul(add(a, twice), add(above, twice)))
        c, d = part(neg(odd), c, d)
        return [c, d, mul(total, mul(c, d))]

    return _settle(start, step, a, busy, False)[0]


def _not_zero(x: Any) -> Any:
    tiny = float(dtypes.finfo(aval_of(x).dtype).tiny)
    return _where(lt(abs(x), constant(tiny, x)), tiny, x)


def _where(predicate: Any, number: float, otherwise: Any) -> Any:
    return select(predicate, full_like(otherwise, number), otherwise)


def _inside(x: Any) -> Any:
    return bitwise_and(gt(x, constant(0, x)), is_finite(x))


# Coefficients of log(gamma(z)) in powers of 1/z: 1/z, 1/z^3, ...
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _stirling_rest(z: Any) -> Any:
    """Return log(gamma(z)) - ((z - 1/2) log(z) - z + log(2 pi)/2), for positive z."""
    large = ge(z, constant(10, z))
    near = _where(large, 1, z)
    inverse = reciprocal(select(large, z, full_like(z, 10)))
    square = mul(inverse, inverse)
    total = full_like(z, 0)
    for c in reversed(_STIRLING):
        total = add(mul(total, square), constant(c, z))
    leading = sub(mul(sub(near, constant(0.5, z)), log(near)), near)
    exact = sub(lgamma(near), add(leading, constant(_HALF_LOG_TWO_PI, z)))
    return select(large, mul(total, inverse), exact)


def _gamma_weight(a: Any, x: Any) -> Any:
    """Return x^a exp(-x) / gamma(a), for positive a and x."""
    offset = div(sub(x, a), a)
    close = lt(abs(offset), constant(0.5, a))
    near = log1p(select(close, offset, full_like(a, 0)))
    power = mul(a, sub(select(close, near, sub(log(x), log(a))), offset))
    root = sub(mul(constant(0.5, a), log(a)), constant(_HALF_LOG_TWO_PI, a))
    return exp(sub(add(power, root), _stirling_rest(a)))


def _beta_weight(a: Any, b: Any, x: Any) -> Any:
    """Return x^a (1-x)^b / beta(a, b), for positive a and b, and x in (0, 1)."""
    one, both = constant(1, a), add(a, b)
    offset = sub(mul(x, b), mul(a, sub(one, x)))

    def power(a: Any, offset: Any, exact: Any) -> Any:
        # a log(1 + offset/a), where 1 + offset/a may be too small for log1p.
        ratio = div(offset, a)
        close = lt(abs(ratio), constant(0.5, a))
        near = log1p(select(close, ratio, full_like(a, 0)))
        return mul(a, select(close, near, sub(exact, log(div(a, both)))))

    powers = add(power(a, offset, log(x)), power(b, neg(offset), log1p(neg(x))))
    root = sub(mul(constant(0.5, a), log(mul(a, div(b, both)))), constant(_HALF_LOG_TWO_PI, a))
    rest = sub(_stirling_rest(both), add(_stirling_rest(a), _stirling_rest(b)))
    return exp(add(add(powers, root), rest))


def _gamma_parts(a: Any, x: Any, moving: bool) -> tuple[Any, ...]:
    """Return whether the fraction is used, both loops' results, and sanitized operands."""
    fine = bitwise_and(_inside(a), _inside(x))
    a, x = select(fine, a, full_like(a, 1)), select(fine, x, full_like(x, 1))
    upper = bitwise_and(gt(x, constant(1, x)), gt(x, a))
    series = _lower_series(a, x, bitwise_and(fine, bitwise_not(upper)), moving)
    fraction = _upper_fraction(a, x, bitwise_and(fine, upper), moving)
    return upper, series, fraction, a, x


def _gamma_edges(a: Any, x: Any, at_zero: float, at_infinity: float, inside: Any) -> Any:
    """Replace results where x is 0, where a or x is infinite, and outside the domain."""
    zero, infinity = constant(0, a), constant(math.inf, a)
    out = _where(bitwise_or(eq(x, zero), eq(a, infinity)), at_zero, inside)
    out = _where(bitwise_or(eq(x, infinity), eq(a, zero)), at_infinity, out)
    unclear = bitwise_or(
        bitwise_and(eq(x, zero), eq(a, zero)), bitwise_and(eq(x, infinity), eq(a, infinity))
    )
    allowed = bitwise_and(ge(a, zero), ge(x, zero))
    return _where(bitwise_or(unclear, bitwise_not(allowed)), math.nan, out)


def _igamma(a: Any, x: Any) -> Any:
    upper, (total, _), (tail, _), a1, x1 = _gamma_parts(a, x, False)
    weight, one = _gamma_weight(a1, x1), constant(1, a)
    inside = select(upper, sub(one, mul(weight, tail)), div(mul(weight, total), a1))
    return _gamma_edges(a, x, 0, 1, inside)


def _igammac(a: Any, x: Any) -> Any:
    upper, (total, _), (tail, _), a1, x1 = _gamma_parts(a, x, False)
    weight, one = _gamma_weight(a1, x1), constant(1, a)
    inside = select(upper, mul(weight, tail), sub(one, div(mul(weight, total), a1)))
    return _gamma_edges(a, x, 1, 0, inside)


def _slope_by_weight(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the derivative of igamma by a, divided by the weight, and the operands used."""
    upper, (total, rise), (tail, fall), a, x = _gamma_parts(a, x, True)
    growth = sub(log(x), digamma(a))
    # digamma(a+1) = digamma(a) + 1/a
    lower = div(add(mul(total, sub(growth, reciprocal(a))), rise), a)
    return select(upper, neg(add(mul(tail, growth), fall)), lower), a, x


def _igamma_grad_a(a: Any, x: Any) -> Any:
    slope, a1, x1 = _slope_by_weight(a, x)
    return _gamma_edges(a, x, 0, 0, mul(slope, _gamma_weight(a1, x1)))


def _random_gamma_grad(a: Any, x: Any) -> Any:
    slope, _, x1 = _slope_by_weight(a, x)
    return _gamma_edges(a, x, 0, math.nan, neg(mul(slope, x1)))


def _betainc(a: Any, b: Any, x: Any) -> Any:
    zero, one, infinity = constant(0, a), constant(1, a), constant(math.inf, a)
    fine = bitwise_and(bitwise_and(_inside(a), _inside(b)), bitwise_and(gt(x, zero), lt(x, one)))
    a1, b1 = select(fine, a, full_like(a, 1)), select(fine, b, full_like(b, 1))
    x1 = select(fine, x, full_like(x, 0.5))
    flip = gt(x1, div(add(a1, one), add(add(a1, b1), constant(2, a))))
    first, second = select(flip, b1, a1), select(flip, a1, b1)
    place = select(flip, sub(one, x1), x1)
    lower = div(mul(_beta_weight(a1, b1, x1), _beta_fraction(first, second, place, fine)), first)
    out = select(flip, sub(one, lower), lower)
    # All of the mass is at 0, or all of it at 1.
    left = bitwise_or(eq(a, zero), eq(b, infinity))
    right = bitwise_or(eq(b, zero), eq(a, infinity))
    out = _where(left, 1, _where(right, 0, out))
    out = _where(le(x, zero), 0, _where(ge(x, one), 1, out))
    allowed = bitwise_and(
        bitwise_and(ge(x, zero), le(x, one)), bitwise_not(bitwise_and(left, right))
    )
    allowed = bitwise_and(allowed, bitwise_and(ge(a, zero), ge(b, zero)))
    return _where(bitwise_not(allowed), math.nan, out)


def _gamma_density(a: Any, x: Any) -> Any:
    # 0 log(0) is 0 here: the density of a = 1 is exp(-x).
    less = sub(a, constant(1, a))
    power = select(eq(less, constant(0, a)), full_like(less, 0), mul(less, log(x)))
    return exp(sub(power, add(x, lgamma(a))))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    one = constant(1, a)
    powers = add(mul(sub(a, one), log(x)), mul(sub(b, one), log1p(neg(x))))
    return exp(add(powers, sub(lgamma(add(a, b)), add(lgamma(a), lgamma(b)))))


igamma_p = LoopedFunction(
    "igamma",
    _igamma,
    lambda t, o, a, x: mul(t, igamma_grad_a(a, x)),
    lambda t, o, a, x: mul(t, _gamma_density(a, x)),
    fun=scipys("gammainc"),
)
igammac_p = LoopedFunction(
    "igammac",
    _igammac,
    lambda t, o, a, x: neg(mul(t, igamma_grad_a(a, x))),
    lambda t, o, a, x: neg(mul(t, _gamma_density(a, x))),
    fun=scipys("gammaincc"),
)
igamma_grad_a_p = LoopedFunction(
    "igamma_grad_a",
    _igamma_grad_a,
    no_derivative("igamma_grad_a", "a"),
    lambda t, o, a, x: mul(t, mul(_gamma_density(a, x), sub(log(x), digamma(a)))),
)
random_gamma_grad_p = LoopedFunction(
    "random_gamma_grad",
    _random_gamma_grad,
    no_derivative("random_gamma_grad", "a"),
    no_derivative("random_gamma_grad", "x"),
)
regularized_incomplete_beta_p = LoopedFunction(
    "regularized_incomplete_beta",
    _betainc,
    no_derivative("betainc", "a"),
    no_derivative("betainc", "b"),
    lambda t, o, a, b, x: mul(t, _beta_density(a, b, x)),
    fun=scipys("betainc"),
)

igamma: Binary = binary(igamma_p)
igammac: Binary = binary(igammac_p)
igamma_grad_a: Binary = binary(igamma_grad_a_p)
random_gamma_grad: Binary = binary(random_gamma_grad_p)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized incomplete beta function, element by element.

    Example:
        >>> lax.betainc(2.0, 2.0, jnp.array([0.0, 0.5, 1.0]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    a, b, x = matched(a, b, x)
    a, b = stretched(a, b)
    b, x = stretched(b, x)
    a, x = stretched(a, x)
    return regularized_incomplete_beta_p.bind(a, b, x)
