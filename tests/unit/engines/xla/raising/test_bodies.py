"""Regions as single operations, and as expressions."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.engines.xla.raising.bodies import expressions, operation_of_body
from kiln.engines.xla.stablehlo.operations import Operation, Region
from kiln.ir.types import ShapedArray

F32 = ShapedArray((), np.dtype("f4"))


def applied(name: str, *operands: int, result: int = 5, **attributes) -> Operation:
    """Return an operation on scalars."""
    return Operation(f"stablehlo.{name}", operands, (result,), (F32,), attributes, ())


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        (Region((1, 2), [applied("add", 1, 2)], (5,)), "add"),
        (Region((1, 2), [applied("add", 2, 1)], (5,)), "add"),
        (Region((1, 2), [applied("subtract", 1, 2)], (5,)), "subtract"),
        (Region((1, 2), [applied("subtract", 2, 1)], (5,)), None),
        (Region((1, 2), [applied("add", 1, 1)], (5,)), None),
        (Region((1, 2), [applied("add", 1, 9)], (5,)), None),
        (Region((1, 2), [applied("add", 1, 2)], (1,)), None),
        (Region((1, 2), [applied("add", 1, 2), applied("add", 5, 2, result=6)], (6,)), None),
        (Region((1, 2), [], (2,)), ""),
        (Region((1, 2), [], (1,)), None),
    ],
)
def test_single_operations(region, expected):
    assert operation_of_body(region, picks=1) == expected


def test_expressions():
    constant = applied("constant", result=9, value=np.float32(2))
    region = Region((1, 2), [applied("add", 1, 9), applied("tanh", 5, result=6)], (6, 2))
    found = expressions(region, {9: constant}.get)
    number = ("constant", "float32", np.float32(2).tobytes())
    total = ("add", "float32[]", ("argument", 0), number)
    assert found == [("tanh", "float32[]", total), ("argument", 1)]
    assert expressions(region, lambda _: None) is None
    assert expressions(region, {9: applied("negate", 8, result=9)}.get) is None


def test_calls_are_not_expressions():
    region = Region((1, 2), [applied("custom_call", 1)], (5,))
    assert expressions(region, lambda _: None) is None
