"""Modules loaded on first use."""

from __future__ import annotations

import math

import pytest

from kiln.base.lazy import LazyModule, names_on_first_use


def test_attributes_come_from_the_module_and_stay() -> None:
    lazy = LazyModule("math")
    assert "sqrt" not in vars(lazy)
    assert lazy.sqrt is math.sqrt
    assert "sqrt" in vars(lazy)


def test_names_come_from_a_module_loaded_for_them() -> None:
    get, listed = names_on_first_use("package", "math", "sqrt", "tau")
    assert get("sqrt") is math.sqrt
    assert listed() == ["sqrt", "tau"]
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'pi'"):
        get("pi")
