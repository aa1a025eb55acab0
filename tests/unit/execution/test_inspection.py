"""What debugging options look at."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import random
from kiln.errors import KeyReuseError


def test_both_looks_are_taken() -> None:
    def bad(key: Any) -> Any:
        return jnp.log(-jnp.abs(random.normal(key)) - 1)

    key = random.key(0)
    with kiln.debug_key_reuse(True), kiln.debug_nans(True):
        with pytest.raises(FloatingPointError):
            kiln.jit(bad)(key)
        with pytest.raises(KeyReuseError):
            kiln.jit(bad)(key)


def test_the_search_for_a_nan_draws_again_unnoticed() -> None:
    key = random.key(0)
    with kiln.debug_key_reuse(True), kiln.debug_nans(True), pytest.raises(FloatingPointError):
        kiln.jit(lambda k: jnp.sqrt(-jnp.abs(random.normal(k)) - 1))(key)


def test_an_eager_operation_is_looked_at() -> None:
    with kiln.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        jnp.log(jnp.float32(-1))
