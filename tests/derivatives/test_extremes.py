"""Derivatives of numbers near the ends of a type's range: no intermediate result overflows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as jnp

TYPES = {np.float16: 2.0 ** np.arange(-10, 11, 5), np.float32: 10.0 ** np.arange(-30, 31, 6)}
"""By type the magnitudes of operands: their squares are no numbers of it."""
FUNCTIONS = {"div": lax.div, "atan2": lax.atan2, "hypot": jnp.hypot}


def _slopes(fun: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    ones = np.ones_like(x)
    by_x = kiln.jvp(lambda z: fun(z, y), (x,), (ones,))[1]
    by_y = kiln.jvp(lambda z: fun(x, z), (y,), (ones,))[1]
    _, pull = kiln.vjp(fun, x, y)
    return [np.asarray(d, np.float64) for d in (by_x, by_y, *pull(ones))]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_square_overflows(name: str, dtype: Any) -> None:
    pairs = np.array(list(itertools.product(TYPES[dtype], repeat=2)))
    x, y = (pairs * (1.37, -1.11)).T.astype(dtype)
    with kiln.enable_x64(True):
        expected = _slopes(FUNCTIONS[name], x.astype(np.float64), y.astype(np.float64))
    found = _slopes(FUNCTIONS[name], x, y)
    limits = np.finfo(dtype)
    for slope, exact in zip(found, expected, strict=True):
        told = np.abs(exact) < limits.max
        least = limits.tiny * limits.resolution if name != "hypot" else limits.resolution
        np.testing.assert_allclose(
            slope[told], exact[told], 8 * limits.eps, 8 * least + limits.tiny
        )
