"""Arrays exchanged with NumPy and JAX by DLPack."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import jax
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp

DTYPES = [
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    *("float16", "bfloat16", "float32", "complex64"),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(dtype: str) -> None:
    x = jnp.arange(6.0).reshape(2, 3).astype(dtype)
    theirs = jax.dlpack.from_dlpack(x)
    assert theirs.dtype.name == dtype
    np.testing.assert_array_equal(np.asarray(theirs), np.asarray(x))
    back = jnp.from_dlpack(theirs)
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(back), np.asarray(x))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1), (2, 3, 4)])
def test_shapes(shape: tuple[int, ...]) -> None:
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    x = jnp.from_dlpack(given)
    assert x.shape == shape
    np.testing.assert_array_equal(x, given)
    np.testing.assert_array_equal(np.from_dlpack(x), given)


def test_memory_is_shared() -> None:
    given = np.arange(4, dtype=np.float32)
    assert np.shares_memory(np.asarray(jnp.from_dlpack(given)), given)
    assert not np.shares_memory(np.asarray(jnp.from_dlpack(given, copy=True)), given)
    x = jnp.arange(4.0)
    assert np.shares_memory(np.from_dlpack(x), np.asarray(x))
    assert not np.shares_memory(np.from_dlpack(x, copy=True), np.asarray(x))
    assert jnp.from_dlpack(x) is x
    assert not np.shares_memory(np.asarray(jnp.from_dlpack(x, copy=True)), np.asarray(x))


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[:, 1]])
def test_other_strides_are_copied(view: Any) -> None:
    given = view(np.arange(12, dtype=np.float32).reshape(3, 4))
    np.testing.assert_array_equal(jnp.from_dlpack(given), given)
    with pytest.raises(ValueError, match="leave copy=False out"):
        jnp.from_dlpack(given, copy=False)


def test_dtypes_not_in_use() -> None:
    given = np.arange(3.0)
    assert jnp.from_dlpack(given).dtype == np.float32
    with pytest.raises(ValueError, match="enable x64"):
        jnp.from_dlpack(given, copy=False)
    with kiln.enable_x64(True):
        assert jnp.from_dlpack(given, copy=False).dtype == np.float64


class Old:
    """An array of a library from before version 1 of DLPack; its memory may be written to."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self) -> Any:
        return self.value.__dlpack__()


def test_before_version_1() -> None:
    given = np.arange(3, dtype=np.float32)
    assert jnp.from_dlpack(Old(given)).tolist() == [0, 1, 2]
    # The other way round: without a version the other library cannot be told more.
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    x = jnp.ones(3)
    assert name(x.__dlpack__()) == b"dltensor"
    assert name(x.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"


def test_memory_lives_as_long_as_it_is_used() -> None:
    given = np.arange(3, dtype=np.float32)
    watch = weakref.ref(given)
    x = jnp.from_dlpack(given)
    y = x + 1
    del given
    gc.collect()
    assert x.tolist() == [0, 1, 2]
    assert watch() is not None
    del x
    gc.collect()
    assert watch() is None
    view = np.from_dlpack(y)
    del y
    gc.collect()
    assert view.tolist() == [1, 2, 3]


def test_nobody_took_it() -> None:
    given = np.ones(3, np.float32)
    x = jnp.from_dlpack(given)
    watch = weakref.ref(given)
    for version in (None, (1, 0)):
        x.__dlpack__(max_version=version)
    del x, given
    gc.collect()
    assert watch() is None


def test_a_capsule_is_taken_once() -> None:
    class Once(Old):
        def __init__(self) -> None:
            self.capsule = jnp.ones(3).__dlpack__()

        def __dlpack__(self) -> Any:
            return self.capsule

    x = Once()
    assert jnp.from_dlpack(x).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="consumed before"):
        jnp.from_dlpack(x)


class WrongDevice(Old):
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: jnp.from_dlpack([1]), TypeError, "a list has no __dlpack__"),
        (lambda: jnp.from_dlpack(WrongDevice(np.ones(1))), BufferError, "is on cuda"),
        (lambda: jnp.ones(3).__dlpack__(dl_device=(2, 0)), BufferError, "requested on cuda"),
        (lambda: jnp.ones(3).__dlpack__(stream=7), BufferError, "no streams"),
        (lambda: jnp.ones(3, "int4").__dlpack__(), BufferError, "no elements of type int4"),
        (lambda: kiln.random.key(0).__dlpack__(), TypeError, "key_data"),
        (lambda: jnp.ones(3).to_device(kiln.devices()[0], stream=1), ValueError, "no streams"),
    ],
)
def test_errors(ask: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        ask()
    assert len(str(raised.value).splitlines()) == 3


def test_the_module() -> None:
    assert kiln.dlpack.from_dlpack is jnp.from_dlpack
    for dtype in (*DTYPES, "int4"):
        assert kiln.dlpack.is_supported_dtype(dtype) is jax.dlpack.is_supported_dtype(dtype)


def test_devices() -> None:
    x = jnp.ones(3)
    assert x.to_device(kiln.devices()[0]).devices() == {kiln.devices()[0]}
    assert x.on_device_size_in_bytes() == 12
    with pytest.raises(TypeError, match="key_data"):
        np.asarray(kiln.random.key(0))
