"""sort and top_k against NumPy and the reference library: order at the edges, stability, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.reductions import sorting as ops

EDGES = [3, np.nan, -0.0, 0.0, -0.0, 1, -np.inf, np.inf, -2, 0.5]


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("repeats", [1, 200])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_edges(engine: str, repeats: int, dtype: str) -> None:
    lax = pytest.importorskip("jax").lax
    x = np.tile(np.array(EDGES), repeats).astype(dtypes.as_dtype(dtype))
    count = np.arange(x.size, dtype="int32")
    with override(engine=engine):
        alone = ops.sort(from_host(x))
        pair = ops.sort((from_host(x), from_host(count)))
    wanted = lax.sort((x, count))
    for ours, theirs in [(alone, wanted[0]), *zip(pair, wanted, strict=True)]:
        ours, theirs = np.asarray(ours).astype("float64"), np.asarray(theirs).astype("float64")
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "bool", "float32"])
def test_sorts_are_stable(engine: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 5, (40, 30)).astype(dtype)
    count = np.arange(keys.size, dtype="int32").reshape(keys.shape)
    for axis in (0, 1):
        with override(engine=engine):
            found = ops.sort_key_val(from_host(keys), from_host(count), axis)
        order = np.argsort(keys, axis, kind="stable")
        np.testing.assert_array_equal(found[0], np.take_along_axis(keys, order, axis))
        np.testing.assert_array_equal(found[1], np.take_along_axis(count, order, axis))


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nans_are_last_in_their_order_whatever_their_signs(engine: str, dtype: str) -> None:
    x = np.array([np.nan, 2, -np.nan, -np.inf, np.nan, np.inf, -np.nan, 1], dtypes.as_dtype(dtype))
    with override(engine=engine):
        _, order = ops.sort((from_host(x), from_host(np.arange(x.size, dtype="int32"))))
    assert np.asarray(order).tolist() == [3, 7, 1, 5, 0, 2, 4, 6]


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_wide_keys(engine: str) -> None:
    rng = np.random.default_rng(0)
    with override(engine=engine, enable_x64=True):
        for x in (rng.normal(size=900), rng.integers(-(2**62), 2**62, 900)):
            count = np.arange(900)
            found = ops.sort((from_host(x), from_host(count)))
            np.testing.assert_array_equal(found[0], np.sort(x))
            np.testing.assert_array_equal(found[1], np.argsort(x))


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_top_k_is_that_of_the_reference_library(engine: str) -> None:
    lax = pytest.importorskip("jax").lax
    rng = np.random.default_rng(0)
    with override(engine=engine):
        for x in (
            np.array([*EDGES, -np.nan], "float32"),
            rng.integers(0, 9, (3, 50)).astype("int32"),
            rng.integers(0, 2, (50,)).astype("bool"),
        ):
            values, where = ops.top_k(from_host(x), 6)
            wanted, indices = lax.top_k(x, 6)
            np.testing.assert_array_equal(values, wanted)
            np.testing.assert_array_equal(where, indices)
            assert where.dtype == np.int32


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.sort([]), TypeError, "at least one operand"),
        (lambda x: ops.sort(x, 2), ValueError, "axis 2 is out of bounds"),
        (lambda x: ops.sort(x, num_keys=2), ValueError, "num_keys=2 must be"),
        (
            lambda x: ops.sort((x, ops.sort(x[0]))),
            TypeError,
            r"equal shapes, got: \(2, 3\), \(3,\)",
        ),
        (lambda x: ops.top_k(x, 4), ValueError, "no larger than the axis"),
        (lambda x: ops.top_k(x, -1), ValueError, "nonnegative"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(from_host(np.ones((2, 3), "float32")))


def test_top_k_of_more_than_int32_counts() -> None:
    with pytest.raises(ValueError, match="top_k returns int32 indices, which will overflow"):
        kiln.eval_shape(lambda x: ops.top_k(x, 1), kiln.ShapeDtypeStruct((2**31 + 1,), "float32"))


def test_top_k_of_complex_numbers() -> None:
    with pytest.raises(ValueError, match="complex"):
        ops.top_k(from_host(np.ones(3, "complex64")), 1)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_no_elements_have_a_slope(shape: tuple[int, ...]) -> None:
    slope = kiln.grad(lambda x: kiln.lax.sort(x, dimension=0).sum())
    for wrap in (lambda fun: fun, kiln.jit):
        assert wrap(slope)(kiln.numpy.zeros(shape)).shape == shape
