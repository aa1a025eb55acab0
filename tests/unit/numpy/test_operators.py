"""Operators and methods: they defer to other types, and have NumPy's signatures."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core import operators as core_operators
from kiln.core.arrays import array as core_array
from kiln.numpy.operators import table

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_the_table_answers_every_name() -> None:
    files = [Path(str(module.__file__)) for module in (core_operators, core_array)]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    names = set(re.findall(r'(?:_binary|_unary|method)\("(\w+)"\)', source))
    names |= set(re.findall(r'operators\["(\w+)"\]', source))
    assert names == set(table())


@pytest.mark.parametrize("other", [None, [1, 2, 3], "a", (1,), {}])
def test_unknown_operands_are_left_to_python(other: Any) -> None:
    x = jnp.ones(3)
    for fun in (
        lambda: x + other,
        lambda: other * x,
        lambda: x @ other,
        lambda: x < other,
        lambda: x & other,
        lambda: divmod(x, other),
    ):
        with pytest.raises(TypeError):
            fun()
    assert (x == other) is False
    assert (x != other) is True


def test_an_operand_may_take_over() -> None:
    class Mine:
        def __radd__(self, other: Any) -> str:
            return "mine"

    assert jnp.ones(3) + Mine() == "mine"
    assert kiln.jit(lambda x: x + (1 if Mine() else 0))(jnp.ones(3)).shape == (3,)


def test_numpy_defers_to_kiln() -> None:
    x = jnp.arange(3)
    for found in (np.ones(3) + x, np.float64(2) * x, np.ones((3, 3)) @ x, np.arange(3) == x):
        assert isinstance(found, jnp.ndarray)


def test_reflected() -> None:
    x = jnp.array([1.0, 2.0, 4.0])
    assert (1 - x).tolist() == [0, -1, -3]
    assert (8 / x).tolist() == [8, 4, 2]
    assert (9 // x).tolist() == [9, 4, 2]
    assert (9 % x).tolist() == [0, 1, 1]
    assert (2**x).tolist() == [2, 4, 16]
    assert (1 << jnp.arange(3)).tolist() == [1, 2, 4]
    assert [v.tolist() for v in divmod(9, x)] == [[9, 4, 2], [0, 1, 1]]


METHODS: dict[str, Any] = {
    "sum": lambda x: x.sum(1, keepdims=True),
    "mean": lambda x: x.mean(axis=0),
    "max": lambda x: x.max(0),
    "argmax": lambda x: x.argmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "reshape": lambda x: x.reshape(3, 2),
    "reshape tuple": lambda x: x.reshape((3, -1)),
    "transpose": lambda x: x.transpose(1, 0),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[:1].squeeze(0),
    "astype": lambda x: x.astype("int32"),
    "clip": lambda x: x.clip(1, 3),
    "round": lambda x: (x / 4).round(1),
    "dot": lambda x: x.dot(x.T),
    "take": lambda x: x.take(np.array([0, 2]), 1),
    "repeat": lambda x: x.repeat(2, 0),
    "diagonal": lambda x: x.diagonal(),
    "sort": lambda x: jnp.sort(x, 0) if isinstance(x, jnp.ndarray) else np.sort(x, 0),
    "argsort": lambda x: x.argsort(0),
    "searchsorted": lambda x: x[0].searchsorted(1.5),
    "var": lambda x: x.var(0, ddof=1),
    "std": lambda x: x.std(),
    "ptp": lambda x: jnp.ptp(x) if isinstance(x, jnp.ndarray) else np.ptp(x),
    "any": lambda x: (x > 2).any(0),
    "all": lambda x: (x > 2).all(),
    "prod": lambda x: x.prod(1),
    "conj": lambda x: x.conj(),
    "copy": lambda x: x.copy(),
    "nonzero": lambda x: x.nonzero()[1],
    "compress": lambda x: x.compress(np.array([True, False]), 0),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "T": lambda x: x.T,
    "view": lambda x: x.view("int32"),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_as_numpy(name: str) -> None:
    np.testing.assert_allclose(METHODS[name](jnp.asarray(X)), METHODS[name](X), rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in METHODS if n not in ("nonzero", "compress", "copy")])
def test_methods_of_tracers(name: str) -> None:
    found = kiln.jit(METHODS[name])(jnp.asarray(X))
    np.testing.assert_allclose(found, METHODS[name](X), rtol=1e-6)


def test_round_without_digits_gives_ints() -> None:
    found = round(jnp.float32(2.6))
    assert found.dtype == np.int32
    assert found == 3
    assert round(jnp.float32(2.64), 1).dtype == np.float32


def test_array_namespace() -> None:
    assert jnp.ones(2).__array_namespace__() is jnp


def test_iteration_unrolls() -> None:
    a, b = kiln.jit(lambda x: tuple(row * 2 for row in x))(jnp.asarray(X))
    assert a.tolist() == [0, 2, 4]
    assert b.tolist() == [6, 8, 10]
    with pytest.raises(TypeError, match="0-d"):
        iter(jnp.float32(1))


NAMES = ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_bytes_are_swapped_as_in_numpy(name: str, shape: tuple[int, ...]) -> None:
    x = np.asarray(jnp.arange(3, 3 + math.prod(shape)).reshape(shape).astype(name))
    for f in (lambda x: x.byteswap(), kiln.jit(lambda x: x.byteswap())):
        found = np.asarray(f(jnp.asarray(x)))
        assert (found.shape, found.tobytes()) == (shape, x.byteswap().tobytes())


def test_tracers_have_a_trace() -> None:
    x = jnp.arange(9.0).reshape(3, 3)
    assert kiln.jit(lambda x: x.trace())(x) == 12
    assert kiln.grad(lambda x: x.trace(offset=1))(x).tolist() == np.eye(3, k=1).tolist()


def test_the_class_has_what_its_arrays_have() -> None:
    x = jnp.ones(())
    assert kiln.Array.item(x) == 1
    assert kiln.Array.sharding.fget(x) == x.sharding
    missing = [n for n in dir(jax.Array) if n[0] != "_" and not hasattr(kiln.Array, n)]
    assert missing == []
