"""The series of Bessel functions are what their generator writes, in both places."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.ops.elements.bessel_series import BESSEL
from tests.unit.ops.bessel_coefficients import SOURCE, cpp, pieces


@pytest.mark.tree
def test_as_generated() -> None:
    orders = [pieces(0), pieces(1)]
    assert tuple(tuple(map(tuple, order)) for order in orders) == BESSEL
    header = (SOURCE / "_runtime" / "kernels" / "bessel_series.h").read_text()
    assert header == cpp(orders)


@pytest.mark.parametrize(("order", "function"), [(0, lax.bessel_i0e), (1, lax.bessel_i1e)])
def test_all_intervals_are_accurate_when_compiled(order: int, function: object) -> None:
    x = np.concatenate([np.linspace(-20, 20, 401), [1e-9, 1.0, 3.0, 8.0, 30.0, 700.0, 1e10]])
    with mp.workdps(40):
        exact = [mp.besseli(order, float(v)) * mp.exp(-abs(float(v))) for v in x]
    with kiln.enable_x64(True):
        found = np.asarray(kiln.jit(function)(x))
        edges = np.asarray(kiln.jit(function)(np.array([0.0, -0.0, np.inf, -np.inf, np.nan])))
    unit = np.spacing(np.abs(np.array(exact, float)))
    wrong = [
        float(abs(mp.mpf(float(a)) - b) / mp.mpf(float(u)))
        for a, b, u in zip(found, exact, unit, strict=True)
    ]
    assert max(wrong) < 4
    at_zero = [1.0, 1.0] if order == 0 else [0.0, 0.0]
    np.testing.assert_array_equal(edges, [*at_zero, 0.0, 0.0, np.nan])
    assert np.signbit(edges[1]) == (order == 1)
