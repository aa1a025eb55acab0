"""The data of arrays: fields, the buffer protocol, the arrays there are."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.core.arrays.array import ConcreteArray, PlacedArray


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "uint16"])
def test_the_buffer_protocol(dtype: str) -> None:
    for x in (jnp.ones((2, 3), dtype), kiln.jit(lambda: jnp.ones((2, 3), dtype))()):
        view = memoryview(x)
        assert view.shape == (2, 3) and view.readonly
        assert np.asarray(view).dtype == dtype
        same = np.asarray(x)
        assert same.tolist() == x.tolist() and not same.flags.writeable
        assert np.array(x).flags.writeable
        with pytest.raises((BufferError, NotImplementedError, TypeError)):
            view[0, 0] = 1


def test_what_no_buffer_can_say() -> None:
    x = jnp.ones(3, jnp.bfloat16)
    assert np.asarray(x).dtype == jnp.bfloat16
    with pytest.raises((ValueError, BufferError)):
        memoryview(x)
    y = jnp.ones(3)
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(y)
    with pytest.raises(RuntimeError, match="deleted"):
        memoryview(y)


def test_copies() -> None:
    x = jnp.asarray(2.0) + 1
    for same in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert same.aval == x.aval and float(same) == 3.0


def test_live_arrays() -> None:
    gc.collect()
    before = len(_runtime.live_arrays())
    many = [jnp.asarray(float(i)) for i in range(1000)]
    assert len(_runtime.live_arrays()) == before + 1000
    assert any(x is many[500] for x in kiln.live_arrays())
    many[3].delete()
    assert not any(x is many[3] for x in kiln.live_arrays())
    del many
    assert len(_runtime.live_arrays()) == before


def test_memory_of_an_array_is_used_again_with_nothing_left_in_it() -> None:
    seen: list[Any] = []
    for i in range(600):
        x = jnp.asarray(float(i)) + 1
        watch = weakref.ref(x, seen.append)
        assert watch() is x and float(x) == i + 1
        del x
        assert watch() is None
    assert len(seen) == 600


def test_classes_of_arrays() -> None:
    class Mine(ConcreteArray):
        __slots__ = ("note",)

    x = jnp.ones(3)
    mine = Mine(x.aval, np.ones(3, np.float32))
    mine.note = "kept"
    assert isinstance(mine, kiln.Array) and (mine + x).tolist() == [2, 2, 2]
    assert kiln.jit(lambda y: y * 2)(mine).tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="fields"):
        _runtime.set_array_classes(Mine, PlacedArray)
    with pytest.raises(TypeError):
        _runtime.set_array_classes(ConcreteArray, int)
