"""Cases of recomputation."""

from __future__ import annotations

from typing import Any

from kiln.control.checkpoint import checkpoint, checkpoint_p
from kiln.control.checkpoint_policies import everything_saveable
from kiln.ops.elements.elementwise import mul, sin
from tests.cases.case import Case, Operand

VECTOR = Operand((3,))


def body(x: Any, y: Any) -> Any:
    return mul(sin(sin(x)), y), sin(y)


CASES = [
    Case(
        checkpoint_p,
        checkpoint(body),
        (VECTOR, VECTOR),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    Case(
        checkpoint_p,
        checkpoint(body, policy=everything_saveable),
        (VECTOR, VECTOR),
        "kept ",
        differentiable=(1,),
    ),
]
