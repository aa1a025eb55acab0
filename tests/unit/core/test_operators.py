"""What arrays and tracers answer alike."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.array_type import Array
from kiln.core.operators import ArrayOperators, method


def test_arrays_are_made_by_functions() -> None:
    with pytest.raises(TypeError, match=r"kiln\.numpy\.array"):
        Array()


def test_concrete_placed_and_traced_arrays_are_arrays() -> None:
    seen = []
    kiln.make_jaxpr(lambda x: seen.append(x) or x)(1.0)
    placed = kiln.device_put(jnp.ones(3), kiln.devices()[1])
    for x in (jnp.ones(3), placed, *seen):
        assert isinstance(x, Array) and isinstance(x, ArrayOperators)


def test_attributes_come_from_the_type() -> None:
    x = jnp.ones((2, 3), jnp.int8)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes, len(x)) == ((2, 3), 2, 6, 1, 6, 2)
    with pytest.raises(TypeError, match="unsized"):
        len(jnp.ones(()))


def test_a_method_is_called_as_the_table_says() -> None:
    assert method("sum").__name__ == "sum"
    assert int(method("sum")(jnp.arange(4))) == 6


def test_treescope_shows_values_where_there_are_some() -> None:
    def shown(x: Array) -> object:
        return x.__treescope_repr__("path", lambda value, path: (type(value), value.tolist(), path))

    assert shown(jnp.arange(2)) == (np.ndarray, [0, 1], "path")
    deleted = jnp.ones(3)
    deleted.delete()
    traced: list[Array] = []
    kiln.make_jaxpr(lambda x: traced.append(x) or x)(1.0)
    for x in (deleted, kiln.random.key(0), *traced):
        assert shown(x) is NotImplemented
