"""Special functions: error, gamma, zeta and Bessel functions; one line per primitive.

The meanings are scipy's, computed in 64 bits and rounded. Those that need a loop of unknown length
(incomplete gamma and beta functions) are in `control/loops/special_loops.py`.
"""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import MissingRule, three_lines
from kiln.base.lazy import bessel_series, scipy_special
from kiln.base.source import current_source
from kiln.core.trace import aval_of
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import (
    abs,
    div,
    exp,
    full_like,
    ge,
    log,
    lt,
    mul,
    reciprocal,
    rsqrt,
    select,
    sign,
    sub,
)
from kiln.ops.elements.families import (
    FLOAT,
    Binary,
    Elementwise,
    Unary,
    add,
    binary,
    constant,
    neg,
    unary,
)

Meaning = Callable[..., Any]


def widely(fun: Meaning) -> Meaning:
    """Return the meaning that computes `fun` in 64 bits and rounds to the operands' dtype."""

    def meaning(*xs: np.ndarray) -> Any:
        return np.asarray(fun(*[x.astype(np.float64) for x in xs])).astype(xs[0].dtype)

    return meaning


def scipys(name: str) -> Meaning:
    """Return scipy's function `name`, which is loaded on its first call."""

    def meaning(*xs: np.ndarray) -> Any:
        return getattr(scipy_special, name)(*xs)

    return meaning


def widened(x: Any) -> Any:
    """Convert 16-bit floats to 32 bits; others are unchanged."""
    dtype = aval_of(x).dtype
    return x if dtypes.bit_width(dtype) >= 32 else convert_element_type(x, np.dtype(np.float32))


def no_derivative(name: str, operand: str) -> Callable[..., Any]:
    """Return the partial for an operand with respect to which there is no derivative."""

    def partial(*args: Any) -> Any:
        raise MissingRule(
            three_lines(
                f"derivative of {name} by {operand} at {current_source()}",
                f"the gradient of {name} with respect to {operand} is not supported",
                f"apply lax.stop_gradient to {operand}",
            )
        )

    return partial


def _digamma(x: Any) -> Any:
    return np.where(x == 0, np.nan, scipy_special.psi(x))


def _lgamma(x: Any) -> Any:
    return np.where(np.isinf(x), np.inf, scipy_special.gammaln(x))


def _i1e(x: Any) -> Any:
    return np.where(x == 0, x, scipy_special.i1e(x))


def _polygamma(m: Any, x: Any) -> Any:
    parity = np.where(m % 2 == 0, -1.0, 1.0)
    high = parity * scipy_special.gamma(m + 1) * scipy_special.zeta(m + 1, x)
    # The Hurwitz zeta function is nan left of 0, where the derivatives of digamma are not.
    whole = (m >= 0) & (m == np.floor(m))
    return np.where(m == 0, _digamma(x), np.where(whole, high, np.nan))


_two_by_root_pi = 2.0 / math.sqrt(math.pi)


def _gauss(t: Any, x: Any, factor: float) -> Any:
    return mul(t, mul(constant(factor, x), exp(neg(mul(x, x)))))


