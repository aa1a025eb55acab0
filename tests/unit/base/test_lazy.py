"""Modules loaded on first use."""

from __future__ import annotations

import importlib
import math

import pytest

from kiln.base.lazy import LazyModule, names_on_first_use
from website.names import MODULES, listed


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


@pytest.mark.parametrize(
    "module", sorted({*MODULES, "dtypes", "ad_checkpoint", "scipy.stats.norm"})
)
def test_public_modules_suggest_a_name(module: str) -> None:
    found = importlib.import_module(f"kiln.{module}".rstrip("."))
    name = max(listed(found), key=len)
    with pytest.raises(AttributeError, match=f"did you mean .*{name}") as caught:
        getattr(found, name + "x")
    assert caught.value.name == name + "x"
    assert not hasattr(found, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name"):
        exec(f"from {found.__name__} import {name}x")
