"""Values that mean the same whenever they are named."""

from __future__ import annotations

import math
import operator
import time
import types
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.content import fixed_values
from kiln.content.fixed_values import is_fixed, is_kiln_module


@pytest.mark.parametrize(
    "value",
    [
        *(len, range, math.sin, operator.add, ValueError, np.float32, np.generic, jnp.float32),
        *(jnp.sin, jnp.bitwise_and, kiln.jit, kiln.lax.add_p, jnp.finfo, jnp.r_, kiln.Array),
        *(kiln.lax.fori_loop, kiln.lax.scan, kiln.vmap, kiln.grad, kiln.checkpoint, kiln.nn.gelu),
    ],
)
def test_fixed(value: Any) -> None:
    assert is_fixed(value)


@pytest.mark.parametrize(
    "value",
    [
        *(print, open, id, hash, getattr, time.time, np.random.rand, operator.attrgetter, object),
        *(kiln.config, kiln.devices, jnp.load, jnp.set_printoptions, kiln.clear_caches, 1, "a"),
        *(lambda: None, kiln.jit(len), kiln.log_compiles),
    ],
)
def test_not_fixed(value: Any) -> None:
    assert not is_fixed(value)


@pytest.mark.parametrize(
    "value", [jnp.tan, jnp.add, kiln.lax.fori_loop], ids=["tan", "add", "loop"]
)
@pytest.mark.parametrize("met_before", [True, False])
def test_attributes_of_users(monkeypatch: Any, value: Any, met_before: bool) -> None:
    """A function with an attribute of the user's is no fixed value, whenever it was set."""
    if met_before:
        assert is_fixed(value)
    else:
        for name, nothing in (("_fixed", {}), ("_spaces", {}), ("_seen", set()), ("_count", 0)):
            monkeypatch.setattr(fixed_values, name, nothing)
    value.note = [1]
    try:
        assert not is_fixed(value)
    finally:
        del value.note
    assert is_fixed(value)


def test_methods_that_are_exchanged(monkeypatch: Any) -> None:
    assert is_fixed(jnp.add)
    for method in (lambda x: x, lambda x: x + 1):
        monkeypatch.setattr(jnp.add, "reduce", method)
        assert not is_fixed(jnp.add)


def test_modules_of_kiln() -> None:
    assert is_kiln_module(jnp)
    assert not is_kiln_module(math)
    assert not is_kiln_module(types.ModuleType("kiln.numpy"))
