"""Modules as records: types, constants of every dtype, attributes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kiln.engines.xla.stablehlo.mlir import bindings
from kiln.engines.xla.stablehlo.operations import functions_of
from kiln.engines.xla.stablehlo.text import dense, element_type
from kiln.ir.types import ShapedArray

DTYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4"),
    *("float8_e4m3fn", "float8_e5m2"),
]


def read(text: str):
    """Return the functions of a module."""
    with bindings() as ir:
        return functions_of(ir, ir.Module.parse(text))


def constant(value: np.ndarray) -> np.ndarray:
    """Write a constant, and read it."""
    shape = "".join(f"{n}x" for n in value.shape)
    kind = f"tensor<{shape}{element_type(value.dtype)}>"
    text = f"%x = stablehlo.constant dense<{dense(value)}> : {kind} return %x : {kind}"
    main = read(f"func.func @main() -> {kind} {{ {text} }}")["main"]
    (operation,) = main.body.operations
    return operation.attributes["value"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0, 2), (40, 5)])
def test_constants_keep_their_bits(name, shape):
    dtype = np.dtype(name)
    values = np.random.RandomState(0).randint(0, 7, shape)
    value = np.asarray(values if dtype.kind != "c" else values + 1j * values).astype(dtype)
    found = constant(value)
    assert (found.dtype, found.shape) == (dtype, shape)
    assert found.tobytes() == value.tobytes()


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "complex64"])
def test_constants_that_are_not_finite(name):
    value = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.1, 1e-30]).astype(name)
    for given in (value, value[:1], np.tile(value, 30)):
        assert constant(given).tobytes() == given.tobytes()


def test_repeated_numbers():
    for name in ("float32", "bfloat16", "complex64", "bool"):
        value = np.full((3, 4), 3, np.dtype(name))
        np.testing.assert_array_equal(constant(value), value)


def test_attributes_types_and_regions():
    functions = read("""
    func.func @main(%x: tensor<2x3xbf16>, %t: !stablehlo.token) -> tensor<3x2xbf16> {
      %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
      %z = func.call @other(%y) : (tensor<3x2xbf16>) -> tensor<3x2xbf16>
      return %z : tensor<3x2xbf16>
    }
    func.func private @other(%x: tensor<3x2xbf16>) -> tensor<3x2xbf16> {
      %s = stablehlo.constant dense<0.0> : tensor<bf16>
      %r = "stablehlo.reduce_window"(%x, %s) <{window_dimensions = array<i64: 1, 1>,
        padding = dense<[[0, 0], [1, -1]]> : tensor<2x2xi64>}> ({
        ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
        %c = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
        %d = stablehlo.select %c, %a, %b : tensor<i1>, tensor<bf16>
        stablehlo.return %d : tensor<bf16> }) : (tensor<3x2xbf16>, tensor<bf16>) -> tensor<3x2xbf16>
      return %r : tensor<3x2xbf16>
    }""")
    main, other = functions["main"], functions["other"]
    assert main.types == (ShapedArray((2, 3), ml_dtypes.bfloat16), "!stablehlo.token")
    transposed, call = main.body.operations
    assert transposed.attributes["permutation"] == (1, 0)
    assert transposed.operands == main.body.arguments[:1]
    assert call.attributes["callee"] == "other"
    assert main.body.returned == call.results
    _, window = other.body.operations
    assert window.attributes["padding"] == [[0, 0], [1, -1]]
    (region,) = window.regions
    compared, chosen = region.operations
    assert compared.attributes["comparison_direction"] == "GT"
    assert compared.attributes["compare_type"] == "TOTALORDER"
    assert chosen.operands == (*compared.results, *region.arguments)


def test_numbers_of_axes():
    main = read("""
    func.func @main(%x: tensor<4x3xf32>, %i: tensor<5x1xi32>) -> tensor<5x3xf32> {
      %r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>
      return %r : tensor<5x3xf32>
    }""")["main"]
    numbers = main.body.operations[0].attributes["dimension_numbers"]
    assert numbers["offset_dims"] == (1,) and numbers["index_vector_dim"] == 1
