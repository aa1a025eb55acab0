"""Methods of elementwise functions against NumPy's, and what makes two of them equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp

X = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
PLAIN = (
    *("add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "logical_and"),
    *("logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract"),
)


def crossed(x: Any, y: Any) -> Any:
    return 2 * x - y


def test_functions_with_methods_are_ufuncs() -> None:
    found = [name for name in dir(jnp) if isinstance(getattr(jnp, name), jnp.ufunc)]
    assert found == sorted(PLAIN)
    assert isinstance(jnp.frompyfunc(crossed, 2, 1), jnp.ufunc)
    assert not isinstance(jnp.sin, jnp.ufunc)
    assert not isinstance(X, jnp.ufunc)


@pytest.mark.parametrize("name", PLAIN)
def test_what_they_say_of_themselves(name: str) -> None:
    fun, expected = getattr(jnp, name), getattr(np, name)
    assert (fun.nin, fun.nout, fun.identity) == (expected.nin, expected.nout, expected.identity)
    assert fun.nargs == fun.nin


def test_equal_functions_make_equal_ufuncs() -> None:
    one, same = (jnp.frompyfunc(crossed, 2, 1, identity=0) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert one != jnp.frompyfunc(crossed, 2, 1)
    with pytest.raises(AttributeError):
        one.nin = 3


@pytest.mark.parametrize("axis", [0, 1, -1, None, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["logaddexp", "add"])
def test_reduce(name: str, keepdims: bool, axis: Any) -> None:
    found = getattr(jnp, name).reduce(X, axis=axis, keepdims=keepdims)
    expected = getattr(np, name).reduce(X, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_reduce_where() -> None:
    where = X > 3
    found = jnp.subtract.reduce(X, axis=1, initial=100.0, where=where)
    expected = np.subtract.reduce(np.where(where, X, 0), axis=1, initial=100.0)
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="does not have an identity"):
        jnp.subtract.reduce(X, where=where)


def test_reduce_of_nothing() -> None:
    assert jnp.frompyfunc(crossed, 2, 1, identity=7).reduce(np.zeros((0, 2))).tolist() == [7, 7]
    with pytest.raises(ValueError, match="does not have an identity"):
        jnp.frompyfunc(crossed, 2, 1).reduce(np.zeros((0, 2)))
    assert jnp.frompyfunc(crossed, 2, 1).accumulate(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["add", "subtract", "maximum"])
def test_reduceat(name: str, axis: int) -> None:
    for chosen in ([0, 2, 1, 1, 2], [1], []):
        check_reduceat(name, axis, np.array(chosen, int))


def check_reduceat(name: str, axis: int, indices: np.ndarray) -> None:
    """Compare with NumPy."""
    found = getattr(jnp, name).reduceat(X, indices, axis=axis)
    np.testing.assert_array_equal(found, getattr(np, name).reduceat(X, indices, axis=axis))


def test_reduceat_takes_one_row_of_indices() -> None:
    with pytest.raises(ValueError, match="indices must be one-dimensional"):
        jnp.add.reduceat(X, np.array([[0, 1]]))


@pytest.mark.parametrize("name", ["nin", "nout", "nargs", "identity", "_func"])
def test_what_a_ufunc_is_does_not_change(name: str) -> None:
    fun = jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    getattr(fun, name)
    with pytest.raises(AttributeError):
        setattr(fun, name, None)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4)])
def test_reductions_of_no_elements(shape: tuple[int, ...]) -> None:
    fun = jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    x = np.zeros(shape, np.float32)
    for axis in (0, 1):
        assert fun.reduce(x, axis=axis).tolist() == np.add.reduce(x, axis=axis).tolist()
