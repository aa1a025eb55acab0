"""Norms: what they refuse, what batch norm keeps, and statistics over a mapped axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen
from kiln.linen.errors import ModifyScopeVariableError
from tests.unit.linen.refusals import inside, refusal

X = np.random.RandomState(0).randn(8, 3, 4).astype(np.float32)
KEY = kiln.random.key(0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: linen.BatchNorm(False, axis=3), "axis 3 is out of range"),
        (lambda: linen.LayerNorm(reduction_axes=(1, 4)), "reduction_axes (1, 4) is out of range"),
        (lambda: linen.RMSNorm(feature_axes=-4), "feature_axes -4 is out of range"),
        (linen.GroupNorm, "Number of groups (32) does not divide"),
        (lambda: linen.GroupNorm(0), "Number of groups (0) does not divide"),
        (lambda: linen.GroupNorm(2, 2), "Either `num_groups` or `group_size`"),
        (lambda: linen.GroupNorm(None), "Either `num_groups` or `group_size`"),
        (lambda: linen.GroupNorm(None, 3), "is not multiple of the group size (3)"),
        (lambda: linen.GroupNorm(None, 0), "is not multiple of the group size (0)"),
        (lambda: linen.GroupNorm(2, reduction_axes=(1,)), "must include the final dimension"),
        (lambda: linen.InstanceNorm(feature_axes=0), "cannot include the leading dimension"),
    ],
)
def test_refusals(make: Any, text: str) -> None:
    said = refusal(inside(make), X)
    assert text in said
    assert "Norm_0" in said


def test_which_averages_is_said_once() -> None:
    with pytest.raises(ValueError, match="constructor or at call time"):
        linen.BatchNorm().init(KEY, X)
    with pytest.raises(ValueError, match="Should be passed just once"):
        linen.BatchNorm(True).init(KEY, X, use_running_average=False)


def test_running_averages_move() -> None:
    norm = linen.BatchNorm(use_running_average=False, momentum=0.9)
    variables = norm.init(KEY, X)
    np.testing.assert_array_equal(variables["batch_stats"]["mean"], np.zeros(4))
    np.testing.assert_array_equal(variables["batch_stats"]["var"], np.ones(4))
    out, changed = norm.apply(variables, X, mutable=["batch_stats"])
    np.testing.assert_allclose(np.mean(out, (0, 1)), np.zeros(4), atol=1e-6)
    np.testing.assert_allclose(np.var(out, (0, 1)), np.ones(4), rtol=1e-4)
    np.testing.assert_allclose(
        changed["batch_stats"]["mean"], 0.1 * X.mean((0, 1)), rtol=1e-4, atol=1e-7
    )
    np.testing.assert_allclose(changed["batch_stats"]["var"], 0.9 + 0.1 * X.var((0, 1)), rtol=1e-4)


def test_training_needs_mutable_averages() -> None:
    norm = linen.BatchNorm(use_running_average=False)
    with pytest.raises(ModifyScopeVariableError):
        norm.apply(norm.init(KEY, X), X)
    evaluated = linen.BatchNorm(use_running_average=True)
    evaluated.apply(norm.init(KEY, X), X)


def test_statistics_over_a_mapped_axis() -> None:
    alone = linen.BatchNorm(use_running_average=False)
    named = linen.BatchNorm(use_running_average=False, axis_name="i")
    variables = alone.init(KEY, X)
    expected, _ = alone.apply(variables, X, mutable=["batch_stats"])
    parts = X.reshape(4, 2, 3, 4)
    found, changed = kiln.vmap(
        lambda x: named.apply(variables, x, mutable=["batch_stats"]), axis_name="i"
    )(parts)
    np.testing.assert_allclose(np.reshape(found, X.shape), expected, rtol=1e-4, atol=1e-5)
    means = np.asarray(changed["batch_stats"]["mean"])
    np.testing.assert_allclose(means, means[:1].repeat(4, 0), rtol=1e-6)


def test_masked_places_do_not_count() -> None:
    mask = np.ones((8, 3, 1), bool)
    mask[5:] = False
    other = X.copy()
    other[5:] = 100
    norm = linen.BatchNorm(use_running_average=False)
    variables = norm.init(KEY, X)
    found, expected = (
        norm.apply(variables, x, mask=mask, mutable=["batch_stats"])[1] for x in (other, X)
    )
    np.testing.assert_array_equal(found["batch_stats"]["mean"], expected["batch_stats"]["mean"])


def test_group_norm_takes_masks_of_one_feature() -> None:
    mask = np.ones((8, 3, 4), bool)
    mask[:, 2] = False
    norm = linen.GroupNorm(2)
    variables = norm.init(KEY, X)
    np.testing.assert_allclose(
        norm.apply(variables, X, mask=mask[..., :1]), norm.apply(variables, X, mask=mask), rtol=1e-5
    )


def test_types() -> None:
    low = X.astype(jnp.bfloat16)
    norm = linen.LayerNorm(param_dtype=jnp.bfloat16)
    assert norm.init_with_output(KEY, low)[0].dtype == jnp.bfloat16
    assert linen.LayerNorm().init_with_output(KEY, low)[0].dtype == np.float32
    assert linen.LayerNorm(dtype=jnp.bfloat16).init_with_output(KEY, X)[0].dtype == jnp.bfloat16


def test_large_integers_in_bfloat16_are_summed_in_float32() -> None:
    big = np.full((1, 4096), 1.0, jnp.bfloat16)
    norm = linen.LayerNorm(use_scale=False, use_bias=False, dtype=jnp.bfloat16)
    assert not np.asarray(norm.apply({}, big), np.float32).any()


def test_a_variance_that_rounding_makes_negative_is_none() -> None:
    # Of equal numbers the mean of the squares may be less than the square of the mean.
    x = jnp.repeat(jnp.array([[333.3], [1000.7], [12345.67]]), 7, axis=1)
    assert (jnp.mean(x * x, 1) < jnp.mean(x, 1) ** 2).any()
    norm = linen.LayerNorm(use_scale=False, use_bias=False)
    assert np.isfinite(norm.apply({}, x)).all()


@pytest.mark.parametrize("low", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("in_float32", [True, False])
def test_averages_are_kept_in_float32_unless_told_otherwise(low: Any, in_float32: bool) -> None:
    x = jnp.asarray(X, low)
    options = {"dtype": low, "param_dtype": low, "force_float32_reductions": in_float32}
    norm = linen.BatchNorm(False, **options)
    out, variables = norm.init_with_output(KEY, x)
    _, changed = norm.apply(variables, x, mutable=["batch_stats"])
    wanted = np.dtype(np.float32) if in_float32 else low
    for averages in (variables["batch_stats"], changed["batch_stats"]):
        assert [averages[name].dtype for name in ("mean", "var")] == [wanted] * 2
    assert out.dtype == low
    assert {x.dtype for x in kiln.tree.leaves(variables["params"])} == {np.dtype(low)}
