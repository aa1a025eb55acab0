"""Kernels of special functions agree with the meanings, and with many more digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from kiln.base import dtypes
from kiln.ops.elements import special
from tests.unit._runtime.kernels.running import call, meaning, run

mp: Any = mpmath
BFLOAT = dtypes.bfloat16
INF = np.inf
POINTS = np.concatenate(
    [
        [0.0, -0.0, 1.0, 2.0, -1.0, -2.0, -7.0, INF, np.nan, 1e-300, 1e-8, 1.4616321449683622],
        np.linspace(-20.3, 40.3, 157),
        np.geomspace(1e-3, 1e12, 60),
    ]
)


def ulps(got: np.ndarray, expected: np.ndarray) -> Any:
    with np.errstate(all="ignore"):
        apart = np.abs(got - expected) / np.spacing(np.abs(expected))
    return np.where((got == expected) | (np.isnan(got) & np.isnan(expected)), 0, apart)


@pytest.mark.parametrize("dtype", ["e", BFLOAT, "f", "d"])
@pytest.mark.parametrize("name", ["lgamma", "digamma", "bessel_i0e", "bessel_i1e"])
def test_functions_of_one_number(name: str, dtype: Any) -> None:
    with np.errstate(over="ignore"):
        x = np.array(POINTS, dtype)
    prim = getattr(special, f"{name}_p")
    got, expected = run(prim, x, parts=3)[0], meaning(prim, x)[0]
    assert got.dtype == x.dtype
    eps = float(dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        got.astype("d"), expected.astype("d"), rtol=max(2 * eps, 2e-14), atol=1e-14
    )


@pytest.mark.parametrize("dtype", ["e", BFLOAT, "f", "d"])
@pytest.mark.parametrize("name", ["polygamma", "zeta"])
def test_functions_of_two_numbers(name: str, dtype: Any) -> None:
    first = [0, 1, 2, 3, 4, 9, 30, -1, 1.5, 2.5, 0.5, np.nan]
    second = [x for x in POINTS if x > -1e3 and x != INF]
    with np.errstate(over="ignore"):
        x, y = (v.ravel().astype(dtype) for v in np.meshgrid(first, second))
    # There the library's terms cancel, and leave none of their digits.
    exact = (y >= 0) | (np.abs(y - np.trunc(y)).astype("d") != 0.5)
    x, y = x[exact], y[exact]
    prim = getattr(special, f"{name}_p")
    got, expected = run(prim, x, y, parts=3)[0], meaning(prim, x, y)[0]
    eps = float(dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        got.astype("d"), expected.astype("d"), rtol=max(2 * eps, 1e-12), atol=1e-12
    )


EXACT: list[tuple[str, Callable[..., Any], float]] = [
    ("digamma", mp.digamma, 6),
    ("lgamma", mp.loggamma, 4),
    ("bessel_i0e", lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), 4),
    ("bessel_i1e", lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), 4),
]


@pytest.mark.parametrize(("name", "exact", "most"), EXACT)
def test_digits(name: str, exact: Callable[..., Any], most: float) -> None:
    x = np.concatenate([np.linspace(0.01, 3, 61), np.geomspace(3, 1000, 40), [1.46163, 1.4617]])
    with mp.workdps(40):
        expected = np.array([float(exact(mp.mpf(float(v)))) for v in x])
    (got,) = run(getattr(special, f"{name}_p"), x)
    assert ulps(got, expected).max() <= most


def test_digits_of_zeta() -> None:
    s, q = (v.ravel() for v in np.meshgrid([1.01, 1.5, 2.0, 3.0, 7.5, 20.0], [0.1, 1, 2.5, 12, 80]))
    with mp.workdps(90):
        expected = np.array(
            [float(mp.zeta(mp.mpf(a), mp.mpf(b))) for a, b in zip(s, q, strict=True)]
        )
    assert ulps(run(special.zeta_p, s, q)[0], expected).max() <= 6


def test_what_is_not_supported() -> None:
    x = np.zeros(3, np.float32)
    assert call("special", [x, x.copy()], [0, 3, 0, 3]) == 2
    assert call("special", [x, x.copy()], [0, 3, 9, 11]) == 2
