"""What the array API standard asks of the namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp


def test_the_namespace_tells_what_there_is():
    info = jnp.__array_namespace_info__()
    assert jnp.__array_api_version__ == "2024.12"
    assert info.capabilities() == {
        "boolean indexing": False,
        "data-dependent shapes": False,
        "max dimensions": 64,
    }
    assert info.default_device() is None
    assert info.devices() == [None, *kiln.devices()]
    assert info.default_dtypes()["indexing"] == np.int32
    assert set(info.dtypes(kind="complex floating")) == {"complex64"}
    with kiln.enable_x64():
        assert info.default_dtypes()["real floating"] == np.float64
        assert set(info.dtypes(kind=("bool", "integral"))) == {
            "bool",
            *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        }
        assert info.dtypes()["complex128"] == np.dtype("complex128")
    with pytest.raises(ValueError, match="'text' is not a kind"):
        info.dtypes(kind="text")


@pytest.mark.parametrize("k", [2**31, -(2**31) - 1, 10**20])
def test_diagonals_that_are_far_away(k):
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    for made, expected in (
        (jnp.eye(2, 3, k), np.zeros((2, 3))),
        (jnp.tri(2, 3, k), np.full((2, 3), float(k > 0))),
        (jnp.tril(x, k), x * (k > 0)),
        (jnp.triu(x, k), x * (k < 0)),
    ):
        np.testing.assert_array_equal(made, expected)


def test_quotients_that_are_zero_have_signs():
    x, y = np.array([-0.0, 0.0, -0.0], np.float32), np.array([2.0, -2.0, -2.0], np.float32)
    found = np.asarray(jnp.floor_divide(x, y))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.floor_divide(x, y)))


class _WithArray:
    """Stands for an array."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __jax_array__(self) -> Any:
        return self.x


def test_arrays_without_axes_are_scalars() -> None:
    numbers = (1.0, np.float32(1), np.array(1), jnp.array(1), _WithArray(jnp.array(1)))
    assert all(jnp.isscalar(x) for x in numbers)
    others = ([], np.ones(1), jnp.ones(1), _WithArray(jnp.ones(1)), None)
    assert not any(jnp.isscalar(x) for x in others)


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "logaddexp2", "heaviside", "gcd", "lcm"])
def test_what_stands_for_arrays_is_an_operand(name: str) -> None:
    fun, (x, y) = getattr(jnp, name), (jnp.array([2, 8]), jnp.array([4, 6]))
    np.testing.assert_array_equal(fun(_WithArray(x), _WithArray(y)), fun(x, y))


def test_numbers_are_not_moved_to_be_asked_for_their_kind() -> None:
    with kiln.transfer_guard("disallow"):
        found = [jnp.iscomplexobj(x) for x in (None, True, 1, 1.0, 1j, np.float32(1), np.arange(2))]
    assert found == [False, False, False, False, True, False, False]
