"""Shape operations: what they leave out, what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.ops import counting
from kiln.ops import shape as ops

X = from_host(np.arange(6, dtype=np.float32).reshape(2, 3))


@pytest.mark.parametrize(
    "same",
    [
        lambda x: ops.broadcast_in_dim(x, (2, 3), (0, 1)),
        lambda x: ops.reshape(x, (2, 3)),
        lambda x: ops.transpose(x, (0, 1)),
        lambda x: ops.rev(x, ()),
        lambda x: ops.squeeze(x, ()),
        lambda x: ops.reduce_sum(x, ()),
        lambda x: ops.move_axis(x, 1, 1),
    ],
)
def test_operations_without_effect_record_nothing(same: object) -> None:
    assert same(X) is X  # type: ignore[operator]


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (
            lambda: ops.broadcast_in_dim(X, (2, 4), (0, 1)),
            TypeError,
            "sizes must either be 1, or be",
        ),
        (
            lambda: ops.broadcast_in_dim(X, (2, 3), (0,)),
            TypeError,
            "must have length equal to oper",
        ),
        (lambda: ops.broadcast_in_dim(X, (2,), (0, 1)), TypeError, "equal or higher rank"),
        (lambda: ops.broadcast_in_dim(X, (2, 3), (0, 2)), TypeError, "subset of output dimensions"),
        (lambda: ops.broadcast_in_dim(X, (2, 3), (0, 0)), TypeError, "must not contain duplicates"),
        (lambda: ops.reshape(X, (4,)), TypeError, "reshape total size must be unchanged"),
        (lambda: ops.transpose(X, (0, 0)), TypeError, "isn't a permutation"),
        (lambda: ops.rev(X, (2,)), ValueError, "axis 2 is out of bounds"),
        (
            lambda: ops.rev(X, (0, 0)),
            ValueError,
            "dimensions are not unique: the axes must be distinct and from 0 to 1",
        ),
        (lambda: ops.squeeze(X, (None,)), TypeError, "cannot be interpreted as an integer"),
        (lambda: ops.squeeze(X, (1.5,)), TypeError, "cannot be interpreted as an integer"),
        (lambda: ops.squeeze(X, (0,)), ValueError, "size not equal to one"),
        (lambda: ops.squeeze(X, (2,)), ValueError, "axis 2 is out of bounds"),
        (lambda: ops.expand_dims(X, (5,)), ValueError, "axis 5 is out of bounds"),
        (lambda: ops.reduce_sum(X, (3,)), ValueError, "axis 3 is out of bounds"),
        (lambda: ops.reduce_sum(lax.eq(X, X), (0,)), TypeError, "does not accept dtype bool"),
        (
            lambda: counting.broadcasted_iota("int32", (2,), 1),
            ValueError,
            "axis 1 is out of bounds",
        ),
    ],
)
def test_refusals(call: object, error: type[Exception], phrase: str) -> None:
    with pytest.raises(error, match=phrase) as caught:
        call()  # type: ignore[operator]
    assert len(str(caught.value).splitlines()) == 3


def test_reshape_may_transpose_first() -> None:
    found = np.asarray(ops.reshape(X, (6,), dimensions=(1, 0)))
    assert found.tolist() == np.asarray(X).T.ravel().tolist()


def test_expand_dims_counts_axes_of_the_result() -> None:
    assert ops.expand_dims(X, (0, -1)).shape == (1, 2, 3, 1)
    assert ops.expand_dims(X, (1, 2)).shape == (2, 1, 1, 3)


def test_a_mapped_axis_is_moved_or_made() -> None:
    assert ops.mapped_at(X, 5, None, 1).shape == (2, 5, 3)
    assert ops.mapped_at(X, 2, 0, 1).shape == (3, 2)
    assert ops.to_front(X, 1).shape == (3, 2)


def test_iota_wraps_around_like_a_conversion() -> None:
    assert np.asarray(counting.iota("int8", 130))[[127, 128, 129]].tolist() == [127, -128, -127]
    assert np.asarray(counting.iota("float32", 3)).dtype == np.float32


def test_scalars_of_weak_types_are_python_numbers() -> None:
    weak = ShapedArray((), np.dtype(np.float32), weak_type=True)
    assert type(ops.scalar(2, weak)) is float
    assert type(ops.scalar(2, weak.with_(weak_type=False))) is np.float32
    # No Python number is a weak bfloat16.
    assert ops.scalar(2, weak.with_(dtype=np.dtype(np.float16))).dtype == np.float16


def test_named_dimensions_go_through() -> None:
    n = symbol("n")
    jaxpr, _ = stage(
        lambda x: [ops.reshape(ops.transpose(x, (1, 0)), (3 * n,))],
        [ShapedArray((n, 3), np.dtype(np.float32))],
    )
    assert jaxpr.out_avals[0].shape == (3 * n,)


def test_sums_of_half_precision_accumulate_in_single() -> None:
    x = from_host(np.full(4096, 0.1, np.float16))
    assert abs(float(np.asarray(ops.reduce_sum(x, (0,)))) - 409.6) < 0.5


def test_sizes_may_be_arrays_of_one_integer() -> None:
    assert lax.reshape(np.ones(3, np.float32), (lax.add(1, 2), 1)).shape == (3, 1)
    assert lax.reshape(np.ones(3), np.array([3, 1])).shape == (3, 1)
    for sizes in ((np.array([3, 1]),), (1.5, 2.0)):
        with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete values"):
            lax.reshape(np.ones(3), sizes)


@pytest.mark.parametrize("x", [2.0, np.float32(2), np.arange(5)])
def test_what_loses_no_axis_is_an_array_all_the_same(x) -> None:
    found = lax.squeeze(x, ())
    assert isinstance(found, kiln.Array)
    assert found.tolist() == np.asarray(x).tolist()
