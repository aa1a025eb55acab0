"""Errors have the words that users of NumPy and JAX search for, in their second line."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: jnp.trace(X, axis1=1, axis2=-1), ValueError, "axis1 and axis2 can not be same"),
        (lambda: jnp.size(X, (0, -2)), ValueError, "repeated axis"),
        (lambda: jnp.expand_dims(X, (1, 1)), ValueError, "repeated axis"),
        (lambda: jnp.take(X[:0], 0, axis=0), IndexError, r"non-empty jnp\.take"),
        (lambda: jnp.rot90(X[0]), ValueError, "requires its first argument to have ndim at least"),
        (lambda: jnp.corrcoef(X, dtype=int), ValueError, "must be a subclass of float or complex"),
        (
            lambda: jnp.zeros(2, 3),
            TypeError,
            r"Did you accidentally write `jax\.numpy\.zeros\(2, 3",
        ),
        (lambda: jnp.ones(2, 3), TypeError, r"when you meant `jax\.numpy\.ones\(\(2, 3\)\)`"),
        (
            lambda: jnp.arange(1j, 5),
            ValueError,
            "complex start/stop/step to jnp.arange is no longer",
        ),
        (lambda: jnp.nanstd(X, where=X), ValueError, r"jnp\.nanstd: where must be None or a bool"),
        (lambda: jnp.std(X, where=X), ValueError, r"jnp\.std: where must be None or a boolean"),
        (lambda: jnp.cumulative_sum(X), ValueError, "input array has rank 2, however axis was not"),
        (
            lambda: kiln.jit(lambda x, y: x, static_argnums=1)(1, []),
            ValueError,
            "Non-hashable static arguments are not supported",
        ),
        (
            lambda: kiln.jit(lambda x: x, static_argnames="x", donate_argnames="x"),
            ValueError,
            "static_argnames and donate_argnames cannot intersect",
        ),
        (
            lambda: kiln.jit(lambda x: x).lower(1.0).compile()([1.0]),
            TypeError,
            "compiled with input pytree does not match the input pytree it was called with",
        ),
        (
            lambda: kiln.vmap(kiln.jit(lambda x: x).lower(1.0).compile())(X[0]),
            TypeError,
            "function lowered and compiled for a particular signature",
        ),
    ],
)
def test_words(call: Callable[[], object], error: type[Exception], phrase: str) -> None:
    with pytest.raises(error, match=phrase) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


def test_the_warning_of_promoted_ranks() -> None:
    words = r"automatic rank promotion for add on shapes \(3, 4\) \(4,\)"
    with override(numpy_rank_promotion="warn"), pytest.warns(UserWarning, match=words):
        jnp.add(X, X[0])


def test_coordinates_that_are_not_checked() -> None:
    found = jnp.ravel_multi_index((np.array([0, 2]), np.array([1, 5])), (2, 3), mode="ignore")
    assert found.tolist() == [1, 11]


def test_ranges_with_a_step_alone() -> None:
    assert jnp.arange(7, step=2).tolist() == [0, 2, 4, 6]
    assert jnp.arange(3, None, 1).tolist() == [0, 1, 2]
    assert jnp.arange(1.5, step=0.5).tolist() == [0.0, 0.5, 1.0]


def test_grids_of_nothing() -> None:
    assert jnp.mgrid[()].shape == (0,)
    assert jnp.ogrid[()] == []
    assert jnp.mgrid[:].tolist() == np.mgrid[:].tolist()
    assert jnp.mgrid[3:].tolist() == np.mgrid[3:].tolist()
    with pytest.raises(kiln.errors.ConcretizationTypeError, match="slice start of jnp"):
        kiln.jit(lambda a, b: jnp.mgrid[a:b])(0, 2)


@pytest.mark.parametrize("joiner", [jnp.r_, jnp.c_])
def test_directives_of_joiners(joiner: object) -> None:
    with pytest.raises(ValueError, match="could not understand directive 'asdfgh'"):
        joiner["asdfgh", [1, 2]]  # type: ignore[index]
