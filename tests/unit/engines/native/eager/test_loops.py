"""Loops give what the meanings give, on all that is special about numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kiln.core.arrays.array import from_host
from kiln.core.engines.engine import make_plan
from kiln.core.meaning import meaning
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.native.eager.loops import (
    STEPS,
    copy_loop,
    loop_for,
    named_loop,
    select_loop,
    steps_of,
)
from kiln.ops.elements import conversion, elementwise, rounding
from kiln.ops.elements.families import Elementwise

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3e38, -3e38, 1e-45, 0.49999997]
FLOATS += [np.inf, -np.inf, np.nan, 127.5, 255.0, 256.0, -128.0, 2147483648.0, -2147483904.0, 1e19]
LIMITS = {"float16": (-6e4, 6e4)}
NUMBERS = {
    dtype: np.asarray(FLOATS).clip(*LIMITS.get(dtype, (None, None))).astype(dtype)
    if dtype.startswith("float")
    else np.asarray([False, True])
    if dtype == "bool"
    else np.unique(
        np.asarray(
            [np.iinfo(dtype).min, np.iinfo(dtype).max, *range(0 if dtype[0] == "u" else -4, 9)],
            dtype,
        )
    )
    for dtype in (
        *("float32", "float64", "float16", "bool", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    )
}
BINARY = [
    *(
        elementwise.div_p,
        elementwise.rem_p,
        elementwise.pow_p,
        elementwise.max_p,
        elementwise.min_p,
    ),
    *(elementwise.add_p, elementwise.mul_p, elementwise.lt_p, elementwise.atan2_p),
    *(elementwise.and_p, elementwise.shift_left_p, elementwise.nextafter_p),
]
UNARY = [
    *(elementwise.sign_p, elementwise.abs_p, elementwise.neg_p, elementwise.floor_p),
    *(elementwise.exp_p, elementwise.log_p, elementwise.sqrt_p, elementwise.rsqrt_p),
    *(elementwise.logistic_p, elementwise.is_finite_p, elementwise.not_p, elementwise.copy_p),
]


def compare(fun: Any, *operands: np.ndarray) -> int:
    """Compare a plan with the meanings, bit by bit; return the number of loops in it."""
    arrays = [from_host(x.copy()) for x in operands]
    try:
        jaxpr = stage_pure(lambda *xs: [fun(*xs)], [aval_of(x) for x in arrays])
    except TypeError:
        return -1
    with np.errstate(all="ignore"):
        (want,) = meaning(jaxpr, operands)
    plan = make_plan(jaxpr, None)
    assert plan is not None
    got = np.asarray(plan(*arrays))
    assert got.dtype == want.dtype and got.tobytes() == want.tobytes(), (fun, operands, got, want)
    return plan.loops


def pairs(dtype: str) -> list[np.ndarray]:
    made = list(itertools.product(NUMBERS[dtype], repeat=2))
    return [np.asarray(side, dtype) for side in zip(*made, strict=True)]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_of_numbers(dtype: str) -> None:
    x, y = pairs(dtype)
    scalar = NUMBERS[dtype][1]
    for primitive in BINARY:
        compare(primitive.bind, x, y)
        compare(lambda x, y, p=primitive: p.bind(x, y), x, np.asarray(scalar))
        compare(lambda x, y, p=primitive: p.bind(y, x), x, np.asarray(scalar))
    for unary in UNARY:
        compare(unary.bind, x)
    for n in (-1, 0, 1, 2, 3, 7):
        compare(lambda x, n=n: elementwise.integer_pow_p.bind(x, y=n), x)
    for method in rounding.RoundingMethod:
        compare(lambda x, m=method: rounding.round(x, m), x)
    compare(lambda x, y: elementwise.clamp(y, x, x), x, y)
    compare(lambda x, y: elementwise.select(elementwise.lt(x, y), x, y), x, y)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_conversions(dtype: str) -> None:
    for other in NUMBERS:
        to = np.dtype(other)
        loops = compare(
            lambda x, to=to: conversion.convert_element_type_p.bind(
                x, new_dtype=to, weak_type=False
            ),
            NUMBERS[dtype],
        )
        # float16 is converted by NumPy.
        assert loops == 1 or "float16" in (dtype, other)


def test_which_loops_there_are() -> None:
    f32, i32, bf16 = np.dtype(np.float32), np.dtype(np.int32), np.dtype("V2")
    assert loop_for(np.add, [f32, f32], f32) is not None
    assert loop_for(np.add, [f32, i32], f32) is None
    assert loop_for(len, [f32], f32) is None
    assert copy_loop(bf16) is not None and select_loop(bf16) is not None
    assert copy_loop(np.dtype(object)) is None and select_loop(np.dtype("V3")) is None
    assert named_loop("max", [f32, f32], f32) is not None
    assert named_loop("max", [f32], f32) is None
    assert named_loop("max", [bf16, bf16], bf16) is None
    assert named_loop("none", [f32], f32) is None
    assert named_loop("div", [f32, f32], f32) is None


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "max"])
def test_operations_on_numbers_are_loops_in_plans(name: str) -> None:
    primitive = getattr(elementwise, f"{name}_p")
    f32 = np.dtype(np.float32)
    result = f32 if name in ("add", "sub", "mul", "max") else np.dtype(bool)
    assert steps_of(primitive, {}, [f32, f32], result)


def test_each_ufunc_that_has_a_loop_is_one_in_plans() -> None:
    f32 = np.dtype(np.float32)
    found = []
    for primitive in vars(elementwise).values():
        meaning = getattr(primitive, "meaning", None)
        if isinstance(primitive, Elementwise) and isinstance(meaning, np.ufunc):
            operands = [f32] * meaning.nin
            if loop_for(meaning, operands, f32):
                found.append(primitive.name)
                # What takes parameters has steps of its own.
                assert primitive in STEPS or steps_of(primitive, {}, operands, f32), primitive.name
    assert len(found) >= 20 and {"exp", "sin", "log", "sqrt", "tanh"} <= {*found}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
def test_square_roots_as_powers_have_the_special_values_of_powers(
    shape: tuple[int, ...], dtype: str
) -> None:
    half = np.asarray(0.5, dtype)
    for number, want in ((-np.inf, np.inf), (-0.0, 0.0), (4.0, 2.0)):
        x = np.full(shape, number, dtype)
        for y in (half, np.full(shape, half)):
            types = [aval_of(from_host(x)), aval_of(from_host(y))]
            jaxpr = stage_pure(lambda x, y: [elementwise.pow_p.bind(x, y)], types)
            plan = make_plan(jaxpr, None)
            assert plan is not None
            for got in (plan(from_host(x), from_host(y)), meaning(jaxpr, [x, y])[0]):
                np.testing.assert_array_equal(np.asarray(got), np.full(shape, want, dtype))
                assert not np.signbit(np.asarray(got)).any()
