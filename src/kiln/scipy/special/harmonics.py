"""Spherical harmonics, by the recurrence of the normalized associated Legendre functions.

Source: Holmes and Featherstone, "A unified approach to the Clenshaw summation and the recursive
computation of very high degree and order normalized associated Legendre functions" (2002).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops.loops import fori_loop
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import lifted, promote_inexact
from kiln.ops.elements.conversion import complex as join_complex


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Return the spherical harmonics of degree `n` and order `m`; |m| > n gives 0.

    `theta` is the polar angle, `phi` that around the axis. `n_max`, the largest degree, must be
    given where `n` is traced. The operands broadcast.

    Raises: NotImplementedError for derivatives (`diff_n`), ValueError without a known degree.
    Example:
        >>> degree, order = jnp.array([1]), jnp.array([0])
        >>> kiln.scipy.special.sph_harm_y(degree, order, 0.0, 0.0, n_max=1).round(4)
        Array([0.4886+0.j], dtype=complex64)
    """
    if diff_n:
        raise NotImplementedError(
            three_lines(
                f"sph_harm_y with diff_n={diff_n} at {current_source()}",
                "sph_harm_y returns no derivatives",
                "differentiate it with kiln.jvp",
            )
        )
    if n_max is None:
        n_max = _largest(n)
    theta, phi = (lifted(x) for x in promote_inexact("sph_harm_y", theta, phi))
    degree, order, theta, phi = jnp.broadcast_arrays(jnp.asarray(n), jnp.asarray(m), theta, phi)
    size = jnp.abs(order)
    value = _legendre(degree, size, theta, int(n_max))
    odd = (order < 0) & (size % 2 == 1)
    value = jnp.where(odd, -value, value)
    angle = order.astype(value.dtype) * phi
    return join_complex(value * jnp.cos(angle), value * jnp.sin(angle))


def _largest(n: Any) -> int:
    try:
        return int(np.max(np.asarray(n)))
    except Exception as error:
        raise ValueError(
            three_lines(
                f"sph_harm_y of a traced degree at {current_source()}",
                "the largest degree decides the number of steps, and is not known",
                "pass n_max=8, or the degree as a NumPy array",
            )
        ) from error


def _legendre(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """Return the function whose square has the integral 1 over the sphere."""
    dtype = theta.dtype
    c, s = jnp.cos(theta), jnp.abs(jnp.sin(theta))
    degree, order = n.astype(dtype), m.astype(dtype)
    one = jnp.ones_like(theta)

    def diagonal(i: Any, value: Any) -> Any:
        i = jnp.asarray(i, dtype)
        return jnp.where(i <= order, -jnp.sqrt((2 * i + 1) / (2 * i)) * s * value, value)

    start = fori_loop(1, n_max + 1, diagonal, one / math.sqrt(4 * math.pi))

    def upward(i: Any, carry: Any) -> Any:
        before, here = carry
        i = jnp.asarray(i, dtype)
        active = (i > order) & (i <= degree)
        k = jnp.where(active, i, order + 1)
        gap = (k - order) * (k + order)
        last = jnp.maximum((k - 1 - order) * (k - 1 + order), 0)
        lead = jnp.sqrt((2 * k - 1) * (2 * k + 1) / gap)
        fade = jnp.sqrt(last / jnp.maximum((2 * k - 3) * (2 * k - 1), 1))
        after = lead * (c * here - fade * before)
        return jnp.where(active, here, before), jnp.where(active, after, here)

    _, value = fori_loop(1, n_max + 1, upward, (0 * one, start))
    return jnp.where(m > n, 0, value)
