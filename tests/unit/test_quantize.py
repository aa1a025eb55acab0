"""Weights in int8 and bf16: their error, products, layers, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen, quantize, random
from kiln.base.options.config import override
from kiln.quantize import QuantizedArray


def is_quantized(x: Any) -> bool:
    return isinstance(x, QuantizedArray)


def dequantized(tree: Any) -> Any:
    return kiln.tree.map(
        lambda x: x.dequantize() if is_quantized(x) else x, tree, is_leaf=is_quantized
    )


def kernel(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape[-1])).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "shape", "axes"),
    [("Dense_0", (70, 33), (0,)), ("query", (32, 4, 8), (0,)), ("out", (4, 8, 32), (0, 1))],
)
def test_error_of_int8(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    w = kernel(*shape)
    found = quantize.int8({name: {"kernel": w}})[name]["kernel"]
    largest = abs(w).max(axis=axes, keepdims=True)
    assert found.values.dtype == np.int8 and found.scale.shape == largest.shape
    error = abs(np.asarray(found.dequantize(), np.float64) - w)
    assert (error <= largest / 254 * (1 + 2.0**-16)).all()
    # The bound is reached: a scale twice as fine would not be needed.
    assert (error > largest / 260).any()


def test_error_of_bfloat16() -> None:
    w = kernel(70, 33)
    found = quantize.bfloat16({"kernel": w})["kernel"]
    assert found.values.dtype == jnp.bfloat16 and found.dequantize().dtype == np.float32
    assert (abs(np.asarray(found.dequantize()) - w) <= abs(w) / 256).all()


def test_channels_of_zeros_and_of_numbers_that_are_not_finite() -> None:
    w = np.ones((3, 4), np.float32)
    w[:, 0], w[1, 1], w[2, 2] = 0, np.nan, -np.inf
    found = np.asarray(quantize.int8({"kernel": w})["kernel"].dequantize())
    np.testing.assert_array_equal(found[:, [0, 3]], w[:, [0, 3]])
    assert np.isnan(found[:, 1:3]).all()


def test_which_leaves_are_quantized() -> None:
    tree = {
        "a": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)},
        "conv": {"kernel": jnp.ones((3, 3, 2, 2))},
        "integers": {"kernel": jnp.ones((2, 3), int)},
        "embedding": jnp.ones((5, 2)),
    }
    chosen = [is_quantized(x) for x in kiln.tree.leaves(quantize.int8(tree), is_leaf=is_quantized)]
    assert sum(chosen) == 1 and is_quantized(quantize.int8(tree)["a"]["kernel"])
    only = quantize.bfloat16(tree, where=lambda path, leaf: path == ("embedding",))
    assert is_quantized(only["embedding"]) and not is_quantized(only["a"]["kernel"])


@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_dot(engine: str, rows: int) -> None:
    x = kernel(rows, 300, seed=1)
    for found in (quantize.int8, quantize.bfloat16):
        w = found({"kernel": kernel(300, 70)})["kernel"]
        with override(engine=engine):
            out = kiln.jit(quantize.dot)(x, w)
        exact = np.asarray(w.dequantize(), np.float64)
        bound = 400 * 2.0**-24 * (abs(x).astype(np.float64) @ abs(exact))
        assert out.dtype == np.float32 and (abs(out - x.astype(np.float64) @ exact) <= bound).all()


def test_dot_reads_the_narrow_numbers() -> None:
    w = quantize.int8({"kernel": kernel(300, 70)})["kernel"]
    text = kiln.jit(quantize.dot).lower(kernel(4, 300), w).as_text("loops")
    assert "kiln_gemm_f32_i8" in text
    w = quantize.bfloat16({"kernel": kernel(300, 70)})["kernel"]
    assert "kiln_gemm_f32_bf16" in kiln.jit(quantize.dot).lower(kernel(4, 300), w).as_text("loops")


def test_a_scale_along_a_contracted_axis_is_applied_first() -> None:
    w = quantize.int8({"kernel": kernel(6, 5, 7)})["kernel"]
    x = kernel(3, 6, 5, seed=1)
    found = quantize.dot_general(x, w, (((1, 2), (0, 1)), ((), ())))
    expected = np.tensordot(x, np.asarray(w.dequantize()), 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_batches_and_dtypes() -> None:
    w = quantize.int8({"kernel": kernel(3, 20, 8)}, contracted=lambda path, leaf: (1,))["kernel"]
    x = kernel(3, 5, 20, seed=1)
    numbers = (((2,), (1,)), ((0,), (0,)))
    expected = np.matmul(x, np.asarray(w.dequantize()))
    found = quantize.dot_general(x, w, numbers)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
    half = w.replace(dtype=np.dtype(jnp.bfloat16))
    rounded = quantize.dot_general(jnp.asarray(x, jnp.bfloat16), half, numbers)
    assert rounded.dtype == jnp.bfloat16
    largest = abs(expected).max(axis=(0, 1))
    assert (abs(np.asarray(rounded, np.float32) - expected) <= largest / 50).all()


class Model(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        y = linen.relu(linen.Dense(32)(x))
        y = linen.MultiHeadDotProductAttention(num_heads=4)(y, y)
        return linen.Dense(3, dtype=jnp.float32)(y)


@pytest.mark.parametrize("found", [quantize.int8, quantize.bfloat16])
def test_layers_take_quantized_kernels(found: Any) -> None:
    x = random.normal(random.key(1), (2, 5, 12))
    variables = Model().init(random.key(0), x)
    narrow = found(variables)
    kernels = kiln.tree.leaves(narrow, is_leaf=is_quantized)
    assert sum(map(is_quantized, kernels)) == 6
    run = kiln.jit(lambda variables, x: Model().apply(variables, x))
    wide = dequantized(narrow)
    np.testing.assert_allclose(run(narrow, x), run(wide, x), rtol=1e-4, atol=1e-5)
    slope = kiln.grad(lambda x, variables: run(variables, x).sum())
    np.testing.assert_allclose(slope(x, narrow), slope(x, wide), rtol=1e-3, atol=1e-5)
    each = kiln.vmap(run, in_axes=(None, 0))(narrow, x[:, None])[:, 0]
    np.testing.assert_allclose(each, run(narrow, x), rtol=1e-4, atol=1e-5)


def test_layers_with_a_product_of_their_own_get_arrays() -> None:
    seen: list[Any] = []

    def product(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(y)
        return kiln.lax.dot_general(x, y, *args, **kwargs)

    layer = linen.Dense(3, dot_general=product)
    x = jnp.ones((2, 4))
    layer.apply(quantize.int8(layer.init(random.key(0), x)), x)
    assert all(y.dtype == np.float32 for y in seen)


def test_arrays_are_expected_elsewhere() -> None:
    w = quantize.int8({"kernel": kernel(4, 3)})["kernel"]
    assert (w.shape, w.ndim, w.dtype) == ((4, 3), 2, np.float32)
    np.testing.assert_array_equal(jnp.sin(w), jnp.sin(w.dequantize()))
    assert w.dequantize(jnp.float16).dtype == np.float16
