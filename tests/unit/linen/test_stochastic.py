"""Dropout drops what its key says, keeps the mean, and does nothing when told so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import linen
from kiln.linen.errors import InvalidRngError
from tests.unit.linen.refusals import inside, refusal

X = np.ones((30, 40), np.float32)
KEY = kiln.random.key(0)


def dropped(module: Any, x: Any = X, **options: Any) -> Any:
    return np.asarray(module.apply({}, x, rngs={"dropout": KEY}, **options))


def test_the_rest_is_scaled() -> None:
    found = dropped(linen.Dropout(0.25), deterministic=False)
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((found == 0).mean() - 0.25) < 0.05


def test_axes_that_share_their_fate() -> None:
    found = dropped(linen.Dropout(0.5, broadcast_dims=(-1,), deterministic=False))
    assert (found == found[:, :1]).all()
    assert 0 < (found[:, 0] == 0).sum() < 30


def test_what_is_deterministic() -> None:
    module = linen.Dropout(0.5)
    np.testing.assert_array_equal(module.apply({}, X, deterministic=True), X)
    np.testing.assert_array_equal(linen.Dropout(0.0).apply({}, X, deterministic=False), X)
    assert not np.asarray(linen.Dropout(1.0).apply({}, X, deterministic=False)).any()
    with pytest.raises(ValueError, match="constructor or at call time"):
        module.apply({}, X)
    with pytest.raises(ValueError, match="Should be passed just once"):
        linen.Dropout(0.5, deterministic=True).apply({}, X, deterministic=True)


def test_keys() -> None:
    module = linen.Dropout(0.5, deterministic=False)
    with pytest.raises(InvalidRngError):
        module.apply({}, X)
    given = dropped(module, rng=kiln.random.key(3))
    np.testing.assert_array_equal(given, module.apply({}, X, rng=kiln.random.key(3)))
    other = linen.Dropout(0.5, deterministic=False, rng_collection="noise")
    other.apply({}, X, rngs={"noise": KEY})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": 1.5}, "the probability of being dropped"),
        ({"rate": -0.1}, "the probability of being dropped"),
        ({"rate": 0.5, "broadcast_dims": (2,)}, "broadcast_dims (2,) is out of range"),
    ],
)
def test_refusals(options: Any, text: str) -> None:
    module = inside(lambda: linen.Dropout(deterministic=False, rng_collection="params", **options))
    said = refusal(module, X)
    assert text in said
    assert "Dropout at /Dropout_0" in said
