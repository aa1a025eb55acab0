"""Cases of functions with derivatives of their own: right ones, so that they can be checked."""

from __future__ import annotations

from typing import Any

from kiln.control.custom_jvp import custom_jvp, custom_jvp_call_p
from kiln.control.custom_vjp import custom_vjp, custom_vjp_call_p
from kiln.ops.elementwise import add, cos, mul, sin
from tests.cases.case import Case, Operand

VECTOR = Operand((3,))


@custom_jvp
def forward(x: Any, y: Any) -> Any:
    return mul(sin(x), y)


@forward.defjvp
def _forward_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return forward(x, y), add(mul(mul(cos(x), y), dx), mul(sin(x), dy))


@custom_vjp
def reverse(x: Any, y: Any) -> Any:
    return mul(sin(x), y)


reverse.defvjp(
    lambda x, y: (reverse(x, y), (x, y)),
    lambda saved, ct: (mul(ct, mul(cos(saved[0]), saved[1])), mul(ct, sin(saved[0]))),
)

CASES = [
    Case(
        custom_jvp_call_p,
        lambda x, y: forward(x, y),
        (VECTOR, VECTOR),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    Case(
        custom_vjp_call_p,
        lambda x, y: reverse(x, y),
        (VECTOR, VECTOR),
        named=((0, 0), (1, 0)),
    ),
]
