"""Cases of functions with rules of their own: right ones, so that they can be checked."""

from __future__ import annotations

from typing import Any

from kiln.control.custom_rules.jvp import custom_jvp, custom_jvp_call_p
from kiln.control.custom_rules.linear_call import linear_call, linear_call_p
from kiln.control.custom_rules.vjp import custom_vjp, custom_vjp_call_p
from kiln.control.custom_rules.vmap import custom_vmap, custom_vmap_p
from kiln.ops.elements.elementwise import add, cos, mul, sin
from kiln.ops.identity import stop_gradient
from kiln.ops.shape import broadcast
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


@custom_vmap
def mapped(x: Any, y: Any) -> Any:
    return [mul(sin(x), y), x]


@mapped.def_vmap
def _mapped_rule(size: int, stacked: list[bool], x: Any, y: Any) -> Any:
    x, y = (a if s else broadcast(a, (size,)) for a, s in zip((x, y), stacked, strict=True))
    return [mul(sin(x), y), x], [True, True]


def linear(x: Any, y: Any) -> Any:
    def scaled(residual: Any, v: Any) -> Any:
        return mul(residual, v)

    return linear_call(scaled, scaled, stop_gradient(x), y)


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
    Case(
        custom_vmap_p,
        lambda x, y: mapped(x, y),
        (VECTOR, VECTOR),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    Case(
        linear_call_p,
        linear,
        (VECTOR, VECTOR),
        differentiable=(1,),
        named=((0, 0), (1, 0)),
    ),
]
