"""Cases of special functions, with the looped ones of `kiln.control`."""

from __future__ import annotations

from typing import Any

from kiln.control.loops import special_loops as loops
from kiln.core.primitive import Primitive
from kiln.ops.elements import special as ops
from tests.cases.case import Case, Operand
from tests.cases.elementwise import FLOATING, tolerance, unary

HALF = ("float16", "bfloat16")


def _looped(
    primitive: Primitive, function: Any, *operands: Operand, moves: tuple[int, ...]
) -> list[Case]:
    named = tuple((i, 0) for i in range(len(operands)))
    rest = [Operand((3,), "bfloat16", 0.1, 0.9)] * (len(operands) - 1)
    coarse = (Operand((), "bfloat16", 0.5, 2), *rest)
    return [
        Case(primitive, function, operands, "", moves, named=named, tolerance=2e-5),
        Case(primitive, function, coarse, tolerance=2e-2),
    ]


A, X = Operand((9,), low=0.3, high=8), Operand((9,), low=0.1, high=12)
LARGE = Operand((4,), values=[100.0, 1000.0, 1e4, 50.0])
NEAR = Operand((4,), values=[110.0, 980.0, 1.01e4, 70.0])

CASES: list[Case] = [
    *unary(ops.erf_p, ops.erf, FLOATING, -2, 2),
    *unary(ops.erfc_p, ops.erfc, FLOATING, -2, 2),
    *unary(ops.erf_inv_p, ops.erf_inv, FLOATING, -0.8, 0.8),
    *unary(ops.lgamma_p, ops.lgamma, FLOATING, 0.3, 5),
    *unary(ops.digamma_p, ops.digamma, FLOATING, 0.5, 5),
    *unary(ops.bessel_i0e_p, ops.bessel_i0e, FLOATING, 0.2, 20),
    *unary(ops.bessel_i0e_p, ops.bessel_i0e, ("float32",), -20, -0.2, at_edges=()),
    *unary(ops.bessel_i1e_p, ops.bessel_i1e, FLOATING, 0.2, 20),
    *unary(ops.bessel_i1e_p, ops.bessel_i1e, ("float32",), -0.5, 0.5, at_edges=()),
    Case(
        ops.polygamma_p,
        ops.polygamma,
        (Operand((5,), values=[0, 1, 2, 3, 5]), Operand((5,), low=0.6, high=4)),
        differentiable=(1,),
        named=((0, 0), (1, 0)),
    ),
    Case(ops.polygamma_p, ops.polygamma, (Operand((), values=1), Operand((3,), low=0.6, high=4))),
    Case(
        ops.zeta_p,
        ops.zeta,
        (Operand((5,), low=1.5, high=5), Operand((5,), low=0.6, high=4)),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    *[
        Case(
            ops.zeta_p,
            ops.zeta,
            (Operand((3,), d, 1.5, 5), Operand((3,), d, 0.6, 4)),
            tolerance=tolerance(d),
        )
        for d in HALF
    ],
    *_looped(loops.igamma_p, loops.igamma, A, X, moves=(0, 1)),
    *_looped(loops.igammac_p, loops.igammac, A, X, moves=(0, 1)),
    *_looped(loops.igamma_grad_a_p, loops.igamma_grad_a, A, X, moves=(1,)),
    *_looped(loops.random_gamma_grad_p, loops.random_gamma_grad, A, X, moves=()),
    *_looped(
        loops.regularized_incomplete_beta_p,
        loops.betainc,
        A,
        Operand((9,), low=0.4, high=5),
        Operand((9,), low=0.05, high=0.95),
        moves=(2,),
    ),
    Case(loops.igamma_p, loops.igamma, (LARGE, NEAR), "large ", tolerance=1e-4),
    Case(loops.igammac_p, loops.igammac, (LARGE, NEAR), "large ", tolerance=1e-4),
]
