"""Write the series of special functions: `python -m tests.unit.scipy.special.coefficients`.

Interpolates, with 60 digits, each smooth part of a special function at Chebyshev points, and drops
coefficients below half a unit in the last place of f64.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

import kiln

TARGET = Path(kiln.__file__).parent / "scipy" / "special" / "coefficients.py"
DIGITS = 60
MOST_TERMS = 80
PRECISION = 2.0**-55

HEADER = '''"""Chebyshev series of the smooth parts of special functions; generated, do not edit.

`SERIES[name]` has one (low, high, coefficients) for each interval of the variable. Written by
`tests/unit/scipy/special/coefficients.py`, which says what each function is.
"""

from __future__ import annotations

Piece = tuple[float, float, tuple[float, ...]]

# fmt: off
'''

Function = Callable[[Any], Any]


def erfcx(x: Any) -> Any:
    return mp.exp(x * x) * mp.erfc(x)


def scaled_complement(t: Any) -> Any:
    if t > 1 - mp.mpf(10) ** -20:
        return 2 / mp.sqrt(mp.pi)
    x = mp.mpf("3.75") * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


def dawson(x: Any) -> Any:
    # 1F1(1; 3/2; -x^2)
    return x * mp.hyp1f1(1, mp.mpf(3) / 2, -x * x)


def of_inverse(fun: Function, limit: Any = 1) -> Function:
    """Return fun(1/t), and its limit at 0."""
    return lambda t: mp.mpf(limit) if abs(t) < mp.mpf(10) ** -30 else fun(1 / t)


def cosine_part(x: Any) -> Any:
    """Return (euler + log(x) - Ci(x)) / x^2."""
    return (mp.euler + mp.log(x) - mp.ci(x)) / x**2 if x else mp.mpf(1) / 4


def auxiliary_f(x: Any) -> Any:
    return mp.ci(x) * mp.sin(x) + (mp.pi / 2 - mp.si(x)) * mp.cos(x)


def auxiliary_g(x: Any) -> Any:
    return (mp.pi / 2 - mp.si(x)) * mp.sin(x) - mp.ci(x) * mp.cos(x)


def fresnel_f(x: Any) -> Any:
    angle = mp.pi * x * x / 2
    half = mp.mpf(1) / 2
    return (half - mp.fresnels(x)) * mp.cos(angle) - (half - mp.fresnelc(x)) * mp.sin(angle)


def fresnel_g(x: Any) -> Any:
    angle = mp.pi * x * x / 2
    half = mp.mpf(1) / 2
    return (half - mp.fresnelc(x)) * mp.cos(angle) + (half - mp.fresnels(x)) * mp.sin(angle)


def gamma_star(x: Any) -> Any:
    return mp.gamma(x) * mp.exp(x) * x ** (mp.mpf(1) / 2 - x) / mp.sqrt(2 * mp.pi)


def normal_center(u: Any) -> Any:
    """Return the quantile of 1/2 + q, divided by q, for q^2 = u."""
    q = mp.sqrt(abs(u))
    return mp.sqrt(2) * mp.erfinv(2 * q) / q if q > mp.mpf(10) ** -25 else mp.sqrt(2 * mp.pi)


def normal_tail(r: Any) -> Any:
    """Return the quantile of 1 - exp(-r^2), divided by r."""

    def distance(x: Any) -> Any:
        return mp.log(mp.erfc(x / mp.sqrt(2)) / 2) + r * r

    start = mp.sqrt(2 * r * r - mp.log(4 * mp.pi * r * r))
    return mp.findroot(distance, start) / r


# By name: the function, and the ends of the intervals, which are floats: they do not depend on
# the precision that mpmath has when this is loaded.
FUNCTIONS: dict[str, tuple[Function, list[Any]]] = {
    "scaled_complement": (scaled_complement, [-1, 1]),
    "dawson_near": (lambda u: dawson(mp.sqrt(u)) / mp.sqrt(u) if u else mp.mpf(1), [0, 2, 6]),
    "dawson_far": (
        lambda s: 1 / mp.mpf(2) if s < 1e-30 else dawson(1 / mp.sqrt(s)) / mp.sqrt(s),
        [0, 1 / 16, 1 / 6],
    ),
    "entire_exponential": (
        lambda x: (mp.ei(x) - mp.euler - mp.log(abs(x))) / x if x else mp.mpf(1),
        [-1, 0, 6],
    ),
    "growing_exponential": (
        of_inverse(lambda x: x * mp.exp(-x) * mp.ei(x)),
        [0, 1 / 40, 1 / 20, 1 / 10, 1 / 6],
    ),
    "falling_exponential": (
        of_inverse(lambda x: x * mp.exp(x) * mp.e1(x)),
        [0, 0.125, 0.375, 1],
    ),
    "sine_near": (lambda u: mp.si(mp.sqrt(u)) / mp.sqrt(u) if u else mp.mpf(1), [0, 16]),
    "cosine_near": (lambda u: cosine_part(mp.sqrt(u)), [0, 16]),
    "sine_f": (
        lambda s: auxiliary_f(1 / mp.sqrt(s)) / mp.sqrt(s) if s > 1e-12 else 1 - 2 * s,
        [0, 1 / 64, 1 / 16],
    ),
    "sine_g": (
        lambda s: auxiliary_g(1 / mp.sqrt(s)) / s if s > 1e-12 else 1 - 6 * s,
        [0, 1 / 64, 1 / 16],
    ),
    "fresnel_s": (
        lambda u: mp.fresnels(u ** mp.mpf(0.25)) / u ** mp.mpf(0.75) if u else mp.pi / 6,
        [0, 6.5536],
    ),
    "fresnel_c": (
        lambda u: mp.fresnelc(u ** mp.mpf(0.25)) / u ** mp.mpf(0.25) if u else mp.mpf(1),
        [0, 6.5536],
    ),
    "fresnel_f": (
        lambda s: (
            fresnel_f(s ** mp.mpf(-0.25)) * mp.pi * s ** mp.mpf(-0.25)
            if s > 1e-15
            else 1 - 3 * s / mp.pi**2
        ),
        [0, 0.03125, 1 / 6.5536],
    ),
    "fresnel_g": (
        lambda s: (
            fresnel_g(s ** mp.mpf(-0.25)) * mp.pi**2 * s ** mp.mpf(-0.75)
            if s > 1e-15
            else 1 - 15 * s / mp.pi**2
        ),
        [0, 0.03125, 1 / 6.5536],
    ),
    "spence": (lambda w: mp.polylog(2, -w) / w if w else mp.mpf(-1), [-0.5, 0.5]),
    "gamma_star": (of_inverse(gamma_star), [0, 0.125, 0.375, 1]),
    "normal_center": (normal_center, [0, 0.180625]),
    "normal_tail": (normal_tail, [1.6, 3, 7, 27.5]),
}


def series(fun: Function, low: Any, high: Any) -> list[float]:
    """Return the Chebyshev coefficients of a function on an interval."""
    low, high, n = mp.mpf(low), mp.mpf(high), MOST_TERMS
    angles = [mp.pi * (k + mp.mpf(1) / 2) / n for k in range(n)]
    values = [fun((low + high) / 2 + (high - low) / 2 * mp.cos(a)) for a in angles]
    found = [
        2 * mp.fsum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n
        for j in range(n)
    ]
    found[0] /= 2
    least = PRECISION * min(abs(v) for v in values)
    needed = max(j for j in range(n) if abs(found[j]) > least)
    return [float(mp.re(c)) for c in found[: needed + 1]]


def main() -> None:
    mp.mp.dps = DIGITS
    text = [HEADER, "SERIES: dict[str, tuple[Piece, ...]] = {\n"]
    for name, (fun, ends) in FUNCTIONS.items():
        text.append(f'    "{name}": (\n')
        for low, high in itertools.pairwise(ends):
            found = series(fun, low, high)
            print(name, float(low), float(high), len(found))
            text.append(f"        ({float(low)!r}, {float(high)!r}, (\n")
            line = "           "
            for c in found:
                if len(line) + len(repr(c)) > 96:
                    text.append(line + "\n")
                    line = "           "
                line += f" {c!r},"
            text.append(f"{line}\n        )),\n")
        text.append("    ),\n")
    TARGET.write_text("".join([*text, "}\n"]))


if __name__ == "__main__":
    main()
