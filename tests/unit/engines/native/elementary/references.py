"""What elementary functions should give, how exact they must be, and on which arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mpmath as mp
import numpy as np
import scipy.special


class Case(NamedTuple):
    """One function: references in f64 and for mpmath, intervals, and bounds of errors in ulp."""

    wide: Callable[..., np.ndarray]
    exact: Callable[..., mp.mpf]
    intervals: Sequence[tuple[float, float]]
    bounds: tuple[float, float]
    """Of f32 and f64."""
    arity: int = 1
    floor: float = 0.0
    """Below this size of results errors are those of an absolute error: near zeros."""


def _logistic(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _erf_inv(x: mp.mpf) -> mp.mpf:
    if abs(x) >= 1:
        return mp.inf * x if abs(x) == 1 else mp.nan
    return x * mp.sqrt(mp.pi) / 2 if abs(x) < 1e-30 else mp.erfinv(x)


def _power(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    if x == 0 or y == 0:
        return mp.mpf(float(np.power(float(x), float(y))))
    if x < 0 and y != int(y):
        return mp.nan
    # Far out of range the digits of the result would be those of its exponent.
    size = y * mp.log(abs(x))
    return mp.inf if size > 1000 else mp.mpf(0) if size < -1000 else x**y


def _lgamma(x: mp.mpf) -> mp.mpf:
    if not mp.isfinite(x) or (x <= 0 and x == mp.floor(x)):
        return mp.inf
    if x > 0:
        return mp.loggamma(x)
    return mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


def _digamma(x: mp.mpf) -> mp.mpf:
    if x <= 0 and x == mp.floor(x):
        return mp.nan
    return mp.digamma(x) if x > 0 else mp.digamma(1 - x) - mp.pi * mp.cospi(x) / mp.sinpi(x)


def _digamma_in_f64(x: np.ndarray) -> np.ndarray:
    return np.where((x <= 0) & (x == np.rint(x)), np.nan, scipy.special.digamma(x))


def _real(f: Callable[..., mp.mpf], low: float, high: float) -> Callable[..., mp.mpf]:
    return lambda x: f(x) if low <= x <= high else mp.nan


def _bounded(f: Callable[..., mp.mpf], limit: float) -> Callable[..., mp.mpf]:
    # Beyond, exp overflows or vanishes, and mpmath would take its time.
    return lambda x: f(mp.mpf(min(max(x, -limit), limit)))


_inf = float("inf")
CASES: dict[str, Case] = {
    "exp": Case(np.exp, _bounded(mp.exp, 1e4), [(-746, 711), (-105, 90), (-2, 2)], (1.2, 1.2)),
    "exp2": Case(
        np.exp2, _bounded(lambda x: mp.mpf(2) ** x, 1e4),
        [(-1076, 1025), (-151, 129), (-2, 2)], (1.0, 1.0),
    ),
    "expm1": Case(np.expm1, _bounded(mp.expm1, 1e4), [(-40, 90), (-1, 1)], (1.5, 1.5)),
    "logistic": Case(
        _logistic, _bounded(lambda x: 1 / (1 + mp.exp(-x)), 1e4),
        [(-746, 40), (-105, 20), (-2, 2)], (2.5, 2.3),
    ),
    "sinh": Case(np.sinh, _bounded(mp.sinh, 1e4), [(-711, 711), (-90, 90), (-1, 1)], (0.6, 1.8)),
    "cosh": Case(np.cosh, _bounded(mp.cosh, 1e4), [(-711, 711), (-90, 90), (-1, 1)], (0.6, 1.8)),
    "tanh": Case(np.tanh, _bounded(mp.tanh, 1e2), [(-20, 20), (-1, 1)], (2.1, 2.0)),
    "log": Case(
        np.log, _real(mp.log, 0, _inf), [(0, 1e-307), (0, 1e-38), (0.5, 2), (0, 100)], (0.9, 0.9),
    ),
    "log2": Case(
        np.log2, _real(lambda x: mp.log(x, 2), 0, _inf),
        [(0, 1e-307), (0, 1e-38), (0.5, 2), (0, 100)], (1.2, 1.2),
    ),
    "log1p": Case(np.log1p, _real(mp.log1p, -1, _inf), [(-1, -0.5), (-0.5, 2)], (1.5, 1.5)),
    "asinh": Case(np.arcsinh, mp.asinh, [(-1, 1), (-50, 50)], (0.6, 2)),
    "acosh": Case(np.arccosh, _real(mp.acosh, 1, _inf), [(1, 1.1), (1, 50)], (0.6, 2.8)),
    "atanh": Case(np.arctanh, _real(mp.atanh, -1, 1), [(-0.1, 0.1), (-1, 1)], (0.6, 2.3)),
    "sin": Case(np.sin, mp.sin, [(-4, 4), (-65600, 65600), (-2e9, 2e9)], (1.0, 1.0)),
    "cos": Case(np.cos, mp.cos, [(-4, 4), (-65600, 65600), (-2e9, 2e9)], (1.0, 1.0)),
    "tan": Case(np.tan, mp.tan, [(-4, 4), (-65600, 65600), (-2e9, 2e9)], (0.9, 1.3)),
    "asin": Case(np.arcsin, _real(mp.asin, -1, 1), [(-0.5, 0.5), (-1, 1)], (1.8, 1.8)),
    "acos": Case(np.arccos, _real(mp.acos, -1, 1), [(-0.5, 0.5), (-1, 1)], (1.5, 1.5)),
    "atan": Case(np.arctan, mp.atan, [(-1, 1), (-9, 9)], (1.9, 1.9)),
    "atan2": Case(np.arctan2, mp.atan2, [(-1, 1), (-9, 9)], (1.9, 1.9), 2),
    "pow": Case(np.power, _power, [(0.5, 2), (0, 40)], (0.6, 1.0), 2),
    "cbrt": Case(
        np.cbrt, lambda x: mp.cbrt(abs(x)) * mp.sign(x), [(0, 1e-307), (-9, 9)], (0.6, 1.0),
    ),
    "rsqrt": Case(
        lambda x: 1 / np.sqrt(x), _real(lambda x: 1 / mp.sqrt(x) if x else mp.inf, 0, _inf),
        [(0, 1e-307), (0, 1e-38), (0.25, 4)], (1.6, 1.6),
    ),
    "erf": Case(scipy.special.erf, _bounded(mp.erf, 30), [(-1, 1), (-6, 6)], (2.0, 1.5)),
    "erfc": Case(scipy.special.erfc, _bounded(mp.erfc, 30), [(-1, 1), (0, 11), (0, 28)], (0.9, 5)),
    "erf_inv": Case(scipy.special.erfinv, _erf_inv, [(-1, 1), (0.999, 1)], (3.2, 4)),
    "lgamma": Case(
        scipy.special.gammaln, _lgamma, [(0, 3), (-9, 9), (9, 100)], (0.8, 8.0), floor=1.0,
    ),
    "digamma": Case(_digamma_in_f64, _digamma, [(0, 3), (-9, 9), (9, 100)], (0.8, 16.0), floor=1.0),
    "rem": Case(np.fmod, None, [(-1, 1), (-9, 9)], (0.5, 0.5), 2),
}  # fmt: skip

_SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, -2.5, 1e9, -1e9]


def special(dtype: str) -> np.ndarray:
    """Zeros, ones, infinities, nan, and the ends of the range."""
    info = np.finfo(dtype)
    ends = [info.max, info.tiny, info.smallest_subnormal, info.eps]
    return np.array([*_SPECIAL, np.inf, -np.inf, np.nan, *ends, *[-e for e in ends]], dtype)


def arguments(case: Case, dtype: str, n: int, seed: int = 0) -> list[np.ndarray]:
    """Random bits, numbers of middling exponents, and uniform ones in each interval: n of each."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    found = []
    for _ in range(case.arity):
        unsigned = np.dtype(f"u{kind.itemsize}")
        pieces = [rng.integers(0, np.iinfo(unsigned).max, n, unsigned).view(kind)]
        powers = np.ldexp(rng.uniform(1, 2, n), rng.integers(-40, 12, n))
        pieces.append(powers * rng.choice([-1, 1], n))
        pieces += [rng.uniform(low, high, n) for low, high in case.intervals]
        found.append(np.concatenate([p.astype(kind) for p in pieces]))
    return found


