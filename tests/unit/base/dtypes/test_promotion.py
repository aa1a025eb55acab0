"""The promotion lattice, against jax on every pair of operands."""

from __future__ import annotations

import enum
import itertools
from typing import Any

import numpy as np
import pytest

from kiln.base.dtypes import promotion
from kiln.base.dtypes.kinds import SUPPORTED, KeyDtype, float0
from kiln.base.dtypes.scalar_types import SCALAR_TYPES
from kiln.base.errors import TypePromotionError
from kiln.base.options.config import override


class Operand:
    """Anything with a dtype and a weak type."""

    def __init__(self, dtype: Any, weak_type: bool = False) -> None:
        self.dtype = np.dtype(dtype) if isinstance(dtype, str) else dtype
        self.weak_type = weak_type


FAMILIES = (
    *("bool", "uint4", "int4", "uint8", "uint16", "uint32", "uint64"),
    *("int8", "int16", "int32", "int64", "float8_e4m3fn", "float8_e5m2"),
    *("bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
)
WEAK = ("uint8", "uint32", "uint64", "int8", "int32", "int64", "bfloat16", "float32", "complex64")
SIXTY_FOUR = ("uint64", "int64", "float64", "complex128")


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("mode", ["standard", "strict"])
def test_every_pair_as_jax(x64: bool, mode: str) -> None:
    jax = pytest.importorskip("jax")
    jax_dtypes = pytest.importorskip("jax._src.dtypes")
    convert = pytest.importorskip("jax._src.lax.lax")._convert_element_type
    ours: list[Any] = []
    theirs: list[Any] = []
    with jax.enable_x64(x64), override(enable_x64=x64, numpy_dtype_promotion=mode):
        for name in FAMILIES:
            if x64 or name not in SIXTY_FOUR:
                ours.append(Operand(name))
                theirs.append(jax.numpy.zeros((), name))
        for name in WEAK:
            if x64 or name not in SIXTY_FOUR:
                ours.append(Operand(name, True))
                theirs.append(convert(jax.numpy.zeros(()), np.dtype(name), weak_type=True))
        for value in (1, 1.0, 1j, True, np.float64(1), np.int64(1), np.uint8(1)):
            ours.append(value)
            theirs.append(value)
        with jax.numpy_dtype_promotion(mode):
            for i, j in itertools.product(range(len(ours)), repeat=2):
                try:
                    expected: Any = jax_dtypes.lattice_result_type(theirs[i], theirs[j])
                except jax_dtypes.TypePromotionError:
                    expected = None
                try:
                    found: Any = promotion.lattice_result_type(ours[i], ours[j])
                    again = promotion.result_type(ours[i], ours[j], return_weak_type=True)
                    assert again == jax_dtypes.result_type(
                        theirs[i], theirs[j], return_weak_type_flag=True
                    )
                except TypePromotionError:
                    found = None
                if expected is not None:
                    expected = (jax_dtypes.canonicalize_dtype(expected[0]), expected[1])
                assert found == expected, (theirs[i], theirs[j], mode, x64)


def test_three_operands_do_not_depend_on_order() -> None:
    jax_dtypes = pytest.importorskip("jax.dtypes")
    names = ("bool", "uint8", "int8", "int32", "bfloat16", "float16", "complex64")
    for trio in itertools.combinations(names, 3):
        expected = jax_dtypes.result_type(*map(np.dtype, trio))
        for order in itertools.permutations(trio):
            assert promotion.result_type(*map(Operand, order), 1) == expected
            assert promotion.result_type(*map(np.dtype, order)) == expected


def test_contract_examples() -> None:
    i32, f32 = Operand("int32"), Operand("float32")
    lattice = promotion.lattice_result_type
    assert lattice(i32, 1.0) == (np.dtype("float32"), True)
    assert lattice(Operand("int8"), 1) == (np.dtype("int8"), False)
    assert lattice(Operand("bfloat16"), 1.0) == (np.dtype("bfloat16"), False)
    assert lattice(Operand("uint8"), Operand("int8")) == (np.dtype("int16"), False)
    assert lattice(Operand("bfloat16"), Operand("float16")) == (np.dtype("float32"), False)
    assert lattice(f32) == (np.dtype("float32"), False)
    assert lattice(f32, np.float64(1)) == (np.dtype("float32"), False)
    assert lattice(Operand(SUPPORTED["float64"]), f32) == (np.dtype("float32"), False)
    assert lattice(float, Operand("int32")) == (np.dtype("float32"), True)


def test_dtypes_as_operands() -> None:
    assert promotion.promote_types("int8", SCALAR_TYPES["uint8"]) == np.dtype("int16")
    assert promotion.promote_types(int, "uint8") == np.dtype("uint8")
    assert promotion.result_type(np.float64) == np.dtype("float32")
    with override(enable_x64=True):
        assert promotion.result_type(np.float64) == np.dtype("float64")
        assert promotion.result_type(1, 2) == np.dtype("int64")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (np.float32, np.complex128, "complex128"),
        (np.bool_, np.complex128, "complex128"),
        (np.int64, np.int32, "int64"),
        (np.int64, np.float32, "float32"),
        (np.uint64, np.int64, "float64"),
        (np.uint32, np.int32, "int32"),
        (int, int, "int64"),
        (int, float, "float64"),
        (float, np.int32, "float64"),
        (float, np.float16, "float16"),
        (complex, np.float32, "complex64"),
        (complex, np.float64, "complex128"),
        (int, bool, "int64"),
    ],
)
def test_dtypes_promote_to_dtypes_that_arrays_need_not_have(a, b, expected) -> None:
    # As in jax 0.10.2, without 64-bit types.
    assert promotion.promote_types(a, b) == np.dtype(expected)
    assert promotion.promote_types(b, a) == np.dtype(expected)


