"""Hypergeometric functions of real numbers: power series, summed until they converge.

Sources: Abramowitz and Stegun, chapters 13 and 15; Pearson, "Computation of hypergeometric
functions" (2009), for which formula is used where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.api.derivatives.linear import jvp
from kiln.base import dtypes
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.control.loops.loops import while_loop
from kiln.core.array_type import Array, ArrayLike
from kiln.ops.elements import special as ops
from kiln.scipy.special.gamma_functions import gamma_of_real, gamma_sign
from kiln.scipy.special.series import narrowed, real_operands

LIMIT = 20_000
"""The number of terms after which a series ends even if some elements have not converged."""


def _summed(ratio: Callable[[Any], Any], like: Any, busy: Any) -> Any:
    """Return 1 + r(0) + r(0) r(1) + ... for the elements that are `busy`, 1 for others."""
    eps = 0.25 * float(dtypes.finfo(like.dtype).eps)
    one = jnp.ones_like(like)
    start = (jnp.zeros((), like.dtype), one, one, 0 * one, busy)

    def more(carry: Any) -> Any:
        return jnp.any(carry[-1]) & (carry[0] < LIMIT)

    def step(carry: Any) -> Any:
        k, term, total, lost, active = carry
        term = term * ratio(k)
        # Kahan's sum: what the total loses to rounding is added with the next term.
        piece = term - lost
        after = total + piece
        lost = jnp.where(active, (after - total) - piece, lost)
        total = jnp.where(active, after, total)
        # Terms may be small once before they are large: two in a row, by the next ratio.
        small = (jnp.abs(term) <= eps * jnp.abs(total)) & (jnp.abs(ratio(k + 1)) < 1)
        return k + 1, term, total, lost, active & ~small & jnp.isfinite(total)

    return while_loop(more, step, start)[2]


def _kummer(a: Any, b: Any, x: Any) -> Any:
    eps = float(dtypes.finfo(x.dtype).eps)
    left = x < 0
    # 13.1.27: exp(x) F(b - a, b, -x); its terms do not alternate.
    polynomial = _is_pole(a)
    flip = left & ~polynomial
    top, y = jnp.where(flip, b - a, a), jnp.where(flip, -x, x)
    least = 200.0 if x.dtype == np.float64 else 60.0
    far = (jnp.abs(y) > least) & (jnp.abs(y) > 4 * (1 + jnp.abs(top)) * (1 + jnp.abs(b - top)))
    far = far & ~polynomial & (y > 0)
    near_y = jnp.where(far, 0.5, y)

    def ratio(k: Any) -> Any:
        return (top + k) * near_y / ((b + k) * (k + 1))

    fine = ~far & jnp.isfinite(a + b + x)
    series = _summed(ratio, x, fine)
    near = jnp.where(flip, jnp.exp(x) * series, series)
    # 13.5.1, ended at its smallest term.
    z = jnp.where(far, y, 100.0)
    term, total = jnp.ones_like(x), jnp.ones_like(x)
    active = far
    for k in range(30):
        after = term * (b - top + k) * (1 - top + k) / ((k + 1) * z)
        active = active & (jnp.abs(after) < jnp.abs(term)) & (jnp.abs(term) > 0.1 * eps)
        term = after
        total = jnp.where(active, total + term, total)
    logs = ops.lgamma(b) - ops.lgamma(top) + (top - b) * jnp.log(z)
    logs = logs + jnp.where(flip, 0, z)
    outer = gamma_sign(b) * gamma_sign(top) * jnp.exp(logs) * total
    outer = jnp.where(_is_pole(top), near, outer)
    out = jnp.where(far, outer, near)
    out = jnp.where((x == 0) | (a == 0), 1.0, out)
    ends = _is_pole(a) & (a >= b)
    return jnp.where(_is_pole(b) & ~ends & (a != 0) & (x != 0), math.inf, out)


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == jnp.floor(x))


def _slope(fun: Callable[[Any], Any], x: Any) -> Any:
    return jvp(fun, (x,), (jnp.ones_like(x),))[1]


@custom_jvp
def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return _kummer(a, b, x)


def _hyp1f1_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (a, b, x), (da, db, dx) = primals, tangents
    total = jnp.zeros_like(x)
    if not _absent(da):
        total = total + da * _slope(lambda a: _kummer(a, b, x), a)
    if not _absent(db):
        total = total + db * _slope(lambda b: _kummer(a, b, x), b)
    if not _absent(dx):
        total = total + dx * a / b * _hyp1f1(a + 1, b + 1, x)
    return _hyp1f1(a, b, x), total


def _absent(tangent: Any) -> bool:
    return not hasattr(tangent, "__add__")


_hyp1f1.defjvp(_hyp1f1_jvp, symbolic_zeros=True)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return Kummer's confluent hypergeometric function 1F1(a; b; x).

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.hyp1f1(1.0, 1.0, jnp.array([0.0, 1.0])).round(4)
        Array([1.    , 2.7183], dtype=float32)
    """
    operands, result = real_operands("hyp1f1", a, b, x)
    return narrowed(_hyp1f1(*jnp.broadcast_arrays(*operands)), result)


