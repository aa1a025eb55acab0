"""Norms of weights: what is normalized, what is kept, and how it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import linen
from kiln.linen.errors import ModifyScopeVariableError

X = np.random.RandomState(0).randn(8, 4).astype(np.float32)
IMAGES = np.random.RandomState(0).randn(2, 5, 5, 3).astype(np.float32)
KEY = kiln.random.key(0)


class Around(linen.Module):
    """A layer with a norm around it, both made here."""

    norm: type[linen.Module]
    layer: Any
    options: Any

    @linen.compact
    def __call__(self, x: Any, **kwargs: Any) -> Any:
        return self.norm(self.layer(), **self.options)(x, **kwargs)


def test_lengths_of_features_are_learnt() -> None:
    module = linen.WeightNorm(linen.Dense(5))
    variables = module.init(KEY, X)
    params = variables["params"]
    assert sorted(params) == ["layer_instance", "layer_instance/kernel/scale"]
    longer = {**params, "layer_instance/kernel/scale": np.full(5, 3.0, np.float32)}
    kernel = np.asarray(params["layer_instance"]["kernel"])
    expected = X @ (3 * kernel / np.linalg.norm(kernel, axis=0))
    np.testing.assert_allclose(module.apply({"params": longer}, X), expected, rtol=1e-4, atol=1e-5)


def test_names_follow_the_layer() -> None:
    weight = Around(linen.WeightNorm, lambda: linen.Dense(5), {"variable_filter": None})
    assert kiln.tree.map(np.shape, weight.init(KEY, X)["params"]) == {
        "Dense_0": {"bias": (5,), "kernel": (4, 5)},
        "WeightNorm_0": {"Dense_0/bias/scale": (5,), "Dense_0/kernel/scale": (5,)},
    }
    spectral = Around(linen.SpectralNorm, lambda: linen.Conv(5, (3, 3)), {})
    stats = spectral.init(KEY, IMAGES, update_stats=True)["batch_stats"]
    assert kiln.tree.map(np.shape, stats) == {
        "SpectralNorm_0": {"Conv_0/kernel/sigma": (), "Conv_0/kernel/u": (1, 5)}
    }


def test_the_greatest_singular_value_is_found() -> None:
    module = linen.SpectralNorm(linen.Dense(5, use_bias=False), n_steps=50)
    variables = module.init(KEY, X, update_stats=True)
    wide = kiln.tree.map(lambda x: x, variables)
    kernel = 7 * np.random.RandomState(1).randn(4, 5).astype(np.float32)
    wide["params"]["layer_instance"]["kernel"] = kernel
    out, changed = module.apply(wide, X, update_stats=True, mutable=["batch_stats"])
    greatest = np.linalg.svd(kernel)[1][0]
    sigma = changed["batch_stats"]["layer_instance/kernel/sigma"]
    np.testing.assert_allclose(sigma, greatest, rtol=1e-4)
    np.testing.assert_allclose(out, X @ (kernel / greatest), rtol=1e-3, atol=1e-3)


def test_evaluation_changes_nothing() -> None:
    module = linen.SpectralNorm(linen.Dense(5))
    variables = module.init(KEY, X, update_stats=False)
    _, changed = module.apply(variables, X, update_stats=False, mutable=["batch_stats"])
    for x, y in zip(
        kiln.tree.leaves(changed["batch_stats"]),
        kiln.tree.leaves(variables["batch_stats"]),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)
    module.apply(variables, X, update_stats=False)
    with pytest.raises(ModifyScopeVariableError):
        module.apply(variables, X, update_stats=True)


def test_refusals() -> None:
    strict = Around(
        linen.SpectralNorm, lambda: linen.Conv(5, (3, 3)), {"error_on_non_matrix": True}
    )
    with pytest.raises(ValueError, match="Input is 4D but error_on_non_matrix is True"):
        strict.init(KEY, IMAGES, update_stats=True)
    far = Around(linen.WeightNorm, lambda: linen.Dense(5), {"feature_axes": 2})
    with pytest.raises(ValueError, match="feature_axes 2 is out of range") as caught:
        far.init(KEY, X)
    assert "WeightNorm at /WeightNorm_0" in str(caught.value)
