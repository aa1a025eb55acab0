"""Reductions by functions of scalars with several operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import lax
from tests.unit.engines.native.lowerings.running import assert_meaning

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)


def _farthest(a: Any, b: Any) -> Any:
    return lax.select(lax.abs(a) >= lax.abs(b), a, b)


def test_over_some_axes() -> None:
    assert_meaning(lambda x: lax.reduce(x, np.float32(0), _farthest, (0, 2)), X)


def test_over_no_elements() -> None:
    assert_meaning(lambda x: lax.reduce(x[:, :0], np.float32(7), _farthest, (1,)), X)


def test_over_windows() -> None:
    def windows(x: Any) -> Any:
        return lax.reduce_window(
            x, np.float32(0), _farthest, (2, 2), (1, 2), [(1, 0), (0, 1)], (2, 1), (1, 2)
        )

    assert_meaning(windows, X[0])
