"""Arrays as text."""

from __future__ import annotations

import io

import kiln.numpy as jnp


def test_array_repr_is_what_arrays_print() -> None:
    for x in (jnp.ones((2, 3)), jnp.arange(3), jnp.ones((), "int8"), jnp.zeros((0, 2), bool)):
        assert jnp.array_repr(x) == repr(x)


def test_array_repr_takes_options() -> None:
    assert jnp.array_repr(jnp.array([1 / 3]), precision=2) == "Array([0.33], dtype=float32)"


def test_bfloat16_comes_back_from_a_file() -> None:
    file = io.BytesIO()
    jnp.save(file, jnp.array([1.5, -2.0], jnp.bfloat16))
    file.seek(0)
    loaded = jnp.load(file)
    assert loaded.dtype == jnp.bfloat16
    assert loaded.tolist() == [1.5, -2.0]
