"""The high half of products of 64 bits, which the generic checks do not reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from kiln.ops.elements.wide_product import mulhi


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint32", "uint64"])
def test_as_python_multiplies(engine: str, dtype: Any) -> None:
    bounds = np.iinfo(dtype)
    x, y = np.random.default_rng(0).integers(bounds.min, bounds.max, (2, 60), dtype, endpoint=True)
    x[:4], y[:4] = [bounds.min, bounds.max] * 2, [bounds.min, bounds.max, bounds.max, 1]
    expected = [int(a) * int(b) >> bounds.bits for a, b in zip(x, y, strict=True)]
    with override(enable_x64=True):
        found = kiln.jit(mulhi)(x, y)
        assert found.dtype == dtype
        assert np.asarray(found).tolist() == expected
