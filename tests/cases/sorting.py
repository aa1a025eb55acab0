"""Cases of sort and top_k."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.ops.reductions import sorting as ops
from tests.cases.case import Case, Operand

APART = Operand((2, 5), values=[[1.0, 3.0, -2.0, 0.5, 2.0], [0.0, 4.0, 5.5, -1.0, 1.0]])
EDGES = Operand((9,), values=[3, np.nan, -0.0, 0.0, -0.0, -np.nan, 1, -np.inf, np.inf])
TIES = Operand((3, 40), "int32", 0, 5)


def _by_two(*xs: Any) -> Any:
    return ops.sort(xs, dimension=1, num_keys=2)


CASES = [
    Case(ops.sort_p, ops.sort, (APART,), differentiable=(0,), named=((0, 0),)),
    Case(ops.sort_p, lambda x: ops.sort(x, 0), (APART,), differentiable=(0,), named=((0, 1),)),
    Case(ops.sort_p, ops.sort, (EDGES,), "edges "),
    Case(ops.sort_p, lambda x: ops.sort(x, is_stable=False), (Operand((700,)),)),
    Case(ops.sort_p, ops.sort, (Operand((3, 400)),), "many "),
    Case(ops.sort_p, lambda x: ops.sort(x, 0), (Operand((300, 2), "bfloat16"),), "many "),
    Case(ops.sort_p, ops.sort, (Operand((4, 9), "bfloat16"),)),
    Case(ops.sort_p, ops.sort, (Operand((30,), "int8", -100, 100),)),
    Case(ops.sort_p, ops.sort, (Operand((30,), "uint32", 0, 100),)),
    Case(ops.sort_p, ops.sort, (Operand((9,), "bool"),)),
    Case(ops.sort_p, ops.sort, (Operand((9,), "complex64"),)),
    Case(
        ops.sort_p,
        ops.sort,
        (Operand((6,), "complex64", values=[1 + 2j, np.nan, 1 - 1j, 5j, -1, 2]),),
        "edges ",
    ),
    Case(ops.sort_p, ops.sort, (Operand((0, 3)),)),
    Case(
        ops.sort_p,
        lambda *xs: ops.sort(xs, is_stable=True),
        (TIES, Operand((3, 40)), Operand((3, 40), "int32")),
        "ties ",
        differentiable=(1,),
    ),
    Case(
        ops.sort_p,
        lambda *xs: ops.sort(xs),
        (Operand((700,), "uint8", 0, 5), Operand((700,), "int32")),
        "many ties ",
    ),
    Case(
        ops.sort_p,
        _by_two,
        (TIES, Operand((3, 40), "float16", 0, 2), Operand((3, 40), "int32", 0, 9)),
        "two keys ",
    ),
    Case(
        ops.top_k_p,
        lambda x: ops.top_k(x, 2),
        (APART,),
        differentiable=(0,),
        named=((0, 0),),
    ),
    Case(
        ops.top_k_p,
        lambda x: ops.top_k(x, 1, axis=0),
        (APART,),
        "first axis ",
        differentiable=(0,),
        named=((0, 1),),
    ),
    Case(ops.top_k_p, lambda x: ops.top_k(x, 9), (EDGES,), "edges "),
    Case(ops.top_k_p, lambda x: ops.top_k(x, 0), (Operand((3,), "int32"),), "none "),
    Case(ops.top_k_p, lambda x: ops.top_k(x, 7), (TIES,), "ties "),
    Case(ops.top_k_p, lambda x: ops.top_k(x, 3), (Operand((40,), "bfloat16"),)),
    Case(ops.top_k_p, lambda x: ops.top_k(x, 3), (Operand((40,), "uint8", 0, 200),)),
    Case(ops.top_k_p, lambda x: ops.top_k(x, 3), (Operand((40,), "bool"),)),
]
