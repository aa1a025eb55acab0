"""Cases of conversions between dtypes, of bits, and of complex numbers and their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.ops.elements import conversion as ops
from tests.cases.case import Case, Operand
from tests.cases.elementwise import ALL, spread

BOUNDS = Operand(
    (16,),
    values=[0, -0.0, 0.5, -0.5, 1.9, -1.9, 127.5, 128, -129, 255.9, 256, 1e20, -1e20, np.inf]
    + [-np.inf, np.nan],
)
WRAPPING = Operand((7,), "int32", values=[0, -1, 127, 128, 255, 256, -(2**31)])


def _convert(source: Operand, dtype: str, name: str = "", moves: bool = False) -> Case:
    return Case(
        ops.convert_element_type_p,
        lambda x: ops.convert_element_type_p.bind(x, new_dtype=np.dtype(dtype), weak_type=False),
        (source,),
        f"{name}to {dtype} ",
        differentiable=(0,) if moves else (),
        named=((0, 0),),
    )


def _bitcast(source: Operand, dtype: str, named: Any = ((0, 0),)) -> Case:
    return Case(
        ops.bitcast_convert_type_p,
        lambda x: ops.bitcast_convert_type(x, dtype),
        (source,),
        f"to {dtype} ",
        named=named,
    )


CASES: list[Case] = [
    *[
        _convert(Operand((2, 3), source, *spread(source)), target)
        for source in (*ALL, "bool")
        for target in (*ALL, "bool")
        if not (source == target == "bool")
    ],
    *[
        _convert(BOUNDS, target, "bounds ")
        for target in ("int8", "uint8", "int32", "uint32", "bool")
    ],
    *[_convert(WRAPPING, target, "wrapping ") for target in ("int8", "uint8", "uint32", "float16")],
    Case(
        ops.convert_element_type_p,
        lambda x: ops.convert_element_type_p.bind(x, new_dtype=x.dtype, weak_type=True),
        (Operand((2, 3)),),
        "weak ",
        differentiable=(0,),
    ),
    Case(
        ops.convert_element_type_p,
        lambda x: ops.convert_element_type_p.bind(
            x, new_dtype=np.dtype(f"c{2 * x.dtype.itemsize}"), weak_type=False
        ),
        (Operand((2, 3)),),
        "to complex ",
        differentiable=(0,),
    ),
    Case(
        ops.convert_element_type_p,
        lambda x: ops.convert_element_type_p.bind(
            x, new_dtype=np.dtype(f"f{x.dtype.itemsize // 2}"), weak_type=False
        ),
        (Operand((2, 3), "complex64"),),
        "to real ",
        differentiable=(0,),
    ),
    _bitcast(Operand((2, 3)), "int32"),
    _bitcast(Operand((2, 3), "int32", -9, 9), "float32"),
    _bitcast(Operand((2, 3), "bfloat16"), "uint16"),
    _bitcast(Operand((2, 3)), "uint8"),
    _bitcast(Operand((3, 4), "uint8", 0, 255), "uint32"),
    _bitcast(Operand((4,), "uint8", 0, 255), "float32", "its one axis disappears"),
    *[
        Case(
            primitive,
            function,
            (Operand((2, 3), "complex64"),),
            differentiable=(0,),
            named=((0, 1),),
        )
        for primitive, function in ((ops.real_p, ops.real), (ops.imag_p, ops.imag))
    ],
    *[
        Case(
            ops.conj_p,
            ops.conj_p.bind,
            (Operand((2, 3), dtype, *spread(dtype)),),
            differentiable=(0,) if dtype in ("float32", "complex64") else (),
            named=((0, 1),),
        )
        for dtype in ALL
    ],
    Case(
        ops.complex_p,
        ops.complex,
        (Operand((2, 3)), Operand((2, 3))),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    Case(ops.complex_p, ops.complex, (Operand(()), Operand((3,))), differentiable=(0, 1)),
    Case(
        ops.complex_p,
        ops.complex,
        (
            Operand((4,), values=[0.0, -0.0, np.inf, 1]),
            Operand((4,), values=[-0.0, 0.0, 0, np.nan]),
        ),
        "edges ",
    ),
]
