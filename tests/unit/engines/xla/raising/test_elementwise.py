"""Elementwise operations: booleans, orders, scalars beside arrays."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

EDGES = np.float32([1, np.nan, -0.0, 0.0, -np.inf, -np.nan])
FLAGS = np.array([True, True, False, False]), np.array([True, False, True, False])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("add", "or"), ("multiply", "and"), ("maximum", "or"), ("minimum", "and"), ("xor", "xor")],
)
def test_arithmetic_of_booleans_is_logic(name, expected):
    flag = "tensor<4xi1>"
    program = stored(
        f"%x: {flag}, %y: {flag}", flag, f"%r = stablehlo.{name} %x, %y : {flag} return %r : {flag}"
    )
    check(program, *FLAGS)
    assert names_of(jaxpr_of(program)) == [expected]


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize(
    ("kind", "how", "values"),
    [
        ("f32", "FLOAT", EDGES),
        ("f32", "TOTALORDER", EDGES),
        ("f16", "TOTALORDER", EDGES.astype(np.float16)),
        ("bf16", "TOTALORDER", EDGES),
        ("i1", "UNSIGNED", EDGES > 0),
        ("ui8", "UNSIGNED", np.uint8([1, 200, 3, 128, 0, 255])),
    ],
)
def test_comparisons(direction, kind, how, values):
    types = f"(tensor<6x6x{kind}>, tensor<6x6x{kind}>) -> tensor<6x6xi1>"
    program = stored(
        f"%x: tensor<6x6x{kind}>, %y: tensor<6x6x{kind}>",
        "tensor<6x6xi1>",
        f"%r = stablehlo.compare {direction}, %x, %y, {how} : {types} return %r : tensor<6x6xi1>",
    )
    dtype = program.in_avals[0].dtype
    x = np.broadcast_to(values.astype(dtype), (6, 6))
    check(program, np.array(x), np.array(x.T))


def test_scalars_choose_and_bound_arrays():
    program = stored(
        "%p: tensor<i1>, %x: tensor<6xf32>, %y: tensor<6xf32>, %l: tensor<f32>",
        "tensor<6xf32>, tensor<6xf32>",
        "%r = stablehlo.select %p, %x, %y : tensor<i1>, tensor<6xf32> "
        "%s = stablehlo.clamp %l, %x, %l : (tensor<f32>, tensor<6xf32>, tensor<f32>) -> "
        "tensor<6xf32> return %r, %s : tensor<6xf32>, tensor<6xf32>",
    )
    for flag in (True, False):
        check(program, np.bool_(flag), EDGES, np.arange(6, dtype=np.float32), np.float32(0.5))


@pytest.mark.parametrize("name", ["round_nearest_afz", "round_nearest_even", "cbrt", "logistic"])
def test_functions(name):
    program = stored(
        "%x: tensor<6xf32>",
        "tensor<6xf32>",
        f"%r = stablehlo.{name} %x : tensor<6xf32> return %r : tensor<6xf32>",
    )
    check(program, np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]))


def test_division_and_shifts_at_the_edges():
    kind = "tensor<6xi32>"
    names = ("divide", "remainder", "shift_left", "shift_right_logical", "shift_right_arithmetic")
    lines = " ".join(f"%r{i} = stablehlo.{n} %x, %y : {kind}" for i, n in enumerate(names))
    outs, types = ", ".join(f"%r{i}" for i in range(5)), ", ".join([kind] * 5)
    program = stored(f"%x: {kind}, %y: {kind}", types, f"{lines} return {outs} : {types}")
    low = -(2**31)
    check(program, np.int32([7, low, -7, 1, 5, -5]), np.int32([0, -1, 2, 32, 40, 31]))


def test_clamped_complex_numbers_are_refused():
    kind = "tensor<2xi1>"
    program = stored(
        f"%x: {kind}", kind, f"%r = stablehlo.clamp %x, %x, %x : {kind} return %r : {kind}"
    )
    with pytest.raises(NotImplementedError, match=r"stablehlo\.clamp of bool"):
        jaxpr_of(program)
