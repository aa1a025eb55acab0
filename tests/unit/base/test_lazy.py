"""Modules loaded on first use."""

from __future__ import annotations

import math

from kiln.base.lazy import LazyModule


def test_attributes_come_from_the_module_and_stay() -> None:
    lazy = LazyModule("math")
    assert "sqrt" not in vars(lazy)
    assert lazy.sqrt is math.sqrt
    assert "sqrt" in vars(lazy)
