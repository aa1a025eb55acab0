"""Derivatives of numbers near the ends of a type's range and of a domain, by exact formulas.

No intermediate result overflows, and none cancels more than the function's value has to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as jnp
from kiln.scipy import special

MAGNITUDES = {
    np.float16: 2.0 ** np.arange(-10, 11, 5),
    np.float32: 10.0 ** np.arange(-30, 31, 6),
    np.float64: 10.0 ** np.arange(-240, 241, 48),
}
"""By type: their squares are not numbers of it."""
MODERATE = np.array([0.01, 0.3, 0.7, 1.1, 2.3, 3.7, 7.1, 8.4, 9.7])

OF_TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "div": (lax.div, lambda x, y: 1 / y, lambda x, y: -x / y**2),
    "atan2": (lax.atan2, lambda x, y: y / (x**2 + y**2), lambda x, y: -x / (x**2 + y**2)),
    "hypot": (jnp.hypot, lambda x, y: x / mp.hypot(x, y), lambda x, y: y / mp.hypot(x, y)),
}
"""Functions of two numbers, and their slopes by each."""


def _of_i0e(x: Any) -> Any:
    return mp.exp(-abs(x)) * (mp.besseli(1, x) - mp.sign(x) * mp.besseli(0, x))


def _of_i1e(x: Any) -> Any:
    first = mp.besseli(1, x)
    return mp.exp(-abs(x)) * (mp.besseli(0, x) - first / x - mp.sign(x) * first)


RELATIVE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], str]] = {
    "acos": (lax.acos, lambda x: -1 / mp.sqrt(1 - x * x), "below 1"),
    "acosh": (lax.acosh, lambda x: 1 / mp.sqrt(x * x - 1), "above 1"),
    "asin": (lax.asin, lambda x: 1 / mp.sqrt(1 - x * x), "below 1"),
    "asinh": (lax.asinh, lambda x: 1 / mp.sqrt(1 + x * x), "any"),
    "atanh": (lax.atanh, lambda x: 1 / (1 - x * x), "below 1"),
    "bessel_i0e": (lax.bessel_i0e, _of_i0e, "moderate"),
    "bessel_i0e far": (lax.bessel_i0e, _of_i0e, "large"),
    "bessel_i1e": (lax.bessel_i1e, _of_i1e, "moderate"),
    "bessel_i1e far": (lax.bessel_i1e, _of_i1e, "large"),
    "cbrt": (lax.cbrt, lambda x: 1 / (3 * mp.cbrt(x) ** 2), "positive"),
    "cosh": (lax.cosh, mp.sinh, "moderate"),
    "digamma": (lax.digamma, lambda x: mp.psi(1, x), "positive"),
    "entr": (special.entr, lambda x: -mp.log(x) - 1, "positive"),
    "erf": (lax.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), "moderate"),
    "i0": (special.i0, lambda x: mp.besseli(1, x), "moderate"),
    "i0 near": (jnp.i0, lambda x: mp.besseli(1, x), "small"),
    "i1": (special.i1, lambda x: mp.besseli(0, x) - mp.besseli(1, x) / x, "moderate"),
    "lgamma": (lax.lgamma, mp.digamma, "positive"),
    "log": (lax.log, lambda x: 1 / x, "positive"),
    "log1p": (lax.log1p, lambda x: 1 / (1 + x), "positive"),
    "log_sigmoid": (kiln.nn.log_sigmoid, lambda x: 1 / (1 + mp.exp(x)), "moderate"),
    "logit": (special.logit, lambda x: 1 / (x - x * x), "chances"),
    "ndtr": (special.ndtr, mp.npdf, "moderate"),
    "rsqrt": (lax.rsqrt, lambda x: -1 / (2 * x * mp.sqrt(x)), "positive"),
    "sinh": (lax.sinh, mp.cosh, "moderate"),
    "softplus": (kiln.nn.softplus, lambda x: 1 / (1 + mp.exp(-x)), "moderate"),
    "sqrt": (lax.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), "positive"),
}
"""Functions whose slopes are exact but for rounding, the slopes, and where."""
ABSOLUTE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], str]] = {
    "expm1": (lax.expm1, mp.exp, "moderate"),
    "logistic": (lax.logistic, lambda x: mp.sech(x / 2) ** 2 / 4, "moderate"),
    "soft_sign": (kiln.nn.soft_sign, lambda x: 1 / (1 + abs(x)) ** 2, "any"),
    "tanh": (lax.tanh, lambda x: mp.sech(x) ** 2, "moderate"),
}
"""Those whose slopes are computed from the value, as 1 - value² is: as exact as the value is."""


def _points(where: str, dtype: Any) -> np.ndarray:
    size = MAGNITUDES[dtype] * 1.37
    below_one = 1 - 2.0 ** -np.arange(1, np.finfo(dtype).nmant)
    if where == "moderate":
        found = np.concatenate([MODERATE, -MODERATE])
    elif where == "positive":
        found = size
    elif where == "any":
        found = np.concatenate([size, -size, MODERATE])
    elif where == "small":
        found = np.concatenate([size[size < 1], -size[size < 1]])
    elif where == "large":
        found = np.array([20, -50, 1e3, -1e4, 1e7, -1e10])
        found = found[np.abs(found) < np.finfo(dtype).max]
    elif where == "above 1":
        found = np.concatenate([1 / below_one, size[size > 1]])
    elif where == "chances":
        found = np.concatenate([below_one, size[size < 0.1]])
    else:
        assert where == "below 1"
        found = np.concatenate([below_one, -below_one, size[size < 0.1]])
    return found.astype(dtype)


def _exact(slope: Callable[..., Any], *xs: np.ndarray) -> np.ndarray:
    with mp.workdps(60):
        return np.array(
            [float(slope(*map(mp.mpf, map(float, row)))) for row in zip(*xs, strict=True)]
        )


def _slopes(fun: Callable[..., Any], *xs: np.ndarray) -> list[list[np.ndarray]]:
    """Return the slopes by each operand: forward, and in reverse."""
    ones = np.ones_like(xs[0])
    with kiln.enable_x64(True):
        back = kiln.vjp(fun, *xs)[1](jnp.asarray(ones))
        found = []
        for i, pulled in enumerate(back):
            pushed = kiln.jvp(lambda z, i=i: fun(*xs[:i], z, *xs[i + 1 :]), (xs[i],), (ones,))[1]
            found.append([np.asarray(d) for d in (pushed, pulled)])
    return found


def _check(found: list[np.ndarray], exact: np.ndarray, least: float, units: int) -> None:
    limits = np.finfo(found[0].dtype)
    # A result below the least normal number has fewer digits.
    told = (np.abs(exact) < limits.max) & ((exact == 0) | (np.abs(exact) >= limits.tiny))
    assert told.any()
    for slope in found:
        assert slope.dtype == limits.dtype
        wide = slope.astype(np.float64)
        np.testing.assert_allclose(wide[told], exact[told], units * limits.eps, least)


@pytest.mark.parametrize("dtype", MAGNITUDES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", OF_TWO)
def test_no_square_overflows(name: str, dtype: Any) -> None:
    pairs = np.array(list(itertools.product(MAGNITUDES[dtype], repeat=2)))
    x, y = (pairs * (1.37, -1.11)).T.astype(dtype)
    fun, *slopes = OF_TWO[name]
    limits = np.finfo(dtype)
    # The slope by the shorter side is a product of three numbers, of which two may be lost.
    least = max(limits.eps**1.5, limits.tiny) if name == "hypot" else 0.0
    for found, slope in zip(_slopes(fun, x, y), slopes, strict=True):
        _check(found, _exact(slope, x, y), least, 8)


@pytest.mark.parametrize("dtype", MAGNITUDES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", RELATIVE)
def test_no_digit_is_lost(name: str, dtype: Any) -> None:
    fun, slope, where = RELATIVE[name]
    x = _points(where, dtype)
    _check(_slopes(fun, x)[0], _exact(slope, x), 0, 64)


@pytest.mark.parametrize("dtype", MAGNITUDES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", ABSOLUTE)
def test_slopes_are_as_exact_as_values(name: str, dtype: Any) -> None:
    fun, slope, where = ABSOLUTE[name]
    x = _points(where, dtype)
    exact = _exact(slope, x)
    for found in _slopes(fun, x)[0]:
        np.testing.assert_allclose(found, exact, *(2 * [4 * np.finfo(dtype).eps]))


def _second(fun: Callable[..., Any], by: int = 0) -> Callable[..., Any]:
    return kiln.grad(kiln.grad(fun), by)


EDGES: dict[str, tuple[Callable[..., Any], tuple[float, ...], float]] = {
    "cbrt at 0": (kiln.grad(lax.cbrt), (0.0,), np.inf),
    "cbrt at inf": (kiln.grad(lax.cbrt), (np.inf,), 0.0),
    "cbrt twice at 0": (_second(lax.cbrt), (0.0,), -np.inf),
    "i0 thrice at 0": (kiln.grad(_second(special.i0)), (0.0,), 0.0),
    "i1 twice at 0": (_second(special.i1), (0.0,), 0.0),
    "i1 of a subnormal": (kiln.grad(special.i1), (1e-40,), 0.5),
    "i1 twice near 0": (_second(special.i1), (0.01,), 0.00375),
    "i1e of a subnormal": (kiln.grad(special.i1e), (1e-40,), 0.5),
    "i1e twice near 0": (_second(special.i1e), (1e-5,), -0.99998125),
    "i1e twice below 0": (_second(special.i1e), (-1e-5,), 0.99998125),
    "kl_div by a small one": (kiln.grad(special.kl_div), (1e-30, 1.0), -69.0775528),
    "kl_div with a small one": (kiln.grad(special.kl_div, 1), (1.0, 1e-30), -1e30),
    "kl_div twice": (_second(special.kl_div), (1e-30, 1.0), 1e30),
    "log_ndtr twice of a large one": (_second(special.log_ndtr), (100.0,), 0.0),
    "log_ndtr twice of the largest": (_second(special.log_ndtr), (3e38,), 0.0),
    "log_ndtr twice far below 0": (_second(special.log_ndtr), (-1e19,), -1.0),
    "logaddexp of equal ones, twice": (_second(jnp.logaddexp), (0.3, 0.3), 0.25),
    "logaddexp of equal ones, by both": (_second(jnp.logaddexp, 1), (0.3, 0.3), -0.25),
    "logaddexp of nothing": (kiln.grad(jnp.logaddexp), (0.0, -np.inf), 1.0),
    "logaddexp2 of equal ones, twice": (_second(jnp.logaddexp2), (2.0, 2.0), np.log(2) / 4),
    "log_sigmoid twice at 0": (_second(kiln.nn.log_sigmoid), (0.0,), -0.25),
    "softplus twice at 0": (_second(kiln.nn.softplus), (0.0,), 0.25),
    "pow, its exponent 0, at inf": (kiln.grad(lax.pow), (np.inf, 0.0), 0.0),
    "pow, its exponent 0, at 0": (kiln.grad(lax.pow), (0.0, 0.0), 0.0),
    "pow, its exponent 0, by both": (_second(lax.pow, 1), (2.0, 0.0), 0.5),
    "pow, its exponent 0, twice": (_second(lax.pow), (1e-18, 0.0), 0.0),
    "rel_entr with a small one": (kiln.grad(special.rel_entr, 1), (1.0, 1e-30), -1e30),
    "rel_entr of inf": (kiln.grad(special.rel_entr), (np.inf, 1.0), np.inf),
    "rel_entr by both": (_second(special.rel_entr, 1), (3.0, 4.0), -0.25),
}
"""Derivatives, where their formulas have terms that are not finite, or cancel."""


@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str) -> None:
    derivative, point, exact = EDGES[name]
    operands = [np.float32(x) for x in point]
    for found in (derivative(*operands), kiln.jit(derivative)(*operands)):
        np.testing.assert_allclose(found, exact, 2e-6, 1e-6)