class ScaledBessel(Elementwise):
    """A modified Bessel function of the first kind, times exp(-|x|)."""

    def __init__(self, name: str, odd: bool, fun: Meaning, partial: Callable[..., Any]) -> None:
        super().__init__(name, widely(fun), FLOAT, partial)
        self.odd = odd

    def expand(self, x: Any) -> Any:
        wide = widened(x)
        size = abs(wide)
        precision = float(dtypes.finfo(aval_of(wide).dtype).eps)
        above = [ge(size, constant(end, wide)) for end in (1.0, 3.0, 8.0)]

        def chosen(first: float, second: float, third: float, beyond: float) -> Any:
            out = full_like(wide, first)
            for flag, value in zip(above, (second, third, beyond), strict=True):
                out = select(flag, full_like(wide, value), out)
            return out

        # The intervals as [-1, 1], the last by 1/x.
        outer = select(above[2], size, full_like(wide, 8.0))
        inner = mul(sub(size, chosen(0.5, 2.0, 5.5, 8.0)), chosen(2.0, 1.0, 0.4, 0.0))
        far = sub(div(constant(16.0, wide), outer), constant(1.0, wide))
        pieces = [_needed(piece, precision) for piece in bessel_series.BESSEL[self.odd]]
        terms = list(itertools.zip_longest(*pieces, fillvalue=0.0))
        found = _clenshaw([chosen(*c) for c in terms], select(above[2], far, inner))
        found = mul(found, select(above[2], rsqrt(outer), full_like(wide, 1.0)))
        if self.odd:
            found = mul(found, select(above[0], sign(wide), wide))
        return convert_element_type(found, aval_of(x).dtype)


def _needed(coefficients: Sequence[float], precision: float) -> Sequence[float]:
    least = 0.1 * precision * builtins.abs(coefficients[0])
    last = max(i for i, c in enumerate(coefficients) if builtins.abs(c) > least)
    return coefficients[: last + 1]


def _clenshaw(coefficients: Sequence[Any], t: Any) -> Any:
    twice = add(t, t)
    last, before = full_like(t, 0), full_like(t, 0)
    for c in reversed(coefficients[1:]):
        last, before = add(sub(mul(twice, last), before), c), last
    return add(sub(mul(t, last), before), coefficients[0])


def _bessel_i0e_partial(t: Any, out: Any, x: Any) -> Any:
    near = sub(bessel_i1e(x), mul(sign(x), out))
    is_far, far = _difference_beyond(x)
    return mul(t, select(is_far, neg(mul(sign(x), far)), near))


def _bessel_i1e_partial(t: Any, out: Any, x: Any) -> Any:
    near = sub(bessel_i0e(x), add(mul(out, sign(x)), _bessel_i1e_by_x(out, x)))
    is_far, far = _difference_beyond(x)
    return mul(t, select(is_far, sub(far, div(out, select(is_far, x, full_like(x, 8)))), near))


def _bessel_i1e_by_x(out: Any, x: Any) -> Any:
    """Return exp(-|x|) I1(x) / x, near 0 by a power series: derivatives of a quotient cancel."""
    is_near = lt(abs(x), constant(1, x))
    short = select(is_near, x, full_like(x, 0))
    total = full_like(x, 0)
    for k in reversed(range(10)):
        coefficient = 0.5 / (4**k * math.factorial(k) * math.factorial(k + 1))
        total = add(mul(total, mul(short, short)), constant(coefficient, x))
    series = mul(exp(neg(mul(short, sign(short)))), total)
    return select(is_near, series, div(out, select(is_near, full_like(x, 1), x)))


def _difference_beyond(x: Any) -> tuple[Any, Any]:
    """Return where |x| >= 8, and there exp(-|x|) (I0(|x|) - I1(|x|)): both are nearly equal."""
    wide = abs(widened(x))
    is_far = ge(wide, constant(8.0, wide))
    outer = select(is_far, wide, full_like(wide, 8.0))
    terms = _needed(bessel_series.DIFFERENCE, float(dtypes.finfo(aval_of(wide).dtype).eps))
    by_inverse = sub(div(constant(16.0, wide), outer), constant(1.0, wide))
    found = _clenshaw([constant(c, wide) for c in terms], by_inverse)
    found = div(mul(found, rsqrt(outer)), outer)
    return is_far, convert_element_type(found, aval_of(x).dtype)


