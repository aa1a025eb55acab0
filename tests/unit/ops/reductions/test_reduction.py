"""Reductions against the reference library: dtypes, ties, accumulation, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln.lax
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.ops.elements.elementwise import add, bitwise_or, max, mul
from kiln.ops.reductions import generic_reduction
from kiln.ops.reductions import reduction as ops
from kiln.ops.reductions.product import reduce_prod
from kiln.ops.shape import full, reduce_sum
from kiln.transforms.reverse import linearize


def array(values: Any, dtype: Any = None) -> Any:
    return from_host(np.array(values, dtypes.as_dtype(dtype) if dtype else None))


def gradient(fun: Any, *xs: Any) -> list[Any]:
    outs, linear = linearize(lambda *args: [fun(*args)], xs)
    return linear.pull([array(np.ones(outs[0].shape), outs[0].dtype)])


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_accumulate_in_32_bits(engine: str, dtype: str) -> None:
    with override(engine=engine):
        ones = array(np.ones(5000), dtype)
        assert float(reduce_sum(ones, (0,))) == (5000 if dtype == "float16" else 4992)
        grown = array(np.full(200, 1.001), dtype)
        product = float(reduce_prod(grown, (0,)))
        exact = np.prod(np.asarray(grown).astype("float64"))
        assert product == float(np.asarray(exact).astype(dtypes.as_dtype(dtype)))


def test_ties_share_the_derivative() -> None:
    x = array([1.0, 3.0, 3.0, 0.0], "float32")
    (ct,) = gradient(lambda x: ops.reduce_max(x, (0,)), x)
    np.testing.assert_array_equal(np.asarray(ct), [0, 0.5, 0.5, 0])


def test_the_derivative_of_a_product_with_zeros() -> None:
    jax = pytest.importorskip("jax")
    for values in ([2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]):
        x = array(values, "float32")
        (ours,) = gradient(lambda x: reduce_prod(x, (0,)), x)
        theirs = jax.grad(lambda x: jax.lax.reduce_prod(x, (0,)))(np.asarray(x))
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_reducing_nothing_gives_the_identity() -> None:
    lax = pytest.importorskip("jax").lax
    for name in ("reduce_max", "reduce_min", "reduce_prod"):
        for dtype in ("float32", "int8", "uint16"):
            x = np.zeros((0, 2), dtype)
            ours = getattr(kiln.lax, name)(from_host(x), (0,))
            np.testing.assert_array_equal(np.asarray(ours), getattr(lax, name)(x, (0,)))


def test_weak_types_survive() -> None:
    weak = aval_of(full((3,), 2.0, np.dtype("float32"))).with_(weak_type=True)
    jaxpr, _ = stage(lambda x: [ops.reduce_max(x, (0,))], [weak])
    assert jaxpr.out_avals[0].weak_type


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.reduce_max(x, (2,)), ValueError, "out-of-bounds"),
        (lambda x: ops.reduce_max(x, (-1,)), ValueError, "out-of-bounds"),
        (lambda x: ops.reduce_max(x, (0, 0)), ValueError, "duplicate value in 'axes'"),
        (lambda x: ops.reduce_and(x, (0,)), TypeError, "does not accept dtype float32"),
        (lambda x: ops.argmax(x, 0, "float32"), TypeError, "index_dtype must be an integer"),
        (lambda x: ops.argmin(x, 5, "int32"), ValueError, "out-of-bounds"),
        (lambda x: ops.argmax(ops.reduce_max(x, (0, 1)), 0, "int32"), ValueError, "out-of-bounds"),
        (lambda x: ops.reduce_precision(x, 0, 2), ValueError, "must be positive"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(array(np.ones((2, 3)), "float32"))


def test_positions_in_an_empty_axis() -> None:
    with pytest.raises(ValueError, match="empty"):
        ops.argmax(array(np.zeros((0, 3)), "float32"), 0, "int32")


@pytest.mark.parametrize("bits", [(5, 10), (8, 7), (5, 2), (4, 3), (8, 23), (2, 0)])
def test_reduce_precision_is_that_of_the_reference_library(bits: tuple[int, int]) -> None:
    lax = pytest.importorskip("jax").lax
    rng = np.random.default_rng(0)
    x = (rng.normal(size=4000) * 10.0 ** rng.uniform(-12, 12, 4000)).astype("float32")
    x = np.concatenate([x, np.float32([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520])])
    ours = np.asarray(ops.reduce_precision(from_host(x), *bits))
    np.testing.assert_array_equal(ours, np.asarray(lax.reduce_precision(x, *bits)))


def primitive_of(fun: Any) -> str:
    jaxpr, _ = stage(lambda x: [fun(x)], [aval_of(array(np.ones(3), "float32"))])
    return " ".join(eqn.primitive.name for eqn in jaxpr.eqns)


def test_reduce_recognizes_operations() -> None:
    reduce = generic_reduction.reduce
    assert primitive_of(lambda x: reduce(x, 0.0, add, (0,))) == "reduce_sum"
    assert primitive_of(lambda x: reduce(x, 0.0, lambda a, b: add(b, a), (0,))) == "reduce_sum"
    assert primitive_of(lambda x: reduce(x, 1.0, mul, (0,))) == "reduce_prod"
    assert primitive_of(lambda x: reduce(x, -np.inf, max, (0,))) == "reduce_max"
    assert primitive_of(lambda x: reduce(x, 0.0, max, (0,))) == "reduce_max max"
    assert primitive_of(lambda x: reduce(x, 0.0, lambda a, b: add(a, a), (0,))) == "reduce"


def test_reduce_agrees_with_the_reference_library() -> None:
    lax = pytest.importorskip("jax").lax
    x = np.arange(6, dtype="float32").reshape(2, 3)

    def both(first: Any, second: Any) -> Any:
        return lambda a, b: (first(a[0], b[0]), second(a[1], b[1]))

    for engine in ("reference", "xla"):
        with override(engine=engine):
            ours = generic_reduction.reduce((x, x), (0.0, 1.0), both(add, mul), (1,))
        theirs = lax.reduce((x, x), (0.0, 1.0), both(lax.add, lax.mul), (1,))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    bits = generic_reduction.reduce({"a": x > 2}, {"a": False}, _either, (0,))
    np.testing.assert_array_equal(np.asarray(bits["a"]), (x > 2).any(0))


def _either(a: Any, b: Any) -> Any:
    return {"a": bitwise_or(a["a"], b["a"])}


def test_reduce_refuses_what_does_not_fit() -> None:
    x = array(np.ones(3), "float32")
    with pytest.raises(TypeError, match="same structure"):
        generic_reduction.reduce((x,), 0.0, add, (0,))
    with pytest.raises(TypeError, match="it returns"):
        generic_reduction.reduce(x, 0.0, lambda a, b: np.int32(1), (0,))
    with pytest.raises(TypeError, match="scalar initial value"):
        generic_reduction.reduce(x, np.zeros(2, "float32"), lambda a, b: add(a, mul(a, b)), (0,))