def _gauss_series(a: Any, b: Any, c: Any, x: Any, busy: Any) -> Any:
    y = jnp.where(busy, x, 0)

    def ratio(k: Any) -> Any:
        return (a + k) * (b + k) * y / ((c + k) * (k + 1))

    return _summed(ratio, y, busy)


def _gammas(over: Sequence[Any], under: Sequence[Any]) -> Any:
    """Return a quotient of products of gamma functions; a pole below makes it 0."""
    limit = 150.0 if over[0].dtype == np.float64 else 30.0
    direct = jnp.ones(over[0].shape, bool)
    pole = jnp.zeros(over[0].shape, bool)
    for x in (*over, *under):
        direct = direct & (jnp.abs(x) < limit)
    for x in under:
        pole = pole | _is_pole(x)
    exact, logs = jnp.ones_like(over[0]), jnp.zeros_like(over[0])
    signs = exact
    for group, sign in ((over, 1), (under, -1)):
        for x in group:
            safe = jnp.where(_is_pole(x) | ~direct, 1.5, x)
            value = gamma_of_real(safe)
            exact = exact * value if sign > 0 else exact / value
            logs = logs + sign * ops.lgamma(jnp.where(_is_pole(x), 1.5, x))
            signs = signs * gamma_sign(x)
    return jnp.where(pole, 0, jnp.where(direct, exact, signs * jnp.exp(logs)))


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Any:
    polynomial = _is_pole(a) | _is_pole(b)
    left = (x < 0) & ~polynomial
    # 15.3.4 maps negative numbers to (0, 1); the smaller parameter keeps its power small.
    swap = left & (jnp.abs(b) < jnp.abs(a))
    first, second = jnp.where(swap, b, a), jnp.where(swap, a, b)
    z = jnp.where(left, x / (x - 1), x)
    second = jnp.where(left, c - second, second)
    factor = jnp.where(left, jnp.exp(-first * jnp.log1p(-jnp.where(left, x, 0))), 1)
    excess = c - first - second
    finite_series = polynomial | _is_pole(first) | _is_pole(second)
    # 15.3.3: with c - a or c - b in place of a and b, which may end the series.
    euler = ~finite_series & (_is_pole(c - first) | _is_pole(c - second)) & (z < 1)
    factor = jnp.where(euler, factor * jnp.exp(excess * jnp.log1p(-jnp.where(euler, z, 0))), factor)
    first, second = jnp.where(euler, c - first, first), jnp.where(euler, c - second, second)
    excess = jnp.where(euler, -excess, excess)
    finite_series = finite_series | euler
    gap = jnp.abs(excess - jnp.round(excess))
    # 15.3.6 in powers of 1 - z; its two terms cancel where a + b - c is near an integer.
    turned = ~finite_series & (z > 0.9) & (z < 1) & (gap > 0.01)
    plain = ~turned & ((z < 1) | finite_series) & jnp.isfinite(a + b + c + x)
    series = _gauss_series(first, second, c, z, plain)
    near = jnp.where(turned, 1 - z, 0)
    left_part = _gauss_series(first, second, 1 - excess, near, turned)
    right_part = _gauss_series(c - first, c - second, 1 + excess, near, turned)
    safe = jnp.where(turned, excess, 0.5)
    power = jnp.exp(safe * jnp.log(jnp.where(turned, near, 1)))
    sum_ = _gammas((c, safe), (c - first, c - second)) * left_part
    sum_ = sum_ + power * _gammas((c, -safe), (first, second)) * right_part
    out = factor * jnp.where(turned, sum_, series)
    at_one = jnp.where(
        excess > 0, _gammas((c, jnp.where(excess > 0, excess, 1)), (c - a, c - b)), math.inf
    )
    out = jnp.where((z == 1) & ~finite_series, at_one, out)
    out = jnp.where((x > 1) & ~polynomial, math.inf, out)
    out = jnp.where((x == 0) | (a == 0) | (b == 0), 1.0, out)
    ends = (_is_pole(a) & (a >= c)) | (_is_pole(b) & (b >= c))
    return jnp.where(_is_pole(c) & ~ends & (x != 0), math.inf, out)


@custom_jvp
def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    return _gauss(a, b, c, x)


def _hyp2f1_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    total = jnp.zeros_like(primals[0])
    for i, tangent in enumerate(tangents[:3]):
        if not _absent(tangent):

            def by_parameter(p: Any, i: int = i) -> Any:
                return _gauss(*[p if i == j else q for j, q in enumerate(primals)])

            total = total + tangent * _slope(by_parameter, primals[i])
    a, b, c, x = primals
    if not _absent(tangents[3]):
        total = total + tangents[3] * (a * b / c) * _hyp2f1(a + 1, b + 1, c + 1, x)
    return _hyp2f1(a, b, c, x), total


_hyp2f1.defjvp(_hyp2f1_jvp, symbolic_zeros=True)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Return Gauss's hypergeometric function 2F1(a, b; c; x) for x <= 1; nan beyond.

    Raises: ValueError for complex numbers.
    Example:
        >>> kiln.scipy.special.hyp2f1(1.0, 1.0, 2.0, jnp.array([0.0, 0.5])).round(4)
        Array([1.    , 1.3863], dtype=float32)
    """
    operands, result = real_operands("hyp2f1", a, b, c, x)
    return narrowed(_hyp2f1(*jnp.broadcast_arrays(*operands)), result)
