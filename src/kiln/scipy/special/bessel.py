"""Bessel functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.control.loops.loops import scan
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.elements.elementary import bessel_i0
from kiln.numpy.promotion import inexact, lifted
from kiln.ops.elements import special as ops
from kiln.scipy.special.series import narrowed, real_operands


def i0e(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 0, times exp(-|x|).

    Example:
        >>> kiln.scipy.special.i0e(jnp.array([0.0, 1000.0])).round(4)
        Array([1.    , 0.0126], dtype=float32)
    """
    return ops.bessel_i0e(inexact("i0e", x))


def i1e(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 1, times exp(-|x|).

    Example:
        >>> kiln.scipy.special.i1e(jnp.array([0.0, 1000.0])).round(4)
        Array([0.    , 0.0126], dtype=float32)
    """
    return ops.bessel_i1e(inexact("i1e", x))


def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 0.

    Example:
        >>> kiln.scipy.special.i0(jnp.array([0.0, 1.0])).round(4)
        Array([1.    , 1.2661], dtype=float32)
    """
    return bessel_i0(lifted(inexact("i0", x)))


def i1(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 1.

    Example:
        >>> kiln.scipy.special.i1(jnp.array([0.0, 1.0])).round(4)
        Array([0.    , 0.5652], dtype=float32)
    """
    x = lifted(inexact("i1", x))
    # Not |x|, whose derivative at 0 is that from the right: the others of I1 are smooth there.
    return jnp.exp(x * jnp.sign(x)) * ops.bessel_i1e(x)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Return the Bessel functions of the first kind of orders 0 to `v`, along a first axis.

    Miller's algorithm: the recurrence downwards from order `n_iter`, which should exceed |z| by
    some 20 for 32 bits and 30 for 64, is divided by J0 + 2 J2 + 2 J4 + ..., which is 1.
    Source: Abramowitz and Stegun, 9.12; 9.1.27 for the derivatives.

    Shapes: (...) -> (v + 1, ...).
    Raises: ValueError for complex numbers, or if `v` is not an integer from 0 to n_iter - 1.
    Example:
        >>> kiln.scipy.special.bessel_jn(jnp.array([1.0]), v=1).round(4)
        Array([[0.7652],
               [0.4401]], dtype=float32)
    """
    given: tuple[Any, ...] = v, n_iter
    if not all(isinstance(x, (int, np.integer)) for x in given):
        wrong = f"Argument v must be an integer, got {v!r}, and n_iter={n_iter!r} too"
    elif not 0 <= v < n_iter:
        wrong = f"Argument v must be from 0 to n_iter - 1, got v={v}, n_iter={n_iter}"
    else:
        (x,), result = real_operands("bessel_jn", z)
        return narrowed(_orders(int(v), int(n_iter))(x), result)
    raise ValueError(
        three_lines(
            f"bessel_jn with v={v!r}, n_iter={n_iter!r} at {current_source()}",
            wrong,
            "pass v=5, n_iter=50",
        )
    )


@functools.cache
def _orders(v: int, n_iter: int) -> Callable[[Any], Any]:
    """Return the function of all orders up to `v`.

    The recurrence itself is not differentiated: the tangents of numbers near the largest overflow.
    """

    @custom_jvp
    def orders(x: Any) -> Any:
        return _downwards(x, v, n_iter)

    @orders.defjvp
    def moved(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (x,), (t,) = primals, tangents
        further = _orders(v + 1, n_iter + 1)(x)
        below = jnp.concatenate([-further[1:2], further[:v]])
        return orders(x), t[None] * 0.5 * (below - further[1:])

    return orders


def _downwards(x: Any, v: int, n_iter: int) -> Any:
    zero = x == 0
    inverse = 2 / jnp.where(zero, 1, x)
    # What grows beyond this is scaled down, with all that depends on it.
    large = 1e18 if x.dtype == np.float32 else 1e150

    def step(carry: Any, order: Any) -> Any:
        above, here, total, kept = carry
        below = order * inverse * here - above
        kept = jnp.where((order <= v)[(None,) * kept.ndim] & (places == order), here[None], kept)
        even = order == 2 * jnp.floor(0.5 * order)
        total = total + jnp.where(even, 2 * here, 0)
        scale = jnp.where(jnp.abs(below) > large, 1 / large, 1.0)
        return (here * scale, below * scale, total * scale, kept * scale[None]), None

    places = jnp.arange(v + 1, dtype=x.dtype).reshape((v + 1,) + (1,) * x.ndim)
    start = jnp.zeros_like(x), jnp.full_like(x, 1e-30 if x.dtype == np.float32 else 1e-200)
    kept = jnp.zeros((v + 1, *x.shape), x.dtype)
    orders = jnp.arange(n_iter, 0, -1, dtype=x.dtype)
    (_, first, total, kept), _ = scan(step, (*start, jnp.zeros_like(x), kept), orders)
    kept = jnp.where(places == 0, first[None], kept) / (first + total)[None]
    return jnp.where(zero[None], jnp.where(places == 0, 1.0, 0.0), kept)
