"""Slices whose start may be traced."""

from __future__ import annotations

from typing import Any

import pytest

import kiln.numpy as jnp
from kiln.core.slices import Slice, ds


def test_what_ds_means() -> None:
    assert ds(None) == slice(None)
    assert ds(4) == Slice(0, 4, 1)
    assert ds(2, 3) == Slice(2, 3, 1)
    assert ds(2, 3, 4) == Slice(2, 3, 4)


@pytest.mark.parametrize("size", [jnp.int32, 1.5, "a"])
def test_sizes_are_known(size: Any) -> None:
    with pytest.raises(TypeError, match="the size must be an integer that is known"):
        ds(0, size)
    with pytest.raises(TypeError, match="the stride must be an integer that is known"):
        ds(0, 1, size)


def test_sizes_and_strides_are_positive() -> None:
    with pytest.raises(ValueError, match="`stride` must be >= 1"):
        ds(0, 1, -1)
    with pytest.raises(ValueError, match="`size` must be >= 0"):
        ds(0, -1)
    assert ds(0, 0).size == 0
