"""Reductions of narrow floats: sums and products are kept in 32 bits until they are whole."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kiln import lax
from tests.unit.engines.native.lowerings.running import results

# What lies between is larger, or has more digits, than the result.
FACTORS = {np.float16: [300, 300, 0.001], ml_dtypes.bfloat16: [1.0078125, 1.0234375, 1.125]}
TERMS = {np.float16: [60000, 60000, -60000], ml_dtypes.bfloat16: [256, 1, 1]}


@pytest.mark.parametrize("dtype", FACTORS)
@pytest.mark.parametrize("ones", [0, 30])
def test_what_is_between_is_not_rounded(dtype: type, ones: int) -> None:
    """Few numbers are an expression, many a loop."""
    factors = np.array([FACTORS[dtype] + [1] * ones] * 20, dtype)
    terms = np.array([TERMS[dtype] + [0] * ones] * 20, dtype)
    product, _ = results(lambda x: lax.reduce_prod(x, (1,)), factors)
    total, _ = results(lambda x: lax.reduce_sum(x, (1,)), terms)
    assert product.dtype == total.dtype == dtype
    # The first three in 32 bits, rounded at the end.
    expected = np.prod(factors[:, :3].astype(np.float32), 1).astype(dtype)
    np.testing.assert_array_equal(product.astype(float), expected.astype(float))
    expected = np.sum(terms[:, :3].astype(np.float32), 1).astype(dtype)
    np.testing.assert_array_equal(total.astype(float), expected.astype(float))
