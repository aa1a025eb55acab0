"""Zeros and operands to pull back to have the types of what they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.errors import MissingRule
from kiln.core.absent import Linear, Zero, is_linear, is_zero
from kiln.ir.types import ShapedArray

MATRIX = ShapedArray((2, 3), np.dtype(np.float32))


@pytest.mark.parametrize("kind", [Zero, Linear])
def test_they_have_shape_and_dtype(kind: type) -> None:
    absent = kind(MATRIX)
    assert (absent.shape, absent.dtype, absent.ndim) == ((2, 3), np.float32, 2)
    assert repr(absent) == f"{kind.__name__}(float32[2,3])"


def test_they_are_told_apart() -> None:
    assert is_zero(Zero(MATRIX))
    assert not is_zero(Linear(MATRIX))
    assert is_linear(Linear(MATRIX))
    assert not is_linear(np.zeros(3))


def test_zero_of_a_value_has_its_tangent_type() -> None:
    assert Zero.from_primal_value(np.ones((2, 3), np.float32)).aval == MATRIX
    assert Zero.from_primal_value(np.arange(2)).dtype == dtypes.float0


def test_the_value_of_a_linear_operand_is_never_made_up() -> None:
    with pytest.raises(MissingRule, match=r"not linear in an operand of type float32\[2,3\]"):
        np.asarray(Linear(MATRIX), np.float32)
