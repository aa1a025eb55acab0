"""`associative_scan`: every length, any axis, pytrees, derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths(n: int, reverse: bool) -> None:
    x = np.arange(1, n + 1)
    wanted = np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x)
    assert lax.associative_scan(jnp.add, x, reverse=reverse).tolist() == wanted.tolist()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes(axis: int) -> None:
    x = np.arange(1.0, 31).reshape(5, 6).astype("f4")
    found = kiln.jit(lambda v: lax.associative_scan(jnp.add, v, axis=axis))(x)
    np.testing.assert_allclose(found, np.cumsum(x, axis))


@pytest.mark.parametrize("reverse", [False, True])
def test_pairs_in_their_order(reverse: bool) -> None:
    def combine(p: Any, q: Any) -> Any:
        # Affine maps do not commute: the order of the operands matters.
        return {"a": p["a"] * q["a"], "b": p["b"] * q["a"] + q["b"]}

    a, b = np.array([2.0, 3.0, 5.0, 7.0, 11.0]), np.arange(5.0)
    found = lax.associative_scan(combine, {"a": a, "b": b}, reverse=reverse)
    steps = range(5)[::-1] if reverse else range(5)
    total, wanted = {"a": 1.0, "b": 0.0}, []
    for i in steps:
        total = combine(total, {"a": a[i], "b": b[i]})
        wanted.append(total["b"])
    np.testing.assert_allclose(found["b"], wanted[::-1] if reverse else wanted)


def test_booleans() -> None:
    x = np.array([False, False, True, False, True])
    assert lax.associative_scan(jnp.logical_or, x).tolist() == [False, False, True, True, True]


def test_derivatives() -> None:
    f = lambda x: (lax.associative_scan(lambda p, q: p * q, x) * jnp.array([1.0, 2.0, 3.0])).sum()
    x = np.array([2.0, 3.0, 5.0], np.float32)
    wanted = [1 + 2 * 3 + 3 * 15, 2 * 2 + 3 * 10, 3 * 6]
    np.testing.assert_allclose(kiln.grad(f)(x), wanted)
    np.testing.assert_allclose(kiln.vmap(kiln.grad(f))(np.stack([x, x]))[1], wanted)


def test_errors() -> None:
    with pytest.raises(ValueError, match="same size along axis 0, got \\[3, 4\\]"):
        lax.associative_scan(lambda a, b: a, (jnp.ones(3), jnp.ones(4)))
    with pytest.raises(ValueError, match="axis 1 is out of bounds"):
        lax.associative_scan(jnp.add, jnp.ones(3), axis=1)
    with pytest.raises(TypeError, match="fn must return the structure it is given"):
        lax.associative_scan(lambda a, b: (a, b), jnp.ones(3))
    with pytest.raises(TypeError, match="callable"):
        lax.associative_scan(3, jnp.ones(3))
    assert lax.associative_scan(jnp.add, ()) == ()