erf_p = Elementwise(
    "erf",
    widely(scipys("erf")),
    FLOAT,
    lambda t, o, x: _gauss(t, x, _two_by_root_pi),
)
erfc_p = Elementwise(
    "erfc",
    widely(scipys("erfc")),
    FLOAT,
    lambda t, o, x: _gauss(t, x, -_two_by_root_pi),
)
erf_inv_p = Elementwise(
    "erf_inv",
    widely(lambda x: np.copysign(scipy_special.erfinv(x), x)),
    FLOAT,
    lambda t, o, x: mul(t, mul(constant(1.0 / _two_by_root_pi, x), exp(mul(o, o)))),
)
lgamma_p = Elementwise("lgamma", widely(_lgamma), FLOAT, lambda t, o, x: mul(t, digamma(x)))
digamma_p = Elementwise(
    "digamma", widely(_digamma), FLOAT, lambda t, o, x: mul(t, polygamma(constant(1, x), x))
)
polygamma_p = Elementwise(
    "polygamma",
    widely(_polygamma),
    FLOAT,
    no_derivative("polygamma", "m"),
    lambda t, o, m, x: mul(t, polygamma(add(m, constant(1, m)), x)),
)


def _euler_maclaurin() -> list[float]:
    """Return B(2k) / (2k)! for k = 1, 2, ..., from zeta(2k) where its series is short."""
    first = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600]
    rest = [
        (-1) ** (k + 1) * 2 * math.fsum(n ** (-2 * k) for n in range(1, 61)) / math.tau ** (2 * k)
        for k in range(len(first) + 1, 17)
    ]
    return first + rest


_EULER_MACLAURIN = _euler_maclaurin()


def _zeta_slope(x: Any, q: Any) -> Any:
    """Return the derivative of zeta by x: that of its Euler-Maclaurin sum, term by term.

    Source: Johansson 2015, "Rigorous high-precision computation of the Hurwitz zeta function and
    its derivatives", formula 5.
    """
    given = aval_of(x).dtype
    x, q = widened(x), widened(q)
    terms = 8 if dtypes.bit_width(aval_of(x).dtype) == 32 else 16
    slope = full_like(mul(x, q), 0)
    for k in range(terms):
        size = log(add(q, constant(k, q)))
        slope = sub(slope, mul(size, exp(neg(mul(x, size)))))
    end = add(q, constant(terms, q))
    size, beyond = log(end), sub(x, constant(1, x))
    integral = div(exp(neg(mul(beyond, size))), beyond)
    slope = sub(slope, mul(integral, add(size, reciprocal(beyond))))
    power = exp(neg(mul(x, size)))
    slope = sub(slope, mul(mul(constant(0.5, power), power), size))
    # The rising factorial of x over a power of the end, and the slope of its logarithm.
    rising, steepness = mul(power, div(x, end)), reciprocal(x)
    for k, factor in enumerate(_EULER_MACLAURIN[:terms]):
        term = mul(constant(factor, rising), rising)
        slope = add(slope, mul(term, sub(steepness, size)))
        for j in (2 * k + 1, 2 * k + 2):
            risen = add(x, constant(j, x))
            rising = mul(rising, div(risen, end))
            steepness = add(steepness, reciprocal(risen))
    return convert_element_type(slope, given)


zeta_p = Elementwise(
    "zeta",
    widely(scipys("zeta")),
    FLOAT,
    lambda t, o, x, q: mul(t, _zeta_slope(x, q)),
    lambda t, o, x, q: mul(t, neg(mul(x, zeta(add(x, constant(1, x)), q)))),
)
bessel_i0e_p = ScaledBessel("bessel_i0e", False, scipys("i0e"), _bessel_i0e_partial)
bessel_i1e_p = ScaledBessel("bessel_i1e", True, _i1e, _bessel_i1e_partial)

erf: Unary = unary(erf_p)
erfc: Unary = unary(erfc_p)
erf_inv: Unary = unary(erf_inv_p)
lgamma: Unary = unary(lgamma_p)
digamma: Unary = unary(digamma_p)
polygamma: Binary = binary(polygamma_p)
zeta: Binary = binary(zeta_p)
bessel_i0e: Unary = unary(bessel_i0e_p)
bessel_i1e: Unary = unary(bessel_i1e_p)
