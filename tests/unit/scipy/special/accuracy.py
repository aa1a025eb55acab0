"""Errors of special functions against mpmath; writes docs/special.md.

python -m tests.unit.scipy.special.accuracy docs/special.md
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import scipy.special

import kiln
from kiln.scipy import special

Reference = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Interval:
    """Arguments drawn uniformly, by their logarithms, or as integers."""

    low: float
    high: float
    kind: str = "uniform"

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return arguments in 64 bits."""
        if self.kind == "integers":
            return np.floor(rng.uniform(self.low, self.high + 1, count))
        if self.kind == "logarithms":
            return np.exp(rng.uniform(np.log(self.low), np.log(self.high), count))
        return rng.uniform(self.low, self.high, count)

    def __str__(self) -> str:
        braces = "{}" if self.kind == "integers" else "[]"
        return f"{braces[0]}{self.low:g}, {self.high:g}{braces[1]}"


@dataclasses.dataclass(frozen=True)
class Case:
    """A function, where it is measured, and the largest errors in f32 and f64 that are allowed."""

    name: str
    reference: Reference
    domain: tuple[Interval, ...]
    f32: float
    f64: float
    result: int = 0
    seen: str = ""

    def __call__(self, *xs: Any) -> Any:
        out = getattr(special, self.name)(*xs)
        return out[self.result] if isinstance(out, tuple) else out

    @property
    def title(self) -> str:
        """The name in the table."""
        return self.seen or self.name


def _u(low: float, high: float) -> Interval:
    return Interval(low, high)


def _g(low: float, high: float) -> Interval:
    return Interval(low, high, "logarithms")


def _i(low: float, high: float) -> Interval:
    return Interval(low, high, "integers")


def _erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def _ndtri(p: Any) -> Any:
    return mp.sqrt(2) * mp.erfinv(2 * p - 1)


def _owens_t(h: Any, a: Any) -> Any:
    def integrand(x: Any) -> Any:
        return mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x)

    return mp.quad(integrand, mp.linspace(0, a, 5)) / (2 * mp.pi)


def _upper_gamma(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, True)


def _kl_div(p: Any, q: Any) -> Any:
    return p * mp.log(p / q) - p + q


CASES = [
    Case("gamma", mp.gamma, (_u(0, 30),), 8, 8),
    Case("gamma", mp.gamma, (_u(30, 170),), 4, 6, seen="gamma, large"),
    Case("gamma", mp.gamma, (_u(-20, 0),), 8, 8, seen="gamma, negative"),
    Case("gammaln", lambda x: mp.log(abs(mp.gamma(x))), (_u(3, 100),), 2, 4),
    Case("digamma", mp.digamma, (_u(2, 100),), 2, 10),
    Case("polygamma", lambda n, x: mp.polygamma(int(n), x), (_i(1, 4), _u(0.1, 30)), 8, 16),
    Case("zeta", mp.zeta, (_u(1.1, 20), _u(0.1, 20)), 20, 20),
    Case("beta", mp.beta, (_g(0.01, 15), _g(0.01, 15)), 60, 60),
    Case("betaln", lambda a, b: mp.log(mp.beta(a, b)), (_g(10, 1e4), _g(10, 1e4)), 4, 4),
    Case("gammainc", lambda a, x: mp.gammainc(a, 0, x, True), (_u(0.1, 30), _u(0.1, 30)), 150, 200),
    Case("gammaincc", _upper_gamma, (_u(1, 30), _u(0.1, 30)), 120, 150),
    Case(
        "betainc",
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        (_u(0.5, 20), _u(0.5, 20), _u(0, 1)),
        250,
        250,
    ),
    Case("factorial", mp.factorial, (_i(0, 30),), 6, 6),
    Case("comb", mp.binomial, (_i(10, 30), _i(0, 10)), 8, 8),
    Case("poch", mp.rf, (_u(0, 10), _i(0, 8)), 10, 10),
    Case("erf", mp.erf, (_u(-3, 3),), 2, 2),
    Case("erfc", mp.erfc, (_u(-3, 9),), 3, 5),
    Case("erfinv", mp.erfinv, (_u(-1, 1),), 4, 5),
    Case("erfcx", _erfcx, (_u(-5, 30),), 6, 12),
    Case("dawsn", lambda x: x * mp.hyp1f1(1, 1.5, -x * x), (_u(-20, 20),), 4, 4),
    Case("ndtr", mp.ncdf, (_u(-12, 8),), 6, 6),
    Case("log_ndtr", lambda x: mp.log(mp.ncdf(x)), (_u(-30, 8),), 6, 6),
    Case("ndtri", _ndtri, (_u(0, 1),), 6, 6),
    Case("owens_t", _owens_t, (_u(0, 5), _u(0, 4)), 30, 60),
    Case("exp1", mp.e1, (_g(1e-3, 80),), 10, 10),
    Case("expi", mp.ei, (_g(0.5, 80),), 20, 20),
    Case("expn", lambda n, x: mp.expint(int(n), x), (_i(1, 10), _g(0.1, 50)), 30, 80),
    Case("sici", mp.si, (_g(1e-3, 100),), 30, 30, 0, "sici: Si"),
    Case("sici", mp.ci, (_u(0.7, 3),), 30, 30, 1, "sici: Ci"),
    Case("fresnel", mp.fresnels, (_g(1e-3, 100),), 4, 4, 0, "fresnel: S"),
    Case("fresnel", mp.fresnelc, (_g(1e-3, 100),), 4, 4, 1, "fresnel: C"),
    Case("spence", lambda x: mp.polylog(2, 1 - x), (_u(0.01, 10),), 8, 16),
    Case("i0", lambda x: mp.besseli(0, x), (_u(-20, 20),), 4, 4),
    Case("i1", lambda x: mp.besseli(1, x), (_u(-20, 20),), 4, 4),
    Case("i0e", lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (_u(-20, 20),), 4, 4),
    Case("i1e", lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), (_u(-20, 20),), 4, 4),
    Case("hyp1f1", mp.hyp1f1, (_u(0.1, 5), _u(0.1, 5), _u(-10, 20)), 3e3, 3e3),
    Case("hyp2f1", mp.hyp2f1, (_u(0.1, 3), _u(0.1, 3), _u(0.5, 6), _u(-2, 0.9)), 2e3, 2e3),
    Case("expit", lambda x: 1 / (1 + mp.exp(-x)), (_u(-30, 30),), 4, 4),
    Case("logit", lambda x: mp.log(x / (1 - x)), (_u(0, 1),), 4, 4),
    Case("xlogy", lambda x, y: x * mp.log(y), (_u(0, 3), _u(0, 3)), 4, 4),
    Case("xlog1py", lambda x, y: x * mp.log1p(y), (_u(0, 3), _u(0, 3)), 4, 4),
    Case("entr", lambda x: -x * mp.log(x), (_u(0, 3),), 4, 4),
    Case("rel_entr", lambda p, q: p * mp.log(p / q), (_u(0, 3), _u(0, 3)), 6, 6),
    Case("kl_div", _kl_div, (_u(0.01, 3), _u(0.01, 3)), 60, 60),
    Case("boxcox", lambda x, k: mp.expm1(k * mp.log(x)) / k, (_g(0.01, 100), _u(-3, 3)), 30, 30),
]


