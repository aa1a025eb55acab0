"""Cases of gather and the scatters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import (
    CLIP,
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
    Window,
)
from tests.cases.case import Case, Operand

ROWS = Window(placed=(1,), dropped=(0,), coordinates=(0,), batching=(), along=())
POINTS = Window(placed=(), dropped=(0, 1), coordinates=(1, 0), batching=(), along=())
BLOCKS = Window(placed=(1, 2), dropped=(), coordinates=(0, 1), batching=(), along=())
PAIRED = Window(placed=(1,), dropped=(), coordinates=(1,), batching=(0,), along=(0,))
ROW_INDICES = Operand((4, 1), "int32", values=[2, 0, 2, 1])
ROWS_OUTSIDE = Operand((4, 1), "int32", values=[2, -1, 7, 1])
POINT_INDICES = Operand((2, 2, 2), "int32", values=[0, 1, 4, 2, 0, 1, 3, 0])
BLOCK_INDICES = Operand((2, 2), "int32", values=[0, 1, 2, 3])
PAIRED_INDICES = Operand((3, 1), "int32", values=[0, 3, 1])
MATRIX = Operand((3, 5))


def _gather(
    window: Window, sizes: tuple[int, ...], mode: GatherScatterMode, fill: Any = None
) -> Callable[..., Any]:
    def apply(x: Any, indices: Any) -> Any:
        return ops.gather(x, indices, window.gather(), sizes, mode=mode, fill_value=fill)

    return apply


def _scatter(
    function: Callable[..., Any], window: Window, mode: GatherScatterMode, unique: bool = False
) -> Callable[..., Any]:
    def apply(x: Any, indices: Any, updates: Any) -> Any:
        return function(x, indices, updates, window.scatter(), mode=mode, unique_indices=unique)

    return apply


def _scatters(primitive: Any, function: Callable[..., Any], smooth: bool) -> list[Case]:
    moving = (0, 2) if smooth else ()
    return [
        Case(
            primitive,
            _scatter(function, ROWS, FILL_OR_DROP),
            (MATRIX, ROW_INDICES, Operand((4, 5))),
            "rows ",
            differentiable=moving,
            named=((0, 1), (2, 1)),
        ),
        Case(
            primitive,
            _scatter(function, ROWS, FILL_OR_DROP),
            (MATRIX, ROWS_OUTSIDE, Operand((4, 5))),
            "dropping rows ",
            differentiable=moving,
        ),
        Case(
            primitive,
            _scatter(function, ROWS, CLIP),
            (MATRIX, ROWS_OUTSIDE, Operand((4, 5))),
            "clipping rows ",
            differentiable=moving,
        ),
        Case(
            primitive,
            _scatter(function, POINTS, PROMISE_IN_BOUNDS),
            (MATRIX, POINT_INDICES, Operand((2, 2))),
            "points ",
            differentiable=moving,
        ),
        Case(
            primitive,
            _scatter(function, BLOCKS, FILL_OR_DROP),
            (MATRIX, BLOCK_INDICES, Operand((2, 2, 2))),
            "blocks, one outside in part ",
            differentiable=moving,
        ),
        Case(
            primitive,
            _scatter(function, BLOCKS, CLIP, unique=True),
            (MATRIX, Operand((2, 2), "int32", values=[0, 0, 1, 3]), Operand((2, 2, 2))),
            "unique blocks ",
            differentiable=(0, 2),
        ),
        Case(
            primitive,
            _scatter(function, PAIRED, FILL_OR_DROP),
            (MATRIX, PAIRED_INDICES, Operand((3, 2))),
            "paired ",
            differentiable=moving,
            named=((0, 0), (1, 0), (2, 0)),
        ),
        Case(
            primitive,
            _scatter(function, ROWS, FILL_OR_DROP),
            (Operand((3, 2), "int32"), Operand((4, 1), "uint8", values=[2, 0, 200, 2]))
            + (Operand((4, 2), "int32"),),
        ),
        Case(
            primitive,
            _scatter(function, ROWS, FILL_OR_DROP),
            (Operand((3, 2), "bfloat16"), ROW_INDICES, Operand((4, 2), "bfloat16")),
        ),
        Case(
            primitive,
            _scatter(function, ROWS, FILL_OR_DROP),
            (Operand((3, 2), "bool"), ROW_INDICES, Operand((4, 2), "bool")),
        ),
    ]


CASES: list[Case] = [
    Case(
        ops.gather_p,
        _gather(ROWS, (1, 5), PROMISE_IN_BOUNDS),
        (MATRIX, ROW_INDICES),
        "rows ",
        differentiable=(0,),
        named=((1, 0),),
    ),
    Case(
        ops.gather_p,
        _gather(ROWS, (1, 5), CLIP),
        (MATRIX, ROWS_OUTSIDE),
        "clipping rows ",
        differentiable=(0,),
    ),
    Case(
        ops.gather_p,
        _gather(ROWS, (1, 5), FILL_OR_DROP, 2.5),
        (MATRIX, ROWS_OUTSIDE),
        "filling rows ",
        differentiable=(0,),
    ),
    Case(
        ops.gather_p,
        _gather(POINTS, (1, 1), PROMISE_IN_BOUNDS),
        (MATRIX, POINT_INDICES),
        "points ",
        differentiable=(0,),
    ),
    Case(
        ops.gather_p,
        _gather(BLOCKS, (2, 2), CLIP),
        (MATRIX, BLOCK_INDICES),
        "blocks, one outside in part ",
        differentiable=(0,),
    ),
    Case(
        ops.gather_p,
        _gather(BLOCKS, (2, 2), FILL_OR_DROP, 0.0),
        (MATRIX, BLOCK_INDICES),
        "filling blocks ",
        differentiable=(0,),
    ),
    Case(
        ops.gather_p,
        _gather(PAIRED, (1, 2), CLIP),
        (MATRIX, PAIRED_INDICES),
        "paired ",
        differentiable=(0,),
        named=((0, 0), (1, 0)),
    ),
    Case(
        ops.gather_p,
        _gather(Window((0, 2), (1,), (1,), (), ()), (2, 1, 3), CLIP),
        (Operand((2, 4, 3)), Operand((3, 1), "int32", values=[3, 0, 0])),
        "windows around the middle ",
        differentiable=(0,),
    ),
    Case(
        ops.gather_p,
        lambda x, i: ops.gather(
            x, i, GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill", fill_value=None
        ),
        (Operand((3,), "int16"), Operand((2, 2, 1), "int8", values=[0, -1, 3, 2])),
        "default fill ",
    ),
    *[
        Case(
            ops.gather_p,
            _gather(ROWS, (1, 2), FILL_OR_DROP),
            (Operand((3, 2), dtype), Operand((2, 1), "uint32", values=[3, 2])),
            "default fill ",
        )
        for dtype in ("bool", "uint8", "float32", "bfloat16", "complex64", "int32")
    ],
    *_scatters(ops.scatter_p, ops.scatter, smooth=True),
    *_scatters(ops.scatter_add_p, ops.scatter_add, smooth=True),
    *_scatters(ops.scatter_mul_p, ops.scatter_mul, smooth=False),
    *_scatters(ops.scatter_min_p, ops.scatter_min, smooth=True),
    *_scatters(ops.scatter_max_p, ops.scatter_max, smooth=True),
]
