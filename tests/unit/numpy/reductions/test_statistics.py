"""Covariances of variables in rows and columns, and functions that must not promote ranks."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 1), (2, 3), (1, 1)])
@pytest.mark.parametrize("rowvar", [True, False])
def test_one_row_is_one_observation_if_variables_are_columns(shape, rowvar) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    columns = not rowvar and len(shape) == 2
    count = shape[1] if columns else (shape[0] if len(shape) == 2 else 1)
    expected = (count, count) if count > 1 else ()
    assert jnp.cov(x, rowvar=rowvar).shape == expected
    assert jnp.corrcoef(x, rowvar=rowvar).shape == expected
    turned = x.T if columns else x
    if np.atleast_2d(turned).shape[1] > 1:
        np.testing.assert_allclose(jnp.cov(x, rowvar=rowvar), np.cov(turned), rtol=1e-6)
    else:
        assert bool(jnp.isnan(jnp.cov(x, rowvar=rowvar)).all())


def test_functions_of_arrays_of_several_ranks_promote_none() -> None:
    points = jnp.arange(6.0)
    with kiln.numpy_rank_promotion("raise"):
        assert jnp.polyfit(points, points**2 + 1, 2, cov=True)[1].shape == (3, 3)
        assert jnp.polyfit(points, jnp.ones((6, 2)), 2, cov=True)[1].shape == (3, 3, 2)
        assert jnp.trapezoid(jnp.ones((2, 3)), dx=jnp.array([1.0, 2.0])).tolist() == [3, 3]


@pytest.mark.parametrize("shape", [(0,), (1, 0), (3, 0)])
def test_no_observations_have_no_covariance(shape) -> None:
    found = jnp.cov(np.zeros(shape, np.float32))
    assert found.shape == ((3, 3) if shape == (3, 0) else ())
    assert bool(jnp.isnan(found).all())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_statistics_of_complex_numbers_need_no_promotion() -> None:
    x = np.array([[1 + 1j, 2, 3], [2, 3, np.nan]], np.complex64)
    where = np.array([True, False, True])
    names = ["mean", "nanmean", "std", "nanstd", "var", "nanvar"]
    free = [getattr(jnp, name)(x, axis=0, where=where) for name in names]
    with kiln.numpy_rank_promotion("raise"), kiln.numpy_dtype_promotion("strict"):
        for name, expected in zip(names, free, strict=True):
            found = getattr(jnp, name)(x, axis=0, where=where)
            np.testing.assert_array_equal(found, expected, err_msg=name)
            numpys = getattr(np, name)(x, axis=0, where=where)
            np.testing.assert_allclose(found, numpys, err_msg=name)


@pytest.mark.parametrize("name", ["var", "std"])
def test_two_names_of_a_correction_are_one_too_many(name: str) -> None:
    x = jnp.arange(4.0)
    assert getattr(jnp, name)(x, correction=1) == getattr(jnp, name)(x, ddof=1)
    with pytest.raises(ValueError, match="can't be provided simultaneously"):
        getattr(jnp, name)(x, ddof=1, correction=0)
