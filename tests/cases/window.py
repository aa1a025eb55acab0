"""Cases of reductions of sliding windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.ops.elements.elementwise import add, ge_p, le_p, max, min, mul
from kiln.ops.reductions import generic_window
from kiln.ops.reductions import window as ops
from tests.cases.case import Case, Operand

# Elements far enough apart that a finite difference does not change who wins.
APART = Operand((4, 5), values=np.random.default_rng(3).permutation(20) / 4.0)
LINE = Operand((7,), values=[1.0, 3.0, -2.0, 0.5, 2.0, 5.0, -1.0])
IDENTITY = {add: 0.0, max: -np.inf, min: np.inf, mul: 1.0}


def _window(function: Any, start: Any = None, **windows: Any) -> Callable[[Any], Any]:
    first = IDENTITY[function] if start is None else start
    return lambda x: generic_window.reduce_window(x, first, function, **windows)


PLAIN = {"window_dimensions": (2, 2)}
STRIDED = {"window_dimensions": (2, 3), "window_strides": (2, 1), "padding": "SAME"}
DILATED = {
    "window_dimensions": (2, 2),
    "window_strides": (1, 2),
    "padding": [(1, 0), (2, 1)],
    "base_dilation": (2, 1),
    "window_dilation": (1, 3),
}
CROPPED = {"window_dimensions": (3,), "padding": [(-1, 2)], "window_strides": (2,)}
LONG = {"window_dimensions": (7,), "padding": [(6, 0)]}


def _family(primitive: Any, function: Any) -> list[Case]:
    return [
        Case(
            primitive,
            _window(function, window_dimensions=(1, 2)),
            (APART,),
            differentiable=(0,),
            named=((0, 0),),
        ),
        Case(primitive, _window(function, **PLAIN), (APART,), "plain ", differentiable=(0,)),
        Case(primitive, _window(function, **STRIDED), (APART,), "strided ", differentiable=(0,)),
        Case(primitive, _window(function, **DILATED), (APART,), "dilated ", differentiable=(0,)),
        Case(primitive, _window(function, **CROPPED), (LINE,), "cropped ", differentiable=(0,)),
        Case(primitive, _window(function, **LONG), (LINE,), "long ", differentiable=(0,)),
        Case(primitive, _window(function, window_dimensions=(9,)), (LINE,), "too large "),
        Case(
            primitive,
            _window(function, window_dimensions=(90,), padding=[(90, 80)]),
            (LINE,),
            "many elements ",
        ),
        Case(primitive, _window(function, **PLAIN), (Operand((3, 4), "bfloat16"),)),
    ]


def _integers(primitive: Any, function: Any, start: int) -> Case:
    return Case(
        primitive,
        _window(function, start, **STRIDED),
        (Operand((4, 5), "int32", -99, 99),),
    )


def _selection(select: Any) -> list[Case]:
    both = {"window_dimensions": (2, 3), "window_strides": (2, 1), "padding": ((1, 0), (0, 2))}
    along = {"window_dimensions": (1, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 0))}
    ones = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
    return [
        Case(
            ops.select_and_gather_add_p,
            lambda t, x: ops.select_and_gather_add_p.bind(
                t, x, select_prim=select, **along, **ones
            ),
            (Operand((4, 5)), APART),
            f"{select.name} rows ",
            named=((0, 0), (1, 0)),
        ),
        Case(
            ops.select_and_scatter_add_p,
            lambda s, x: ops.select_and_scatter_add_p.bind(s, x, select_prim=select, **along),
            (Operand((4, 4)), APART),
            f"{select.name} rows ",
            named=((0, 0), (1, 0)),
        ),
        Case(
            ops.select_and_gather_add_p,
            lambda t, x: ops.select_and_gather_add_p.bind(t, x, select_prim=select, **both, **ones),
            (Operand((4, 5)), APART),
            select.name,
            differentiable=(0,),
        ),
        Case(
            ops.select_and_scatter_add_p,
            lambda s, x: ops.select_and_scatter_add_p.bind(s, x, select_prim=select, **both),
            (Operand((2, 5)), APART),
            select.name,
            differentiable=(0,),
        ),
        Case(
            ops.select_and_scatter_add_p,
            lambda s, x: ops.select_and_scatter_add_p.bind(s, x, select_prim=select, **both),
            (Operand((2, 5)), Operand((4, 5), values=np.arange(20) % 3)),
            f"{select.name} ties ",
        ),
    ]


def _product_and_sum(a: Any, b: Any) -> Any:
    return [mul(a[0], b[0]), add(a[1], b[1])]


CASES = [
    *_family(ops.reduce_window_sum_p, add),
    _integers(ops.reduce_window_sum_p, add, 0),
    *_family(ops.reduce_window_max_p, max),
    _integers(ops.reduce_window_max_p, max, -(2**31)),
    *_family(ops.reduce_window_min_p, min),
    _integers(ops.reduce_window_min_p, min, 2**31 - 1),
    *_selection(ge_p),
    *_selection(le_p),
    *_family(generic_window.reduce_window_p, mul)[:-1],
    Case(
        ops.reduce_window_sum_p,
        _window(add, 0.5, **STRIDED),
        (APART,),
        "another start ",
        differentiable=(0,),
    ),
    Case(
        generic_window.reduce_window_p,
        _window(mul, 0.5, **DILATED),
        (APART,),
        "another start ",
        differentiable=(0,),
    ),
    Case(
        generic_window.reduce_window_p,
        lambda x, y: generic_window.reduce_window(
            [x, y], [1.0, np.int32(0)], _product_and_sum, (2, 2)
        ),
        (Operand((3, 3)), Operand((3, 3), "int32")),
        "two operands ",
        differentiable=(0,),
    ),
]
