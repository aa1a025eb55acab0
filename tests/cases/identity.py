"""Cases of operations that return their operands."""

from __future__ import annotations

from kiln.ops import identity as ops
from tests.cases.case import Case, Operand

MATRIX = Operand((2, 3))
NUMBERS = Operand((2,), "int32", -3, 3)

CASES = [
    Case(
        ops.optimization_barrier_p,
        lambda x: ops.optimization_barrier(x),
        (MATRIX,),
        differentiable=(0,),
        named=((0, 0),),
    ),
    Case(
        ops.optimization_barrier_p,
        lambda x, y: ops.optimization_barrier((x, y)),
        (MATRIX, NUMBERS),
        differentiable=(0,),
    ),
    Case(
        ops.name_p,
        lambda x: ops.checkpoint_name(x, "a"),
        (MATRIX,),
        differentiable=(0,),
        named=((0, 1),),
    ),
]