def errors(found: Any, wanted: list[Any], dtype: Any) -> np.ndarray:
    """Return errors in units of the last place of the exact results."""
    rounded = np.array([float(w) for w in wanted]).astype(dtype)
    exact = np.array([float(mp.mpf(float(f)) - w) for f, w in zip(found, wanted, strict=True)])
    return np.abs(exact) / np.spacing(np.abs(rounded)).astype(float)


def measured(case: Case, dtype: Any, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of a compiled function, and those of SciPy."""
    rng = np.random.default_rng(seed)
    xs = [part.draw(rng, count).astype(dtype) for part in case.domain]
    with kiln.enable_x64(dtype == np.float64):
        found = np.asarray(kiln.jit(case)(*xs))
    assert found.dtype == dtype, (case.name, found.dtype)
    with mp.workdps(40), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [case.reference(*[mp.mpf(float(x)) for x in point]) for point in zip(*xs)]
        theirs = getattr(scipy.special, case.name, None)
        if case.name == "digamma":
            theirs = scipy.special.psi
        out = theirs(*xs)
        out = out[case.result] if isinstance(out, tuple) else out
        most = float(np.finfo(dtype).max)
        fine = np.array([abs(w) < most for w in wanted])
        kept = [w for w in wanted if abs(w) < most]
        return (
            errors(found[fine], kept, dtype),
            errors(np.asarray(out)[fine].astype(dtype), kept, dtype),
        )


HEADER = """# Special functions

Generated by `python -m tests.unit.scipy.special.accuracy docs/special.md`. Errors of the functions
of `kiln.scipy.special`, compiled by the default engine, in units of the last place (ulp) of the
exact result, which mpmath computes: the largest of {count} random arguments, and in brackets the
median. SciPy's functions are measured on the same arguments. Functions that are not in the table
are expressions of those that are. Results of f16 and bf16 are those of f32, rounded. Near zeros of
a function errors are larger than here, as SciPy's are.

| function | arguments | f32 | SciPy, f32 | f64 | SciPy, f64 |
|---|---|---|---|---|---|
"""


def text(count: int) -> str:
    """The whole document."""
    rows = []
    for case in CASES:
        cells = [case.title, " × ".join(map(str, case.domain))]
        for dtype in (np.float32, np.float64):
            for found in measured(case, dtype, count):
                cells.append(f"{found.max():.1f} ({np.median(found):.1f})")
        rows.append("| " + " | ".join(cells) + " |\n")
        print(rows[-1], end="")
    return HEADER.format(count=count) + "".join(rows)


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(text(300))
