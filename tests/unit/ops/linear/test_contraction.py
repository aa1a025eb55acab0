"""dot_general against NumPy and the reference library, where the generic checks do not look."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.ops.linear import contraction as ops

MATMUL = (((1,), (0,)), ((), ()))


def array(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    rng = np.random.default_rng(sum(shape))
    return from_host(rng.uniform(-9, 9, shape).astype(dtype))


@pytest.mark.parametrize("engine", ["reference", "xla"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_accumulate_in_32_bits(engine: str, dtype: str) -> None:
    ones = from_host(np.ones((1, 5000), dtypes.as_dtype(dtype)))
    with override(engine=engine):
        out = ops.dot_general(ones, ones, (((1,), (1,)), ((), ())))
    assert float(np.asarray(out)[0, 0]) == (5000 if dtype == "float16" else 4992)


def test_dtypes_are_those_of_the_reference_library() -> None:
    lax = pytest.importorskip("jax").lax
    for left, right, preferred in [
        ("float32", "int32", None),
        ("float32", "float16", None),
        ("bool", "bool", None),
        ("int8", "int8", "int32"),
        ("int8", "int8", "float32"),
        ("float32", "float32", "int32"),
        ("complex64", "complex64", "float32"),
    ]:
        x, y = (np.ones((2, 2), d) for d in (left, right))
        ours = ops.dot_general(from_host(x), from_host(y), MATMUL, None, preferred)
        theirs = lax.dot_general(x, y, MATMUL, None, preferred)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


KINDS = (
    *("float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "float32"),
    *("bool", "int8", "uint8", "int32", "uint32", "complex64"),
)


def test_operands_of_different_dtypes_are_not_promoted() -> None:
    """The result has the dtype of one of them, whatever other operations promote to."""
    jax = pytest.importorskip("jax")
    for left, right in itertools.permutations(KINDS, 2):
        pair = [jax.ShapeDtypeStruct((2, 2), kind) for kind in (left, right)]
        wanted = jax.eval_shape(lambda x, y: jax.lax.dot_general(x, y, MATMUL), *pair).dtype
        found = ops.wider_operand(*map(dtypes.as_dtype, (left, right)))
        assert found == wanted, (left, right)


@pytest.mark.parametrize("engine", ["reference", "native", "xla"])
@pytest.mark.parametrize(
    ("left", "right", "preferred"),
    [
        ("float8_e4m3fn", "float8_e5m2", None),
        ("float8_e5m2", "float8_e4m3fn", "float32"),
        ("float8_e4m3fn", "bfloat16", None),
        ("bfloat16", "float16", None),
        ("int8", "uint8", None),
        ("int8", "uint8", "int32"),
        ("bool", "uint8", None),
    ],
)
def test_products_of_operands_of_different_dtypes(
    engine: str, left: str, right: str, preferred: str | None
) -> None:
    if engine == "native" and "float8" in left + right:
        pytest.skip("the native engine leaves 8-bit floats to XLA")
    lax = pytest.importorskip("jax").lax
    x, y = (
        np.array([[1, 2, 3], [4, 5, 6]], dtypes.as_dtype(left)),
        np.array([[1, 2], [3, 0], [5, 250]], "int32").astype(dtypes.as_dtype(right)),
    )
    with override(engine=engine):
        ours = ops.dot_general(from_host(x), from_host(y), MATMUL, None, preferred)
    theirs = lax.dot_general(x, y, MATMUL, None, preferred)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(
        np.asarray(ours).astype("float32"), np.asarray(theirs).astype("float32")
    )


def test_python_scalars_are_weak() -> None:
    assert ops.dot_general(2.0, 3.0, (((), ()), ((), ()))).weak_type


@pytest.mark.parametrize(
    ("shapes", "numbers", "words"),
    [
        (((2, 3), (4, 5)), MATMUL, "same shape, got (3,) and (4,)"),
        (((2, 3), (5, 3)), (((1,), (1,)), ((0,), (0,))), "same shape, got (2,) and (5,)"),
        (((2, 3), (2, 3)), (((1,), (1,)), ((1,), (1,))), "distinct"),
        (((2, 3), (2, 3)), (((3,), (1,)), ((), ())), "nonnegative and less than"),
        (((2, 3), (2, 3)), (((1,), (0, 1)), ((), ())), "got (3,) and (2, 3)"),
    ],
)
def test_axes_that_do_not_pair_up(shapes: Any, numbers: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        ops.dot_general(array(shapes[0]), array(shapes[1]), numbers)
    assert words in str(caught.value)
    assert all(str(shape) in str(caught.value) for shape in shapes)


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((), (3,)), ((2, 3, 4), (4,))])
def test_dot_names_both_shapes(shapes: Any) -> None:
    with pytest.raises(TypeError, match="Incompatible shapes for dot") as caught:
        ops.dot(array(shapes[0]), array(shapes[1]))
    assert all(str(shape) in str(caught.value) for shape in shapes)


def test_a_narrower_integer_result_is_refused() -> None:
    x = array((2, 2), "int32")
    with pytest.raises(TypeError, match="must not be narrower"):
        ops.dot_general(x, x, MATMUL, preferred_element_type="int8")


def test_dot_and_batch_matmul() -> None:
    x, y = array((2, 3)), array((3, 4))
    np.testing.assert_allclose(ops.dot(x, y), np.asarray(x) @ np.asarray(y), rtol=1e-6)
    a, b = array((5, 2, 3)), array((5, 3, 4))
    np.testing.assert_allclose(ops.batch_matmul(a, b), np.asarray(a) @ np.asarray(b), rtol=1e-6)
    with pytest.raises(TypeError, match="same rank"):
        ops.batch_matmul(a, y)


def precision_of(**given: Any) -> Any:
    x = array((2, 2))
    jaxpr, _ = stage(lambda a, b: [ops.dot_general(a, b, MATMUL, **given)], [aval_of(x)] * 2)
    return jaxpr.eqns[0].params["precision"]


def test_precision() -> None:
    high, highest = ops.Precision.HIGH, ops.Precision.HIGHEST
    assert precision_of() is None
    assert precision_of(precision="float32") == (highest, highest)
    assert precision_of(precision=("high", highest)) == (high, highest)
    assert (repr(high), str(high)) == ("Precision.HIGH", "HIGH")
    with override(default_matmul_precision="tensorfloat32"):
        assert precision_of() == (high, high)
        assert precision_of(precision="highest") == (highest, highest)
    with pytest.raises(ValueError, match="Precision argument must be"):
        precision_of(precision="exact")
