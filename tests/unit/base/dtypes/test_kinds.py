"""Which dtypes exist, what they are called and of which kind they are."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kiln.base.dtypes import kinds
from kiln.base.dtypes.kinds import KeyDtype
from kiln.base.dtypes.scalar_types import SCALAR_TYPES
from kiln.base.options.config import override

KEY = KeyDtype("fry")


@pytest.mark.parametrize(
    ("dtype", "short", "long"),
    [
        (np.dtype("bool"), "bool", "bool"),
        (np.dtype("int8"), "i8", "int8"),
        (np.dtype("uint64"), "u64", "uint64"),
        (np.dtype("float16"), "f16", "float16"),
        (np.dtype("complex128"), "c128", "complex128"),
        (kinds.bfloat16, "bf16", "bfloat16"),
        (kinds.float8_e4m3fn, "f8_e4m3fn", "float8_e4m3fn"),
        (kinds.int4, "i4", "int4"),
        (kinds.float0, "float0", "float0"),
        (KEY, "key<fry>", "key<fry>"),
    ],
)
def test_names(dtype: Any, short: str, long: str) -> None:
    assert kinds.short_name(dtype) == short
    assert kinds.long_name(dtype) == long


def test_key_dtype_is_a_value() -> None:
    assert KeyDtype("fry") == KEY
    assert hash(KeyDtype("fry")) == hash(KEY)
    assert KeyDtype("rbg") != KEY
    assert np.dtype("uint32") != KEY
    assert str(KEY) == repr(KEY) == KEY.name == "key<fry>"
    assert KEY.physical_shape == ()
    assert KEY.physical_dtype == np.uint64
    assert KEY.itemsize == 8
    assert pickle.loads(pickle.dumps(KeyDtype("rbg"))) == KeyDtype("rbg")
    assert copy.deepcopy(KEY) == KEY


def test_as_dtype() -> None:
    for wanted in ("float32", np.float32, np.dtype("float32"), SCALAR_TYPES["float32"]):
        assert kinds.as_dtype(wanted) == np.dtype("float32")
    assert kinds.as_dtype(int) == np.dtype("int64")
    assert kinds.as_dtype(ml_dtypes.bfloat16) == kinds.bfloat16
    assert kinds.as_dtype("int4") == kinds.int4
    assert kinds.as_dtype(KEY) is KEY
    for wrong in (np.floating, dict, 3, None, np.zeros(2), "foo"):
        with pytest.raises(TypeError):
            kinds.as_dtype(wrong)


def test_canonicalize() -> None:
    cases = {"float64": "float32", "int64": "int32", "uint64": "uint32", "complex128": "complex64"}
    for wide, narrow in cases.items():
        assert kinds.canonicalize_dtype(wide) == np.dtype(narrow)
        assert kinds.canonicalize_dtype(np.dtype(wide)) == np.dtype(narrow)
        with override(enable_x64=True):
            assert kinds.canonicalize_dtype(np.dtype(wide)) == np.dtype(wide)
    assert kinds.canonicalize_dtype(float) == np.dtype("float32")
    assert kinds.canonicalize_dtype(np.dtype(">f4")) == np.dtype("float32")
    assert kinds.canonicalize_dtype(np.dtype(">f4")).isnative
    assert kinds.canonicalize_dtype(kinds.float0) == kinds.float0
    assert kinds.canonicalize_dtype(kinds.bfloat16) == kinds.bfloat16
    assert kinds.canonicalize_dtype(KEY) is KEY
    with pytest.raises(ValueError, match="key<fry>"):
        kinds.canonicalize_dtype(KEY, allow_extended=False)
    for wrong in (object, str, "datetime64[s]", np.longdouble, np.void, "U3"):
        with pytest.raises(TypeError):
            kinds.canonicalize_dtype(wrong)


def test_is_supported() -> None:
    for dtype in (*kinds.SUPPORTED.values(), kinds.float0, KEY, np.dtype(">i4")):
        assert kinds.is_supported(dtype)
    texts = np.dtypes.StringDType()
    for dtype in (
        np.dtype(object),
        np.dtype("U2"),
        np.dtype("M8[s]"),
        np.dtype(np.longdouble),
        texts,
    ):
        assert not kinds.is_supported(dtype)


def test_issubdtype_of_keys() -> None:
    assert kinds.issubdtype(KEY, kinds.prng_key)
    assert kinds.issubdtype(KEY, kinds.extended)
    assert kinds.issubdtype(kinds.prng_key, kinds.extended)
    assert kinds.issubdtype(KEY, KEY)
    assert not kinds.issubdtype(KEY, np.number)
    assert not kinds.issubdtype(np.dtype("float32"), kinds.extended)


def test_issubdtype_as_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    abstract = [np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger]
    abstract += [np.inexact, np.floating, np.complexfloating, np.flexible]
    types: list[Any] = [*kinds.SUPPORTED.values(), kinds.float0, *abstract, float, int, bool]
    types += [np.float32, np.int8, ml_dtypes.bfloat16, "float16"]
    for a, b in itertools.product(types, types):
        assert kinds.issubdtype(a, b) == jnp.issubdtype(a, b), (a, b)


def test_limits() -> None:
    assert kinds.finfo(kinds.bfloat16).bits == 16
    assert kinds.finfo(np.float32).max == np.finfo(np.float32).max
    assert int(kinds.iinfo("int4").max) == 7
    assert kinds.iinfo(np.int32).min == -(2**31)
    assert kinds.bit_width("int4") == 4
    assert kinds.bit_width("float4_e2m1fn") == 4
    assert kinds.bit_width(kinds.float8_e5m2) == 8
    assert kinds.bit_width(np.float32) == 32
    assert kinds.is_float(kinds.bfloat16)
    assert not kinds.is_float(np.complex64)


def test_classes_that_no_array_has_may_be_asked_about() -> None:
    assert not any(kinds.issubdtype(a, b) for a in ("float32", "int4") for b in (object, str))
    assert kinds.issubdtype(object, object)
    assert kinds.issubdtype(str, np.generic)
    assert not kinds.issubdtype(bytes, np.number)
