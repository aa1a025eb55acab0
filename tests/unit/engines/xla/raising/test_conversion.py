"""Conversions: to booleans, from complex numbers, saturation, bits, constants."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

FLOATS = np.float32([0.0, -0.5, 300.7, -300.7, np.nan, np.inf, -np.inf, 1e10])


@pytest.mark.parametrize("kind", ["i1", "i8", "ui8", "i32", "f16", "bf16", "complex<f32>"])
def test_floats(kind):
    program = stored(
        "%x: tensor<8xf32>",
        f"tensor<8x{kind}>",
        f"%r = stablehlo.convert %x : (tensor<8xf32>) -> tensor<8x{kind}> "
        f"return %r : tensor<8x{kind}>",
    )
    check(program, FLOATS)


def test_parts_of_real_and_complex_numbers():
    z, x = "tensor<3xcomplex<f32>>", "tensor<3xf32>"
    program = stored(
        f"%z: {z}, %x: {x}",
        f"{x}, {x}, {x}, {x}",
        f"%a = stablehlo.real %z : ({z}) -> {x} %b = stablehlo.imag %z : ({z}) -> {x} "
        f"%c = stablehlo.real %x : {x} %d = stablehlo.imag %x : {x} "
        f"return %a, %b, %c, %d : {x}, {x}, {x}, {x}",
    )
    check(program, np.complex64([1 + 2j, -3j, 4]), np.float32([1, 2, 3]))


@pytest.mark.parametrize(
    ("before", "after"),
    [("3xf32", "3xi32"), ("3xf32", "3x4xui8"), ("3x2xui32", "3xui64"), ("3xui16", "3xbf16")],
)
def test_bits(before, after):
    program = stored(
        f"%x: tensor<{before}>",
        f"tensor<{after}>",
        f"%r = stablehlo.bitcast_convert %x : (tensor<{before}>) -> tensor<{after}> "
        f"return %r : tensor<{after}>",
    )
    aval = program.in_avals[0]
    check(program, np.arange(np.prod(aval.shape)).reshape(aval.shape).astype(aval.dtype))


def test_rounding_to_fewer_bits():
    program = stored(
        "%x: tensor<8xf32>",
        "tensor<8xf32>",
        "%r = stablehlo.reduce_precision %x, format = e5m10 : tensor<8xf32> "
        "return %r : tensor<8xf32>",
    )
    check(program, FLOATS)


@pytest.mark.parametrize("kind", ["i64", "ui64", "f64", "ui32", "i8"])
def test_numbers_keep_their_bits(kind):
    three, five = ("3.0", "5.0") if kind == "f64" else ("3", "5")
    types = f"tensor<3x{kind}>, tensor<{kind}>"
    program = stored(
        "",
        types,
        f"%r = stablehlo.constant dense<{three}> : tensor<3x{kind}> "
        f"%s = stablehlo.constant dense<{five}> : tensor<{kind}> return %r, %s : {types}",
    )
    jaxpr = jaxpr_of(program)
    assert [aval.dtype for aval in jaxpr.out_avals] == [a.dtype for a in program.out_avals]
    # A repeated number is not stored element by element.
    assert names_of(jaxpr) == ["broadcast_in_dim"]