def test_keys_and_float0_take_no_part() -> None:
    key = KeyDtype("fry")
    assert promotion.result_type(Operand(key), Operand(key)) == key
    assert promotion.result_type(Operand(float0), Operand(float0)) == float0
    for other in (Operand(key), Operand(float0)):
        with pytest.raises(TypePromotionError, match="promotion"):
            promotion.result_type(other, 1)


def test_errors() -> None:
    with pytest.raises(TypePromotionError, match="no available implicit dtype promotion path"):
        promotion.promote_types("int4", "uint8")
    with pytest.raises(TypePromotionError, match="8-bit floats do not support implicit"):
        promotion.promote_types("float8_e4m3fn", "float32")
    strict = override(numpy_dtype_promotion="strict")
    weak = r"\(float64 \(weak\), int8\) have no"
    with strict, pytest.raises(TypePromotionError, match=weak):
        promotion.promote_types(float, "int8")
    with override(numpy_dtype_promotion="strict"), pytest.raises(TypeError, match="strict"):
        promotion.lattice_result_type(Operand("float32"), Operand("int32"))
    with pytest.raises(ValueError, match="at least one"):
        promotion.result_type()
    for wrong in ([1, 2], object(), "foo", np.array(["a"]), np.array([None])):
        with pytest.raises(TypeError):
            promotion.result_type(wrong)


def test_dtype_of_values() -> None:
    class Number(enum.IntEnum):
        ONE = 1

    assert promotion.dtype(1) == np.dtype("int32")
    assert promotion.dtype(True) == np.dtype("bool")
    assert promotion.dtype(np.zeros(3)) == np.dtype("float32")
    assert promotion.dtype("f8") == np.dtype("float32")
    assert promotion.dtype(Number.ONE) == np.dtype("int32")
    assert [promotion.is_weak(x) for x in (1, 1.0, 1j, True, np.float64(1), np.zeros(1))] == [
        *(True, True, True, False, False, False)
    ]
    assert [promotion.is_python_scalar(x) for x in (1, True, Number.ONE, np.float64(1), "a")] == [
        *(True, True, True, False, False)
    ]
    assert promotion.scalar_dtype(1.0) == (np.dtype("float32"), True)
    assert promotion.scalar_dtype(np.int64(1)) == (np.dtype("int32"), False)
    assert promotion.python_scalar_dtypes[int] == np.dtype("int32")
    with override(enable_x64=True):
        assert promotion.python_scalar_dtypes[int] == np.dtype("int64")
        assert promotion.default_complex_dtype() == np.dtype("complex128")
    assert set(promotion.python_scalar_dtypes) == {bool, int, float, complex}
