"""Derive the polynomials of kiln/engines/native/elementary/coefficients.py, and write that file.

    python -m tests.unit.engines.native.elementary.coefficients

Each is the interpolation, with mpmath at 300 digits, of a smooth function at the Chebyshev points
of its interval, whose error is within a factor of 2 or so of the least possible. Where errors count
less and less, least squares with weights need fewer terms.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import mpmath as mp

# So many because a point may lie at 0, or NEAR, where the functions cancel.
mp.mp.dps = 300
LN2 = mp.log(2)
NEAR = mp.mpf(10) ** -50


def interpolated(f: Callable, low: float, high: float, degree: int) -> list:
    """Coefficients, constant first, of the polynomial through f at Chebyshev points."""
    n = degree + 1
    low, high = mp.mpf(low), mp.mpf(high)
    angles = [mp.pi * (k + mp.mpf(1) / 2) / n for k in range(n)]
    points = [(low + high) / 2 + (high - low) / 2 * mp.cos(a) for a in angles]
    values = [f(x if abs(x) > NEAR else NEAR) for x in points]
    series = [
        2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n
        for j in range(n)
    ]
    series[0] /= 2
    # From Chebyshev polynomials of u to powers of u, then of x = middle + half * u.
    powers = [mp.mpf(0)] * n
    before, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j in range(n):
        for i, c in enumerate(before):
            powers[i] += series[j] * c
        following = [mp.mpf(0), *[2 * c for c in current]]
        for i, c in enumerate(before):
            following[i] -= c
        before, current = current, following
    middle, half = (low + high) / 2, (high - low) / 2
    found = [mp.mpf(0)] * n
    for j, c in enumerate(powers):
        for i in range(j + 1):
            found[i] += c * mp.binomial(j, i) * (-middle) ** (j - i) / half**j
    return found


def weighted(f: Callable, weight: Callable, low: float, high: float, degree: int) -> list:
    """Coefficients, constant first, of the polynomial of least squares at Chebyshev points."""
    n = 4 * degree
    points = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (k + 0.5) / n) for k in range(n)]
    rows = [[weight(x) * x**j for j in range(degree + 1)] for x in points]
    found = mp.lu_solve(mp.matrix(rows), mp.matrix([weight(x) * f(x) for x in points]))
    return list(found)


def _odd(f: Callable, slope: float, z: mp.mpf) -> mp.mpf:
    """(f(x) / x - slope) / z at z = x^2 of an odd function."""
    x = mp.sqrt(z)
    return (f(x) / x - slope) / z


def _erfcx(t, k):
    x = k * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def _erf_log(x):
    return -mp.log(mp.erfc(x)) / x - 1


def _erf_inv(w):
    if abs(w) < 10 * NEAR:
        return mp.sqrt(mp.pi) / 2
    with mp.workdps(60):
        target = mp.sqrt(-mp.expm1(-w))
        # erfc(y) = 1 - target, without canceling.
        rest = mp.exp(-w) / (1 + target)
        y = mp.sqrt(w) * (0.9 if w > 1 else mp.sqrt(mp.pi) / 2)
        return mp.findroot(lambda y: mp.log(mp.erfc(y)) - mp.log(rest), y) / target


def _stirling(z):
    x = 1 / mp.sqrt(z)
    return (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def _digamma(z):
    x = 1 / mp.sqrt(z)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / z


HALF_LN2 = LN2 / 2
SPLIT = mp.sqrt(2)
LOG_S = ((SPLIT - 1) / (SPLIT + 1)) ** 2
QUARTER = (mp.pi / 4) ** 2
WHOLE = (mp.pi / 2) ** 2

# name: (function, low, high, degrees by dtype). The intervals are a little wider than needed.
FITS: dict = {
    # exp(r) = 1 + r + r^2 p(r)
    "exp": (lambda r: (mp.exp(r) - 1 - r) / r**2, -HALF_LN2, HALF_LN2, {"f32": 4, "f64": 9}),
    # 2^r = 1 + r p(r)
    "exp2": (lambda r: (mp.mpf(2) ** r - 1) / r, -0.5, 0.5, {"f32": 6, "f64": 11}),
    # sinh(r) = r + r^3 p(r^2); cosh(r) = 1 + r^2 / 2 + r^4 p(r^2)
    "sinh": (lambda z: _odd(mp.sinh, 1, z), 0, HALF_LN2**2, {"f32": 2, "f64": 5}),
    "cosh": (
        lambda z: (mp.cosh(mp.sqrt(z)) - 1 - z / 2) / z**2,
        0,
        HALF_LN2**2,
        {"f32": 2, "f64": 5},
    ),
    # log(1 + f) = f - f^2 / 2 + f^3 p(f)
    "log": (
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        1 / SPLIT - 1,
        SPLIT - 1,
        {"f32": 8, "f64": 20},
    ),
    # log(1 + f) = 2 s + s^3 p(s^2), s = f / (2 + f)
    "log_s": (lambda z: _odd(lambda s: 2 * mp.atanh(s), 2, z), 0, LOG_S, {"f64": 7}),
    # the same but for the term in s^3: p(z) = 2/3 + z q(z)
    "log_s5": (
        lambda z: (_odd(lambda s: 2 * mp.atanh(s), 2, z) - mp.mpf(2) / 3) / z,
        0,
        LOG_S,
        {"f64": 7},
    ),
    # log2(1 + f) = f p(f), of few digits: for pow of f32
    "log2_short": (
        lambda f: mp.log1p(f) / f / LN2,
        1 / SPLIT - 1,
        SPLIT - 1,
        {"f64": 15},
    ),
    "exp2_short": (lambda r: mp.mpf(2) ** r, -0.5, 0.5, {"f64": 7}),
    # sin(r) = r + r^3 p(r^2) below pi/2; below pi/4, and cos(r) = 1 - r^2 / 2 + r^4 p(r^2)
    "sin": (lambda z: _odd(mp.sin, 1, z), 0, WHOLE, {"f32": 4, "f64": 9}),
    "sin_short": (lambda z: _odd(mp.sin, 1, z), 0, QUARTER, {"f32": 2, "f64": 6}),
    "cos_short": (
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        0,
        QUARTER,
        {"f32": 2, "f64": 6},
    ),
    # atan(t) = t + t^3 p(t^2) up to 1/2
    "atan": (lambda z: _odd(mp.atan, 1, z), 0, 0.25, {"f32": 5, "f64": 13}),
    # asin(x) = x + x^3 p(x^2) below 1/2
    "asin": (lambda z: _odd(mp.asin, 1, z), 0, 0.25, {"f32": 5, "f64": 13}),
    # erf(x) = x + x p(x^2) below 1
    "erf": (lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, {"f32": 6, "f64": 11}),
    # erfc(x) exp(x^2) (1 + 2 x) = p((x - k) / (x + k)), k = 3.75: Shepherd and Laframboise (1981)
    "erfcx": (lambda t: _erfcx(t, mp.mpf(15) / 4), -1, 0.9999, {"f32": 12, "f64": 24}),
    # lgamma(2 + t) = t (1 + t) p(t) for |t| <= 1/2
    "lgamma": (
        lambda t: mp.loggamma(2 + t) / t / (1 + t),
        -0.5,
        0.5,
        {"f32": 8, "f64": 18},
    ),
    # lgamma(x) = (x - 1/2) log(x) - x + log(2 pi) / 2 + p(1 / x^2) / x for x >= 8
    "stirling": (_stirling, 0, 1 / mp.mpf(64), {"f32": 2, "f64": 7}),
    # digamma(x) = log(x) - 1 / (2 x) - p(1 / x^2) / x^2 for x >= 8
    "digamma": (_digamma, 0, 1 / mp.mpf(64), {"f32": 2, "f64": 7}),
    # erf_inv(x) = x p(w - middle), w = -log(1 - x^2), then x p(sqrt(w) - middle): Giles (2010)
    "erf_inv": (_erf_inv, 0, 5, {"f32": 9}),
    "erf_inv_tail": (lambda s: _erf_inv((s + 3) ** 2), 2.235 - 3, 4.1 - 3, {"f32": 8}),
}
LONG = {
    "erf_inv": (lambda w: _erf_inv(w + mp.mpf(25) / 8), -3.125, 3.125, {"f64": 22}),
    "erf_inv_tail": (lambda s: _erf_inv((s + 3.25) ** 2), 2.49 - 3.25, 4.01 - 3.25, {"f64": 18}),
    "erf_inv_far": (lambda s: _erf_inv((s + 5) ** 2), 3.99 - 5, 6.1 - 5, {"f64": 16}),
}  # fmt: skip


# name: (function, weight, low, high, degrees by dtype)
WEIGHTED: dict = {
    # erfc(x) = exp(-x^2 - p(x - 2)) between 1 and 6
    "erfcx_log": (
        lambda u: -mp.log(mp.erfc(u + 2)) - (u + 2) ** 2,
        lambda u: mp.erfc(u + 2),
        -1,
        4,
        {"f64": 17},
    ),
    # erf(x) = 1 - exp(-x - x p(x)) from 0 to 4
    "erf_log": (_erf_log, lambda x: x / mp.expm1(x + x * _erf_log(x)), 0, 4, {"f32": 8}),
}


def parts(x: mp.mpf, *digits: int) -> tuple[float, ...]:
    """x as a sum of floats: each truncated to its number of binary digits, the last rounded."""
    found = []
    for d in digits:
        exponent = int(mp.floor(mp.log(abs(x), 2))) + 1
        scaled = x * mp.mpf(2) ** (d - exponent)
        piece = mp.floor(scaled) if len(found) < len(digits) - 1 else mp.nint(scaled)
        piece *= mp.mpf(2) ** (exponent - d)
        found.append(float(piece))
        x -= piece
    return tuple(found)


# Sums of floats. The first part of ln 2 may be multiplied by an exponent without error.
SUMS = {
    "ln2": {"f32": parts(LN2, 16, 24), "f64": parts(LN2, 41, 53)},
    "1/ln2": {"f32": parts(1 / LN2, 24, 24), "f64": parts(1 / LN2, 53, 53)},
    "pi": {"f32": parts(mp.pi, 24, 24, 24), "f64": parts(mp.pi, 53, 53, 53)},
    "pi/2": {"f32": parts(mp.pi / 2, 24, 24, 24), "f64": parts(mp.pi / 2, 53, 53, 53)},
    "pi/4": {"f32": parts(mp.pi / 4, 24, 24), "f64": parts(mp.pi / 4, 53, 53)},
    "1/pi": {"f32": parts(1 / mp.pi, 24), "f64": parts(1 / mp.pi, 53)},
    "2/pi": {"f32": parts(2 / mp.pi, 24), "f64": parts(2 / mp.pi, 53)},
}


def derived() -> dict[str, dict[str, tuple[float, ...]]]:
    """All polynomials by name and dtype."""
    found: dict = {}
    for name, (f, low, high, degrees) in [*FITS.items(), *LONG.items()]:
        for dtype, degree in degrees.items():
            width = high - low
            low_, high_ = (low - width * 1e-4 if low < 0 else low), high + width * 1e-4
            if name == "erfcx":
                low_, high_ = low, high
            found.setdefault(name, {})[dtype] = tuple(
                float(c) for c in interpolated(f, low_, high_, degree)
            )
    for name, (f, weight, low, high, degrees) in WEIGHTED.items():
        found[name] = {
            dtype: tuple(float(c) for c in weighted(f, weight, low, high, degree))
            for dtype, degree in degrees.items()
        }
    return {**found, **SUMS}


def text() -> str:
    """What the generated file contains."""
    lines = [
        '"""Coefficients of polynomials, constant term first, by function and precision.',
        "",
        "Generated by tests/unit/engines/native/elementary/coefficients.py, which says what each",
        "one approximates: interpolations at Chebyshev points. Numbers such as pi are sums of",
        "floats.",
        '"""',
        "",
        "# fmt: off",
        "COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {",
    ]
    for name, by_dtype in derived().items():
        lines.append(f'    "{name}": {{')
        for dtype, numbers in by_dtype.items():
            lines.append(f'        "{dtype}": (')
            rows = [numbers[i : i + 3] for i in range(0, len(numbers), 3)]
            lines += ["            " + " ".join(f"{c!r}," for c in row) for row in rows]
            lines.append("        ),")
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    root = pathlib.Path(__file__).parents[5]
    path = root / "src/kiln/engines/native/elementary/coefficients.py"
    path.write_text(text())
    print(f"wrote {path}")
