"""Cases of calls, loops and branches."""

from __future__ import annotations

from typing import Any

from kiln.control.branches import cond, switch
from kiln.control.call import jit_p
from kiln.control.cond import cond_p
from kiln.control.custom_rules.linear_solve import custom_linear_solve, linear_solve_p
from kiln.control.loops.loops import scan, while_loop
from kiln.control.loops.scan import scan_p
from kiln.control.loops.while_loop import while_p
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ops.elements.elementwise import abs, add, div, gt, lt, mul, sin
from kiln.ops.shape import reduce_sum
from tests.cases.case import Case, Operand

VECTOR = Operand((3,))
ROWS = Operand((4, 3))


def called(x: Any, y: Any) -> Any:
    avals = [aval_of(x), aval_of(y)]
    jaxpr = stage_pure(lambda a, b: [mul(sin(a), b), b], avals, name="called")
    return jit_p.bind(x, y, jaxpr=jaxpr, name="called")


def looped(reverse: bool) -> Any:
    def run(w: Any, h: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, n = carry
            return (sin(add(mul(h, w), x)), add(n, 1)), (mul(h, x), n)

        (h, n), (ys, ns) = scan(step, (h, 0), xs, reverse=reverse)
        return [h, n, ys, ns]

    return run


def chosen(flag: Any, x: Any, y: Any) -> Any:
    return cond(flag, lambda a: (mul(a, y), a), lambda a: (sin(a), mul(a, a)), x)


def switched(index: Any, x: Any) -> Any:
    return switch(index, [sin, lambda a: a, lambda a: mul(a, a)], x)


def repeated(x: Any, w: Any) -> Any:
    def small(state: Any) -> Any:
        return lt(reduce_sum(abs(state[0]), (0,)), 20.0)

    # The examples of the checks go round one to four times.
    return while_loop(small, lambda s: (add(mul(s[0], 2.0), w), add(s[1], 1)), (x, 0))


def beside(x: Any, n: Any) -> Any:
    return while_loop(lambda s: gt(s[1], 0), lambda s: (mul(s[0], sin(x)), add(s[1], -1)), (x, n))


FLAGS = [Operand((), "bool", values=value) for value in (False, True)]


def solved(d: Any, b: Any, c: Any) -> Any:
    def solve(_: Any, rhs: Any) -> Any:
        (x, y), d_ = rhs, d
        return (div(x, d_), div(y, mul(d_, d_))), {"positive": gt(x, 0.0)}

    def matvec(x: Any) -> Any:
        return mul(d, x[0]), mul(mul(d, d), x[1])

    (x, y), aux = custom_linear_solve(matvec, (b, c), solve, solve, has_aux=True)
    return [x, y, aux["positive"]]


CASES = [
    Case(
        jit_p,
        called,
        (VECTOR, VECTOR),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    *(
        Case(
            scan_p,
            looped(reverse),
            (VECTOR, VECTOR, ROWS),
            "backwards " if reverse else "",
            differentiable=(0, 1, 2),
            named=((0, 0), (1, 0), (2, 1)),
        )
        for reverse in (False, True)
    ),
    Case(
        scan_p,
        looped(False),
        (VECTOR, VECTOR, ROWS),
        "of named length ",
        differentiable=(1,),
        named=((2, 0),),
    ),
    Case(scan_p, looped(False), (VECTOR, VECTOR, Operand((0, 3))), "of no steps "),
    *(
        Case(
            cond_p,
            chosen,
            (flag, VECTOR, VECTOR),
            f"{flag.values} ",
            differentiable=(1, 2),
            named=((1, 0), (2, 0)),
        )
        for flag in FLAGS
    ),
    Case(
        cond_p,
        switched,
        (Operand((), "int32", 0, 2), VECTOR),
        differentiable=(1,),
        named=((1, 0),),
    ),
    Case(
        while_p,
        repeated,
        (Operand((3,), low=0.5), Operand((3,), low=1.0)),
        differentiable=(0, 1),
        named=((0, 0), (1, 0)),
    ),
    Case(while_p, beside, (VECTOR, Operand((), "int32", 0, 3)), differentiable=(0,)),
    Case(
        linear_solve_p,
        solved,
        (Operand((3,), low=1, high=2), VECTOR, VECTOR),
        differentiable=(0, 1, 2),
        named=((0, 0), (1, 0), (2, 0)),
    ),
]
