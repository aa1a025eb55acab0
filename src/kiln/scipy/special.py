"""Special functions, by the names of `scipy.special`.

A function returns floats; integers are converted first. Where an expression has no limit at the
edge of its domain, the limit and its derivative are given (`xlogy(0, 0)` is 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_jvp import custom_jvp
from kiln.control.special_loops import betainc as lax_betainc
from kiln.control.special_loops import igamma, igammac
from kiln.core.array_type import Array, ArrayLike
from kiln.nn.normalization import log_softmax, logsumexp, softmax
from kiln.numpy.elementary import log, log1p
from kiln.numpy.promotion import inexact, lifted, promote_inexact
from kiln.numpy.ranges import arange
from kiln.numpy.reductions import sum as total
from kiln.numpy.selection import where
from kiln.ops import special as lax_special
from kiln.ops.elementwise import logistic

__all__ = [
    "betainc",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "expit",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0e",
    "i1e",
    "kl_div",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "polygamma",
    "rel_entr",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]


def erf(x: ArrayLike) -> Array:
    """Return the error function."""
    return lax_special.erf(inexact("erf", x))


def erfc(x: ArrayLike) -> Array:
    """Return 1 - erf(x), accurate where it is small."""
    return lax_special.erfc(inexact("erfc", x))


def erfinv(x: ArrayLike) -> Array:
    """Return the inverse of erf."""
    return lax_special.erf_inv(inexact("erfinv", x))


def gammaln(x: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the gamma function."""
    return lax_special.lgamma(inexact("gammaln", x))


def digamma(x: ArrayLike) -> Array:
    """Return the derivative of gammaln."""
    return lax_special.digamma(inexact("digamma", x))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the derivative of order `n` of digamma."""
    return lax_special.polygamma(*promote_inexact("polygamma", n, x))


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Return the Hurwitz zeta function.

    Raises: NotImplementedError without `q`.
    """
    if q is None:
        raise NotImplementedError(
            three_lines(
                f"zeta(x) at {current_source()}",
                "Riemann zeta function not implemented; pass q != None to compute the Hurwitz Zeta "
                "function",
                "write zeta(x, 1)",
            )
        )
    return lax_special.zeta(*promote_inexact("zeta", x, q))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularised lower incomplete gamma function."""
    return igamma(*promote_inexact("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularised upper incomplete gamma function."""
    return igammac(*promote_inexact("gammaincc", a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularised incomplete beta function."""
    return lax_betainc(*promote_inexact("betainc", a, b, x))


def i0e(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 0, times exp(-|x|)."""
    return lax_special.bessel_i0e(inexact("i0e", x))


def i1e(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 1, times exp(-|x|)."""
    return lax_special.bessel_i1e(inexact("i1e", x))


def expit(x: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return logistic(inexact("expit", x))


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """Return the logarithm of the gamma function of `d` dimensions; `d` is a known integer."""
    number = int(d)  # type: ignore[arg-type]
    a = lifted(inexact("multigammaln", a))
    terms = gammaln(a[..., None] - 0.5 * arange(number, dtype=a.dtype))
    return total(terms, axis=-1) + number * (number - 1) / 4 * math.log(math.pi)


@custom_jvp
def _logit(x: Any) -> Any:
    return log(x / (1 - x))


@_logit.defjvp
def _logit_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    return _logit(x), t / (x * (1 - x))


def logit(x: ArrayLike) -> Array:
    """Return log(x / (1 - x)), the inverse of expit."""
    return _logit(inexact("logit", x))


@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    nonzero = x != 0
    return where(nonzero, x * log(where(nonzero, y, 1)), 0)


@_xlogy.defjvp
def _xlogy_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _xlogy(x, y), dx * log(y) + dy * x / y


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x log(y); 0 where x is 0.

    Example:
        >>> float(kiln.scipy.special.xlogy(0.0, 0.0))
        0.0
    """
    return _xlogy(*promote_inexact("xlogy", x, y))


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    nonzero = x != 0
    return where(nonzero, x * log1p(where(nonzero, y, 1)), 0)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _xlog1py(x, y), dx * log1p(y) + dy * x / (1 + y)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x log(1 + y); 0 where x is 0."""
    return _xlog1py(*promote_inexact("xlog1py", x, y))


def entr(x: ArrayLike) -> Array:
    """Return -x log(x); 0 at 0, and -inf for negative numbers."""
    x = inexact("entr", x)
    return where(x < 0, -math.inf, -xlogy(x, x))


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """Return p log(p / q); 0 if p is 0 and q is not negative, else inf outside the domain."""
    p, q = promote_inexact("rel_entr", p, q)
    both, first = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    p, q = where(both, p, 1), where(both, q, 1)
    return where(both, xlogy(p, p) - xlogy(p, q), where(first, 0, math.inf))


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """Return p log(p / q) - p + q."""
    p, q = promote_inexact("kl_div", p, q)
    return rel_entr(p, q) - p + q
