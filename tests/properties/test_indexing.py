"""Index expressions mean what they mean in NumPy, for reading and for updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kiln
import kiln.numpy as jnp
from tests.properties.agreement import agree, by_meaning
from tests.properties.exploring import explored


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with by_meaning():
        yield


@st.composite
def indexed(draw: Any, steps: bool = True) -> tuple[np.ndarray, Any]:
    """Draw an array and an index of it: numbers, slices, None, Ellipsis, arrays and masks."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    if draw(st.booleans()):
        return x, draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    parts: list[Any] = []
    common = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    ellipsis = False
    axis = 0
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(["array", "array", "slice", "int", "none", "mask", "rest"]))
        if kind == "array":
            parts.append(draw(hnp.arrays(np.int32, common, elements=st.integers(-n, n - 1))))
        elif kind == "slice":
            parts.append(draw(st.slices(n)))
        elif kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "none":
            parts.append(None)
            continue
        elif kind == "mask":
            mask = draw(hnp.arrays(bool, n))
            if mask.sum() != (common[-1] if common else 1):
                continue
            parts.append(mask)
        else:
            if not ellipsis:
                parts.append(...)
            break
        axis += 1
    return x, tuple(parts)


@explored(indexed(), few=100, many=5000)
def test_reading(case: tuple[np.ndarray, Any]) -> None:
    x, index = case
    try:
        expected = x[index]
    except IndexError:
        return
    found = jnp.asarray(x)[index]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@explored(indexed(), st.sampled_from(["set", "add", "multiply", "max"]), few=100, many=5000)
def test_updates(case: tuple[np.ndarray, Any], how: str) -> None:
    x, index = case
    positions = np.arange(x.size).reshape(x.shape)
    try:
        chosen = positions[index]
    except IndexError:
        return
    if how == "set" and len(set(chosen.ravel().tolist())) < chosen.size:
        return
    value = (np.arange(chosen.size, dtype=np.float32) % 5 - 2).reshape(chosen.shape)
    apply = {"add": np.add, "multiply": np.multiply, "max": np.maximum}
    expected = x.ravel().copy()
    if how == "set":
        expected[chosen] = value
    else:
        apply[how].at(expected, chosen, value)
    found = getattr(jnp.asarray(x).at[index], how)(value)
    np.testing.assert_array_equal(found, expected.reshape(x.shape))


@explored(indexed(), few=32, many=1500)
def test_gradients_of_reading_are_updates(case: tuple[np.ndarray, Any]) -> None:
    x, index = case
    try:
        chosen = x[index]
    except IndexError:
        return
    weights = (np.arange(chosen.size, dtype=np.float32) - 1.5).reshape(chosen.shape)
    expected = np.zeros(x.size, np.float32)
    np.add.at(expected, np.arange(x.size).reshape(x.shape)[index], weights)
    found = kiln.grad(lambda a: jnp.sum(a[index] * weights))(jnp.asarray(x))
    agree(found, jnp.asarray(expected.reshape(x.shape)), 1e-6)


@explored(indexed(), few=24, many=1000)
def test_vmap_of_reading(case: tuple[np.ndarray, Any]) -> None:
    x, index = case
    try:
        rows = np.stack([x[index], -x[index]])
    except IndexError:
        return
    found = kiln.vmap(lambda a: a[index])(jnp.stack([x, -x]))
    np.testing.assert_array_equal(found, rows)


@explored(indexed(), few=24, many=1000)
def test_jit_of_reading_and_traced_indices(case: tuple[np.ndarray, Any]) -> None:
    x, index = case
    index = index if isinstance(index, tuple) else (index,)
    try:
        expected = x[index]
    except IndexError:
        return
    traced = [i for i in index if isinstance(i, np.ndarray) and i.dtype == np.int32]

    def read(a: Any, arrays: Any) -> Any:
        given = iter(arrays)
        return a[
            tuple(
                next(given) if isinstance(i, np.ndarray) and i.dtype == np.int32 else i
                for i in index
            )
        ]

    np.testing.assert_array_equal(kiln.jit(read)(x, traced), expected)
