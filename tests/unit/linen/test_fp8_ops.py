"""Quantized products: rounding, scales that follow, gradients that are next values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kiln
import kiln.linen as nn
import kiln.numpy as jnp
from kiln.linen import fp8_ops

KEY = kiln.random.key(0)
E4M3 = jnp.float8_e4m3fn


def test_rounding():
    x = jnp.array([1.06, -500.0, 0.3])
    assert fp8_ops.qdq(x, E4M3, jnp.ones(1), jnp.float32).tolist() == [1.0, -448.0, 0.3125]
    assert fp8_ops.get_fp8_max(E4M3, np.float32) == 448


@pytest.mark.parametrize(("largest", "scale"), [(896.0, 2.0), (0.0, 3.0), (np.inf, 3.0)])
def test_scales(largest, scale):
    assert float(fp8_ops.compute_scale(jnp.float32(largest), jnp.float32(3), 448.0)) == scale


def test_histories():
    scale, history = fp8_ops.update_fp8_meta(
        jnp.array([1.0, -896.0]), E4M3, jnp.ones(1), jnp.array([0.0, 448.0, 0.0])
    )
    assert scale.tolist() == [1.0] and history.tolist() == [896.0, 0.0, 0.0]


@pytest.mark.parametrize("operation", [nn.Fp8DotGeneral, nn.NANOOFp8DotGeneralOp])
def test_layers_with_quantized_products(operation):
    layer = nn.Dense(8, dot_general_cls=operation)
    x = kiln.random.normal(KEY, (16, 32))
    variables = layer.init(KEY, x)
    plain = nn.Dense(8).apply({"params": variables["params"]}, x)

    def loss(variables, x):
        return jnp.sum(layer.apply(variables, x) ** 2)

    np.testing.assert_allclose(layer.apply(variables, x), plain, atol=0.3)
    slopes = kiln.jit(kiln.grad(loss))(variables, x)
    following = next(iter(slopes[fp8_ops.OVERWRITE_WITH_GRADIENT].values()))
    assert float(following["input_amax_history"][0]) == float(jnp.max(jnp.abs(x)))
    assert following["input_scale"].shape == (1,)


def test_einsum():
    x, w = kiln.random.normal(KEY, (2, 3, 16)), kiln.random.normal(KEY, (8, 16))
    y, _ = nn.Fp8Einsum().init_with_output(KEY, "...k,nk->...n", x, w)
    np.testing.assert_allclose(y, jnp.einsum("...k,nk->...n", x, w), atol=0.7)


def test_warnings():
    with pytest.warns(DeprecationWarning, match="Fp8DotGeneralOp is deprecated"):
        nn.Fp8DotGeneralOp()
    numbers = (((1,), (0,)), ((), ()))
    with pytest.warns(UserWarning, match="precision"):
        fp8_ops.dot_general_with_precision(jnp.eye(2), jnp.eye(2), numbers, precision="highest")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Fp8DirectDotGeneralOp()
