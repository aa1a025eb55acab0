"""Programs on both sides of what a pass asks before it changes them: each gives what it means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import kiln
from kiln.base.options.config import override


def agree(fun: Callable[..., Any], *calls: Sequence[Any]) -> None:
    """Compare a program with its meaning in some calls, to the bit; it is compiled once."""
    native, meaning = kiln.jit(fun), kiln.jit(lambda *args: fun(*args))
    for args in calls:
        with override(engine="reference"):
            expected = kiln.tree.leaves(meaning(*args))
        with override(engine="native", check=True):
            found = kiln.tree.leaves(native(*args))
        for a, b in zip(found, expected, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_array_equal(a, b)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Return small whole numbers, of which results are exact."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.int32)
