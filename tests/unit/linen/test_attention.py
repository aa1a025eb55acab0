"""Attention says where and why it refuses; its cache and its masks do what their names say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen, random
from tests.unit.linen.refusals import inside, refusal

X = np.linspace(-1, 1, 2 * 5 * 8, dtype=np.float32).reshape(2, 5, 8)
KEY = random.key(0)


def attend(**fields: Any) -> linen.MultiHeadAttention:
    return linen.MultiHeadAttention(num_heads=2, **fields)


def test_names_of_parameters() -> None:
    params = attend(normalize_qk=True).init(KEY, X)["params"]
    assert sorted(params) == ["key", "key_ln", "out", "query", "query_ln", "value"]
    assert params["query"]["kernel"].shape == (8, 2, 4)
    assert params["query_ln"].keys() == {"scale"}
    assert params["out"]["kernel"].shape == (2, 4, 8)


def test_heads_that_do_not_divide_the_features() -> None:
    text = refusal(inside(lambda: linen.MultiHeadAttention(num_heads=3)), X)
    assert "MultiHeadAttention at /MultiHeadAttention_0" in text
    assert "Memory dimension (8) must be divisible by number of heads (3)" in text


def test_sources_of_keys_and_values() -> None:
    text = refusal(inside(attend), X, X, inputs_kv=X)
    assert "`inputs_kv` must be None" in text
    text = refusal(inside(attend), X, None, X)
    assert "`inputs_k` cannot be None" in text
    with pytest.raises(ValueError, match="batch dims must match") as caught:
        attend().init(KEY, X, X[:1])
    assert len(str(caught.value).split("\n")) == 3


@pytest.mark.parametrize(
    ("shapes", "wrong"),
    [
        (((3, 2, 4), (5, 2), (5, 2, 4)), "same rank"),
        (((3, 4), (5, 4), (5, 4)), "three or more"),
        (((1, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 4)), "batch dims must match"),
        (((3, 2, 4), (5, 1, 4), (5, 1, 4)), "num_heads must match"),
        (((3, 2, 4), (5, 2, 3), (5, 2, 4)), "depths of query and key must match"),
        (((3, 2, 4), (5, 2, 4), (4, 2, 4)), "lengths of key and value must match"),
    ],
)
def test_operands_that_do_not_go_together(shapes: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong) as caught:
        linen.dot_product_attention(*(np.ones(shape, np.float32) for shape in shapes))
    asked, _, _ = str(caught.value).split("\n")
    assert all(str(shape) in asked for shape in shapes)
    assert "test_attention.py" in asked


def test_dropout_needs_a_key() -> None:
    query = np.ones((3, 2, 4), np.float32)
    with pytest.raises(ValueError, match="dropout needs a random key"):
        linen.dot_product_attention(query, query, query, dropout_rate=0.5)
    module = attend(dropout_rate=0.5, deterministic=False)
    variables = module.init(KEY, X)
    with pytest.raises(linen.errors.InvalidRngError):
        module.apply(variables, X)


def test_an_attention_function_that_cannot_sow() -> None:
    def plain(query: Any, key: Any, value: Any) -> Any:
        return value

    assert attend(attention_fn=plain).init_with_output(KEY, X)[0].shape == X.shape
    text = refusal(inside(lambda: attend(attention_fn=plain)), X, sow_weights=True, error=TypeError)
    assert "plain does not take `module`" in text


def test_one_step_of_decoding_takes_one_position() -> None:
    module = inside(lambda: attend(decode=True))
    variables = module.init(KEY, X)
    with pytest.raises(ValueError, match="Autoregressive cache shape error") as caught:
        module.apply(variables, X[:, :2], mutable="cache")
    asked, wrong, _ = str(caught.value).split("\n")
    assert "MultiHeadAttention at /MultiHeadAttention_0" in asked
    assert "(2, 1, 2, 4)" in wrong
    with pytest.raises(linen.errors.ModifyScopeVariableError):
        module.apply(variables, X[:, :1])


def test_decoding_in_a_scan_is_the_whole_at_once() -> None:
    module = attend(decode=True)
    variables = module.init(KEY, X)
    params, empty = variables["params"], variables["cache"]

    def step(cache: Any, x: Any) -> Any:
        out, changed = module.apply(
            {"params": params, "cache": cache}, x[:, None], mutable=["cache"]
        )
        return changed["cache"], out[:, 0]

    cache, outputs = kiln.lax.scan(step, empty, jnp.moveaxis(jnp.asarray(X), 1, 0))
    whole = attend().apply({"params": params}, X, mask=linen.make_causal_mask(X[..., 0]))
    np.testing.assert_allclose(np.moveaxis(np.asarray(outputs), 0, 1), whole, atol=1e-6)
    assert int(cache["cache_index"]) == 5
    assert not np.any(empty["cached_key"])


def test_masks() -> None:
    causal = linen.make_causal_mask(np.zeros((1, 3)))
    np.testing.assert_array_equal(causal[0, 0], np.tri(3))
    known = linen.make_attention_mask(np.ones(3), np.array([1, 1, 0]))
    np.testing.assert_array_equal(
        linen.combine_masks(causal, known[None])[0, 0], np.tri(3) * [1, 1, 0]
    )
    assert linen.combine_masks(None, None) is None
    with pytest.raises(ValueError, match="masks must have same rank") as caught:
        linen.combine_masks(causal, known)
    assert "(1, 1, 3, 3), (1, 3, 3)" in str(caught.value)


def test_masked_positions_do_not_count() -> None:
    module = attend()
    variables = module.init(KEY, X)
    mask = np.arange(5) < 3
    short = module.apply(variables, X[:, :3])
    long = module.apply(variables, X, mask=mask[None, None, None])
    np.testing.assert_allclose(long[:, :3], short, atol=1e-6)


def test_self_attention_takes_the_mask_second() -> None:
    mask = linen.make_causal_mask(X[..., 0])
    plain, other = attend(), linen.SelfAttention(num_heads=2)
    variables = plain.init(KEY, X)
    np.testing.assert_array_equal(
        other.apply(variables, X, mask), plain.apply(variables, X, mask=mask)
    )
