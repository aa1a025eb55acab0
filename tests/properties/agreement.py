"""Trees of arrays agree: same structure, same types, near values."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override


def agree(found: Any, expected: Any, tolerance: float = 2e-4) -> None:
    """Raise AssertionError unless two trees agree up to a relative or absolute tolerance."""
    x_leaves, x_tree = kiln.tree.flatten(found)
    y_leaves, y_tree = kiln.tree.flatten(expected)
    assert x_tree == y_tree
    for x, y in zip(x_leaves, y_leaves, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def stacked(trees: Sequence[Any], axis: int = 0) -> Any:
    """Return one tree of stacks of many trees' leaves."""
    return kiln.tree.map(lambda *xs: jnp.stack(xs, axis), *trees)


def inner(x: Any, y: Any) -> float:
    """Return the scalar product of two trees."""
    pairs = zip(kiln.tree.leaves(x), kiln.tree.leaves(y), strict=True)
    return float(sum(np.sum(np.asarray(a) * np.asarray(b)) for a, b in pairs))


def by_meaning(**changes: Any) -> contextlib.AbstractContextManager[None]:
    """Run on the reference engine, where nothing is compiled."""
    return override(engine="reference", **changes)
