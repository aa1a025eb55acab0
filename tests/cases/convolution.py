"""Cases of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.ops.linear import convolution as ops
from tests.cases.case import Case, Operand


def _conv(*windows: Any, **options: Any) -> Callable[[Any, Any], Any]:
    return lambda x, w: ops.conv_general_dilated(x, w, *windows, **options)


def _case(name: str, apply: Any, x: tuple[int, ...], w: tuple[int, ...], **more: Any) -> Case:
    return Case(
        ops.conv_general_dilated_p,
        apply,
        (Operand(x), Operand(w)),
        f"{name} ",
        differentiable=(0, 1),
        tolerance=1e-4,
        **more,
    )


def _dtype(dtype: str, **more: Any) -> Case:
    return Case(
        ops.conv_general_dilated_p,
        _conv((1,), "SAME", **more),
        (Operand((1, 2, 4), dtype, -9, 9), Operand((3, 2, 2), dtype, -9, 9)),
        tolerance=1e-2 if dtype.endswith("16") else 1e-4,
    )


GENERAL = {
    "lhs_dilation": (2, 1),
    "rhs_dilation": (1, 2),
    "dimension_numbers": ("NHWC", "HWIO", "NWCH"),
}

CASES = [
    _case("line", _conv((1,), "VALID"), (2, 2, 5), (3, 2, 2), named=((0, 0),)),
    _case("plane", _conv((1, 1), "SAME"), (2, 2, 4, 3), (3, 2, 2, 3)),
    _case("no space", _conv((), []), (2, 3), (4, 3)),
    _case("strided", _conv((2, 3), [(1, 0), (2, 2)]), (1, 2, 5, 6), (2, 2, 2, 3)),
    _case("general", _conv((2, 1), [(0, 2), (2, -1)], **GENERAL), (2, 3, 5, 2), (2, 2, 2, 3)),
    _case("cropped", _conv((1,), [(-1, 2)]), (1, 1, 5), (2, 1, 2)),
    _case("cropped at corners", _conv((1, 2), [(-1, 1), (-2, 2)]), (2, 2, 6, 5), (2, 2, 4, 1)),
    _case(
        "cropped with holes",
        _conv((2, 1), [(-4, 3), (2, -5)], (3, 2)),
        (1, 2, 4, 5),
        (2, 2, 2, 3),
    ),
    _case("cropped away", _conv((1,), [(-3, 4)], (2,)), (1, 1, 2), (2, 1, 2)),
    _case("too large", _conv((1,), "VALID"), (1, 1, 2), (2, 1, 3)),
    _case(
        "feature groups",
        _conv((1, 2), "SAME", feature_group_count=2),
        (2, 4, 3, 3),
        (6, 2, 2, 2),
    ),
    _case("depthwise", _conv((1,), "SAME", feature_group_count=3), (2, 3, 4), (3, 1, 2)),
    _case(
        "feature groups in other places",
        _conv((2,), [(1, 1)], None, (2,), ("HNC", "IHO", "CHN"), feature_group_count=2),
        (5, 2, 4),
        (2, 2, 6),
    ),
    _case("batch groups", _conv((1,), "SAME", batch_group_count=2), (4, 2, 3), (4, 2, 2)),
    _case(
        "batch groups in other places",
        _conv((2,), [(1, 1)], (2,), None, ("HNC", "IHO", "CHN"), batch_group_count=3),
        (4, 3, 2),
        (2, 2, 6),
    ),
    _dtype("bfloat16"),
    _dtype("float16", preferred_element_type="float32"),
    _dtype("int32"),
    _dtype("int8"),
    _dtype("int8", preferred_element_type="int32"),
    _dtype("bool"),
    Case(
        ops.conv_general_dilated_p,
        _conv((1,), "SAME"),
        (Operand((1, 2, 4), "complex64"), Operand((3, 2, 2), "complex64")),
        differentiable=(0, 1),
    ),
]
