"""Differences, integrals by sums, and what has no elements to take a difference of."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
@pytest.mark.parametrize(
    ("shape", "spacing", "axis"),
    [
        ((4,), (3,), 0),
        ((3, 3), (3, 1), 1),
        ((3, 3), (1, 3), 0),
        ((3, 4), (2, 4), 0),
        ((3, 4), (3, 3), 1),
        ((3, 4), (4,), 0),
        ((2, 3, 4, 5), (2, 1, 3, 5), 2),
        ((3, 4, 5), (3, 3, 5), 1),
        ((3, 4), (), 0),
    ],
)
def test_distances_belong_to_the_axes_of_the_samples(through, shape, spacing, axis) -> None:
    rng = np.random.default_rng(0)
    y, dx = rng.normal(size=shape), rng.normal(size=spacing)
    lines = np.moveaxis(y, axis, -1)
    full = np.broadcast_to(dx, tuple(n - (i == axis) for i, n in enumerate(shape)))
    expected = (np.moveaxis(full, axis, -1) * (lines[..., 1:] + lines[..., :-1]) / 2).sum(-1)
    found = through(lambda y, dx: jnp.trapezoid(y, dx=dx, axis=axis))(y, dx)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_nothing_unwraps_to_nothing(shape) -> None:
    for axis in range(len(shape)):
        assert jnp.unwrap(jnp.zeros(shape), axis=axis).shape == shape


@pytest.mark.parametrize("num", [0, 1])
def test_no_distance_between_numbers_is_one_nan(num) -> None:
    start, stop = np.zeros((2, 2)), np.ones((2, 2))
    _, step = jnp.linspace(start, stop, num, retstep=True)
    assert step.shape == np.shape(np.linspace(start, stop, num, retstep=True)[1]) == ()
    assert np.isnan(step)
    _, step = jnp.linspace(start, stop, 1, endpoint=False, retstep=True)
    assert step.shape == (2, 2)
