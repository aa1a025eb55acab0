"""Programs run on the native engine and by their meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
from kiln.base.options.config import override


def results(function: Callable[..., Any], *operands: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what a function gives on the native engine, and on the reference engine."""
    found = []
    for engine in ("native", "reference"):
        with override(engine=engine):
            found.append(np.asarray(kiln.jit(lambda *xs: function(*xs))(*operands)))
    return found[0], found[1]


def assert_meaning(function: Callable[..., Any], *operands: Any, tolerance: float = 1e-5) -> None:
    """Compare a function on the native engine with its meaning."""
    found, expected = results(function, *operands)
    assert found.dtype == expected.dtype
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        found.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance
    )
