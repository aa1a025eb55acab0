"""Types of arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray

F32, I32 = np.dtype(np.float32), np.dtype(np.int32)


def test_equal_types_are_interchangeable() -> None:
    a, b = ShapedArray([2, 3], F32), ShapedArray((2, 3), F32)
    assert a == b
    assert hash(a) == hash(b)
    assert {a: 1}[b] == 1
    assert a != ShapedArray((2, 3), F32, weak_type=True)
    assert a != ShapedArray((3, 2), F32)
    assert a != ShapedArray((2, 3), I32)
    assert a != "float32[2,3]"


def test_weakness_is_not_a_difference_of_programs() -> None:
    a = ShapedArray((2,), F32)
    assert a.same_type(a.with_(weak_type=True))
    assert not a.same_type(a.with_(shape=(3,)))


@pytest.mark.parametrize("shape", [(2**62,), (2**31, 2**31, 2**31), (2**61, 1)])
def test_an_array_that_no_address_reaches_is_refused(shape: tuple[int, ...]) -> None:
    count = 4 * int(np.prod(np.array(shape, object)))
    with pytest.raises(ValueError, match=f"{count} bytes .*\narray is too big.*\nuse smaller"):
        ShapedArray(shape, F32)
    assert ShapedArray((*shape, 0), F32).size == 0


def test_large_arrays_that_have_addresses_are_types() -> None:
    assert ShapedArray((2**60,), F32).size == 2**60
    assert ShapedArray((2**62,), np.dtype(np.int8)).size == 2**62
    assert ShapedArray((symbol("n"), 2**62), F32).shape[1] == 2**62


def test_attributes() -> None:
    x = ShapedArray((2, 3), F32)
    assert (x.ndim, x.size, x.shape) == (2, 6, (2, 3))
    assert ShapedArray((), F32).size == 1
    assert x.with_(dtype=I32) == ShapedArray((2, 3), I32)


def test_named_sizes() -> None:
    n = symbol("n")
    x = ShapedArray((n, 3), F32)
    assert x.size == 3 * n
    assert x.str_short() == "f32[n,3]"
    assert x == ShapedArray((symbol("n"), 3), F32)


@pytest.mark.parametrize(
    ("dtype", "short", "long"),
    [
        (F32, "f32[2]", "float32[2]"),
        (dtypes.bfloat16, "bf16[2]", "bfloat16[2]"),
        (np.dtype(np.bool_), "bool[2]", "bool[2]"),
        (np.dtype(np.complex64), "c64[2]", "complex64[2]"),
        (dtypes.KeyDtype("fry"), "key<fry>[2]", "key<fry>[2]"),
    ],
)
def test_text(dtype: object, short: str, long: str) -> None:
    x = ShapedArray((2,), dtype)
    assert x.str_short() == short
    assert str(x) == long
    assert repr(x) == f"ShapedArray({long})"
    assert repr(x.with_(weak_type=True)) == f"ShapedArray({long}, weak_type=True)"


def test_tangents_of_integers_are_nothing() -> None:
    assert ShapedArray((2,), I32).tangent() == ShapedArray((2,), dtypes.float0)
    x = ShapedArray((2,), F32)
    assert x.tangent() is x


def test_pickling() -> None:
    x = ShapedArray((symbol("n"), 3), dtypes.KeyDtype("fry"))
    assert pickle.loads(pickle.dumps(x)) == x
