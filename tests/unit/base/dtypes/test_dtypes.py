"""Conversions by kind, dtypes users ask for, Python scalars as values of a dtype."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.options.config import override


def test_everything_listed_exists() -> None:
    assert all(hasattr(dtypes, name) for name in dtypes.__all__)


@pytest.mark.parametrize(
    "name", ["to_inexact_dtype", "to_numeric_dtype", "to_floating_dtype", "to_complex_dtype"]
)
def test_conversions_by_kind_as_jax(name: str) -> None:
    jax = pytest.importorskip("jax")
    theirs = getattr(pytest.importorskip("jax._src.dtypes"), name)
    with jax.enable_x64(True), override(enable_x64=True):
        for dtype in dtypes.SUPPORTED.values():
            if dtypes.issubdtype(dtype, np.integer) and dtypes.bit_width(dtype) < 4:
                continue  # jax leaves these as they are, and then fails
            assert getattr(dtypes, name)(dtype) == theirs(dtype), dtype


def test_conversions_without_x64() -> None:
    assert dtypes.to_inexact_dtype(np.int64) == np.dtype("float32")
    assert dtypes.to_complex_dtype(np.float64) == np.dtype("complex64")
    assert dtypes.to_floating_dtype(complex) == np.dtype("float32")


def test_explicit_64_bit_request_warns() -> None:
    with pytest.warns(
        UserWarning, match="float64 requested in zeros .* truncated to dtype"
    ) as seen:
        assert dtypes.check_user_dtype("float64", "zeros") == np.dtype("float32")
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for wanted in (float, int, complex, bool, "float32", np.int8, dtypes.bfloat16, ">f4"):
            dtypes.check_user_dtype(wanted, "zeros")
        with override(enable_x64=True):
            assert dtypes.check_user_dtype("float64", "zeros") == np.dtype("float64")


@pytest.mark.parametrize("wrong", ["foo", object, str, dict, 3, None, np.floating, "M8[s]"])
def test_impossible_requests(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"zeros\(\.\.\., dtype="):
        dtypes.check_user_dtype(wrong, "zeros")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (2, "int8", 2),
        (-128, "int8", -128),
        (2**31, "uint32", 2**31),
        (2, "float32", 2.0),
        (2**200, "float32", np.inf),
        (1e300, "float16", np.inf),
        (1.7, "int32", 1),
        (-1.7, "int32", -1),
        (True, "float32", 1.0),
        (3, "bool", True),
        (1.5, "bfloat16", 1.5),
        (7, "int4", 7),
        (2, "complex64", 2 + 0j),
        (1j, "complex64", 1j),
    ],
)
def test_python_scalars(value: Any, dtype: str, expected: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dtypes.coerce_python_scalar(value, np.dtype(dtype))
    assert found.dtype == np.dtype(dtype)
    assert found == expected


def test_python_scalars_have_a_default_dtype() -> None:
    assert dtypes.coerce_python_scalar(1).dtype == np.dtype("int32")
    assert dtypes.coerce_python_scalar(1.0).dtype == np.dtype("float32")
    with override(enable_x64=True):
        assert dtypes.coerce_python_scalar(2**40) == 2**40


def test_ints_out_of_range() -> None:
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        dtypes.coerce_python_scalar(2**31)
    for value, dtype in ((300, "int8"), (-1, "uint8"), (8, "int4"), (1e20, "int32")):
        with pytest.raises(OverflowError, match="int"):
            dtypes.coerce_python_scalar(value, np.dtype(dtype))
    with pytest.raises(ValueError, match="NaN"):
        dtypes.coerce_python_scalar(float("nan"), np.dtype("int32"))
    with pytest.raises(TypeError):
        dtypes.coerce_python_scalar(1j, np.dtype("float32"))


def test_wrapping() -> None:
    def wrapped(value: int, dtype: str) -> int:
        return int(dtypes.coerce_python_scalar(value, np.dtype(dtype), wrap=True))

    assert wrapped(300, "int8") == 44
    assert wrapped(-1, "uint8") == 255
    assert wrapped(2**31, "uint32") == 2**31
    assert wrapped(-1, "uint32") == 2**32 - 1
    with pytest.raises(OverflowError):
        wrapped(2**32, "uint32")
