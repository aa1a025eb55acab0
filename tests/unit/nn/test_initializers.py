"""Initializers keep variance, and take the dtype of the call before their own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kiln import nn, random
from kiln.base.options.config import override

I = nn.initializers


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
@pytest.mark.parametrize(
    ("mode", "fan"),
    [("fan_in", 40), ("fan_out", 88), ("fan_avg", 64), ("fan_geo_avg", math.sqrt(40 * 88))],
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_variance(mode: str, fan: float, distribution: str, dtype: str) -> None:
    with override(engine="reference"):
        init = I.variance_scaling(3.0, mode, distribution, dtype=dtype)
        found = np.asarray(init(random.key(0), (4, 10, 22)))
    assert abs(found.mean()) < 0.05
    assert np.mean(np.abs(found) ** 2) == pytest.approx(3.0 / fan, rel=0.15)
    assert found.dtype == dtype


def test_dtypes() -> None:
    key = random.key(0)
    with override(engine="reference"):
        assert I.normal()(key, (2,)).dtype == np.float32
        assert I.normal(dtype="float16")(key, (2,)).dtype == np.float16
        assert I.normal(dtype="float16")(key, (2,), "float32").dtype == np.float32


def test_orthogonal_matrices_are_orthogonal() -> None:
    with override(engine="reference"):
        tall = np.asarray(I.orthogonal(2.0)(random.key(0), (7, 3)))
        wide = np.asarray(I.orthogonal()(random.key(0), (3, 7)))
        taps = np.asarray(I.delta_orthogonal()(random.key(0), (3, 3, 4, 6)))
    np.testing.assert_allclose(tall.T @ tall, 4 * np.eye(3), atol=1e-5)
    np.testing.assert_allclose(wide @ wide.T, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(taps[1, 1] @ taps[1, 1].T, np.eye(4), atol=1e-5)
    assert np.count_nonzero(taps) == 24


def test_names_say_what_they_make() -> None:
    assert I.he_normal.__name__ == "he_normal"
    assert "variance_scaling(2.0, 'fan_in', 'truncated_normal')" in I.he_normal.__doc__


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_orthogonal_matrices_without_elements(shape: tuple[int, int]) -> None:
    assert I.orthogonal()(random.key(0), shape).shape == shape


@pytest.mark.parametrize(("inputs", "outputs"), [([0], []), ([], [0])])
def test_variance_of_vectors_whose_axes_are_named(inputs: list[int], outputs: list[int]) -> None:
    init = I.variance_scaling(1.0, "fan_in", "normal", in_axis=inputs, out_axis=outputs)
    assert init(random.key(0), (5,)).shape == (5,)
    with pytest.raises(ValueError, match=r"with default in_axis.*\n.*or give in_axis"):
        I.variance_scaling(1.0, "fan_in", "normal")(random.key(0), (5,))
