"""Axes, shapes and repeats given as any sequence or iterable of ints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
FORMS = [tuple, list, np.array, range, iter]


def formed(form: Any, *numbers: int) -> Any:
    """Return two consecutive numbers in a form."""
    return range(numbers[0], numbers[-1] + 1) if form is range else form(numbers)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("again", [False, True])
def test_axes_are_any_iterable(form: Any, again: bool) -> None:
    # The second call of an eager function may run what the first one planned.
    for _ in range(1 + again):
        assert jnp.expand_dims(X, formed(form, 0, 1)).shape == (1, 1, 2, 3, 4)
        assert np.array_equal(jnp.roll(X, 1, formed(form, 0, 1)), np.roll(X, 1, (0, 1)))
        assert np.array_equal(jnp.flip(X, formed(form, 1, 2)), np.flip(X, (1, 2)))
        over = jnp.apply_over_axes(jnp.sum, X, formed(form, 0, 1))
        assert np.array_equal(over, X.sum((0, 1), keepdims=True))
        assert jnp.moveaxis(X, formed(form, 0, 1), formed(form, 1, 2)).shape == (4, 2, 3)


@pytest.mark.parametrize("form", FORMS)
def test_shapes_and_repeats_are_any_iterable(form: Any) -> None:
    assert jnp.reshape(X[:, 0, :3], formed(form, 2, 3)).shape == (2, 3)
    assert jnp.tile(X, formed(form, 1, 2)).shape == (2, 3, 8)


def test_an_axis_may_be_a_number_of_numpy() -> None:
    for axis in (np.int64(1), np.asarray(1)):
        assert jnp.expand_dims(X, axis).shape == (2, 1, 3, 4)
        assert np.array_equal(jnp.roll(X, 1, axis), np.roll(X, 1, 1))
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        jnp.expand_dims(X, "ab")  # type: ignore[arg-type]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("place", [0, 1, 3, -1, -3])
@pytest.mark.parametrize("values", [7.0, [1.0], [[1.0, 2.0, 3.0]] * 3])
def test_insert_at_an_index_that_is_traced(place: int, axis: int | None, values: Any) -> None:
    x = np.arange(9.0).reshape(3, 3)
    if axis is None:
        values = np.ravel(values)[:1][0]
    wanted = np.insert(x, place, values, axis)
    found = kiln.jit(lambda x, i, v: jnp.insert(x, i, v, axis))(x, place, np.asarray(values))
    np.testing.assert_array_equal(found, wanted)


def test_complex_numbers_are_sorted_along_the_last_axis() -> None:
    x = np.array([[3, 1, 2], [1, 3, 2]])
    np.testing.assert_array_equal(jnp.sort_complex(x), np.sort_complex(x))
    np.testing.assert_array_equal(jnp.sort_complex(x[0]), np.sort_complex(x[0]))


def test_gradient_by_uneven_steps_promotes_no_ranks() -> None:
    x, steps = np.arange(12.0).reshape(3, 4) ** 2, np.array([0.0, 1.0, 3.0, 4.5])
    with override(numpy_rank_promotion="raise"):
        found = jnp.gradient(x, steps, axis=1)
    np.testing.assert_allclose(found, np.gradient(x, steps, axis=1), rtol=1e-5)


class Sizes:
    """A sequence by its length and items, as NumPy takes for a shape."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, place: int) -> int:
        return self.sizes[place]


def test_shapes_are_whatever_has_a_length_and_items() -> None:
    assert jnp.reshape(jnp.arange(6), Sizes(2, 3)).shape == (2, 3)
    assert jnp.arange(6).reshape(Sizes(3, 2)).shape == (3, 2)
    assert jnp.arange(1).reshape(Sizes()).shape == ()