def in_f64(case: Case, xs: Sequence[np.ndarray]) -> np.ndarray:
    """References for f32: those of f64."""
    with np.errstate(all="ignore"):
        return np.asarray(case.wide(*[x.astype(np.float64) for x in xs]))


def in_mpmath(case: Case, xs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """References for f64, as sums of two numbers."""
    if case.exact is None:
        found = in_f64(case, xs)
        return found, np.zeros_like(found)
    high, low = [], []
    with mp.workprec(160):
        for row in zip(*[x.tolist() for x in xs], strict=True):
            exact = mp.nan
            if all(v == v for v in row):
                exact = case.exact(*[mp.mpf(v) for v in row])
            if isinstance(exact, mp.mpc):
                exact = mp.nan
            high.append(float(exact))
            low.append(float(exact - high[-1]) if mp.isfinite(exact) else 0.0)
    return np.array(high), np.array(low)


def errors(
    found: np.ndarray, wanted: np.ndarray, low: np.ndarray | float = 0.0, floor: float = 0.0
) -> np.ndarray:
    """Errors in ulp of the result's dtype; infinite where nan or infinity disagree."""
    kind = found.dtype
    info = np.finfo(kind)
    with np.errstate(all="ignore"):
        wide = found.astype(np.float64)
        # Overflow begins half an ulp above the largest number.
        rounded = wanted.astype(kind).astype(np.float64)
        exact = np.isfinite(rounded)
        agree = (wide == rounded) | (np.isnan(wide) & np.isnan(rounded))
        near = (np.abs(wanted) > float(info.max) * (1 - 4 * float(info.eps))) & ~np.isnan(wide)
        size = np.maximum(np.abs(np.where(exact, rounded, 1)), floor)
        error = np.abs((wide - wanted) - low) / np.spacing(size.astype(kind)).astype(np.float64)
    return np.where(exact & np.isfinite(wide), error, np.where(agree | near, 0, np.inf))
