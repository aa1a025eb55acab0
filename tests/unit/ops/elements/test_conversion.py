"""Conversions at the edges, compared with jax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base import dtypes
from kiln.core.arrays.array import from_host
from kiln.ir.types import ShapedArray
from kiln.ops.elements import conversion as ops
from tests.unit.ops.elements.test_elementwise import edges

jax = pytest.importorskip("jax")
ALL = ["bool", "int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("source", ALL)
def test_conversions_are_those_of_jax(source: str) -> None:
    if source == "complex64":
        x = (np.array([0, 1, -2.7, 300, 1e20, np.inf, np.nan]) + 1j).astype(np.complex64)
    else:
        x = edges(source)
    if source == "float32":
        x = np.concatenate([x, np.array([127.5, -129, 255.9, 1e20, -1e20, 2**31], np.float32)])
    expected = jax.jit(lambda x: [jax.lax.convert_element_type(x, target) for target in ALL])(x)
    for target, wanted in zip(ALL, expected, strict=True):
        found = np.asarray(lax.convert_element_type(from_host(x), target))
        assert found.dtype == wanted.dtype
        if (source, target) == ("complex64", "bool"):
            # jax drops the imaginary part here, and does not in `astype`.
            assert found.tolist() == (x != 0).tolist()
            continue
        wide = np.complex128 if target == "complex64" else np.float64
        what = f"{source} to {target}"
        np.testing.assert_array_equal(found.astype(wide), np.asarray(wanted).astype(wide), what)


@pytest.mark.parametrize("source", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("target", ["int2", "uint2", "int4", "uint4", "int8", "float32", "bool"])
def test_integers_of_less_than_a_byte(source: str, target: str) -> None:
    info = dtypes.iinfo(source)
    x = np.arange(info.min, info.max + 1).astype(source)
    expected = np.asarray(jax.jit(lambda x: x.astype(target))(x))
    found = np.asarray(from_host(x).astype(target))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.astype(np.int32), expected.astype(np.int32))


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "uint8"), ("bfloat16", "uint16"), ("uint8", "int8")],
)
def test_bitcasts_are_those_of_jax(source: str, target: str) -> None:
    x = edges(source)
    expected = np.asarray(jax.lax.bitcast_convert_type(x, target))
    found = np.asarray(lax.bitcast_convert_type(from_host(x), target))
    np.testing.assert_array_equal(found, expected)
    back = np.asarray(lax.bitcast_convert_type(from_host(found), source))
    assert back.shape == x.shape
    assert back.tobytes() == x.tobytes()


def test_bitcast_refuses_a_last_axis_of_another_size() -> None:
    with pytest.raises(ValueError, match="last axis must have size 4"):
        lax.bitcast_convert_type(from_host(np.zeros((2, 3), np.uint8)), "float32")


def test_converting_to_the_own_type_records_nothing() -> None:
    x = from_host(np.zeros(2, np.float32))
    assert lax.convert_element_type(x, "float32") is x


def test_keys_and_numbers_do_not_convert() -> None:
    key = ShapedArray((2,), dtypes.KeyDtype("fry"))
    with pytest.raises(TypeError, match="keys do not convert"):
        ops.convert_element_type_p.infer(key, new_dtype=np.dtype("float32"), weak_type=False)
    assert ops.convert_element_type_p.infer(key, new_dtype=key.dtype, weak_type=False) == key


def test_parts_of_complex_numbers() -> None:
    x = from_host(np.array([1 + 2j, -0.0 - 3j], np.complex64))
    assert np.asarray(lax.real(x)).tolist() == [1, 0]
    assert np.asarray(lax.imag(x)).tolist() == [2, -3]
    assert np.asarray(lax.conj(x)).tolist() == [1 - 2j, 3j]
    both = lax.complex(from_host(np.float32([-0.0])), from_host(np.float32([np.inf])))
    assert str(np.asarray(both)[0]) == "(-0+infj)"
    with pytest.raises(TypeError, match="real does not accept dtype float32"):
        lax.real(from_host(np.zeros(2, np.float32)))
    with pytest.raises(TypeError, match="complex does not accept dtype float16"):
        lax.complex(from_host(np.zeros(2, np.float16)), from_host(np.zeros(2, np.float16)))


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
@pytest.mark.parametrize(
    ("given", "before", "after", "expected"),
    [
        ([0x12, -1], "int8", "int4", [[2, 1], [-1, -1]]),
        ([0x1234], "int16", "int4", [[4, 3, 2, 1]]),
        ([[1, 2], [-1, 3]], "int4", "int8", [0x21, 0x3F]),
        ([[1, 2], [-1, 3]], "uint4", "uint8", [0x21, 0x3F]),
        ([1, -1], "int4", "int2", [[1, 0], [-1, -1]]),
        ([[1, -2]], "int2", "int4", [-7]),
        ([[4, 3, 2, 1]], "int4", "int16", [0x1234]),
        ([[-1, 0, 0, 0, 0, 0, 0, 4]], "uint4", "float32", [2.0000036]),
    ],
)
def test_bits_of_parts_of_bytes(through, given, before, after, expected) -> None:
    x = jnp.array(given, jnp.int32).astype(before)
    found = through(lambda x: lax.bitcast_convert_type(x, after))(x)
    assert found.dtype == after
    np.testing.assert_allclose(np.asarray(found.astype("float32")), expected)


def test_primitives_accept_parameters_of_jax_that_ask_for_nothing() -> None:
    x = jnp.ones(2)
    assert lax.exp_p.bind(x, accuracy=None).shape == (2,)
    found = lax.convert_element_type_p.bind(
        x, new_dtype=np.dtype("int32"), weak_type=False, sharding=None
    )
    assert found.dtype == np.int32
    with pytest.raises(NotImplementedError, match="is placed where its operands are"):
        lax.convert_element_type_p.bind(
            x, new_dtype=np.dtype("int32"), weak_type=False, sharding=kiln.devices()[0]
        )
    rows = lax.broadcast_in_dim_p.bind(x, shape=(3, 2), broadcast_dimensions=(1,), sharding=None)
    assert rows.shape == (3, 2)
    counted = lax.iota_p.bind(dtype=np.dtype("int32"), shape=(3,), dimension=0, sharding=None)
    assert counted.tolist() == [0, 1, 2]
    values = lax.linalg.svd_p.bind(
        jnp.eye(2), full_matrices=False, compute_uv=False, subset_by_index=None
    )
    assert values[0].tolist() == [1, 1]


# As a float64 the last but one lies between two float32, and would round to the farther one.
NUMBERS = [-1, 2**32 + 5, -(2**31) - 1, -(2**63), 2**64 - 1, 2**62 + 2**38 + 1, 2**64]
TARGETS = ["bool", "int8", "uint8", "int32", "uint32", "float32", "complex64"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_python_wrap(number: int, target: str) -> None:
    def converted(lax: Any) -> Any:
        try:
            return np.asarray(lax.convert_element_type(number, target))
        except OverflowError:
            return None

    np.testing.assert_array_equal(converted(lax), converted(jax.lax), strict=True)
