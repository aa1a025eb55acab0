"""`custom_root`: a root found by a function of the user's.

The root x of f(x) = 0 moves with the values f closes over as df/dx dx = -df, whatever `solve` does
to find it (the implicit function theorem): the tangent is one linear solve, which the user gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.source import api_boundary
from kiln.base.tree import tree_leaves, tree_structure, tree_unflatten
from kiln.control.bodies import (
    Body,
    arrays_of,
    as_result,
    check_callable,
    interned,
    stage_body,
)
from kiln.control.custom_jvp import custom_jvp
from kiln.control.linear_solve import Solution
from kiln.control.region import avals_of
from kiln.core.absent import Zero, is_zero
from kiln.core.staging import eval_jaxpr
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ops.families import neg
from kiln.ops.shape import filled
from kiln.transforms.jvp import jvp
from kiln.transforms.reverse import linearize


@api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Return `solve(f, initial_guess)`, differentiated as the root x of `f(x) == 0`.

    `tangent_solve(g, y)` solves `g(x) == y` for a linear g; to be pulled back, it has to be linear
    in y, or a `custom_linear_solve`. With `has_aux`, `solve` returns a pair, whose second part has
    no derivative.

    Raises: TypeError for results whose structure is not that of the guess, ValueError for other
        shapes.
    """
    for what, fun in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_callable("custom_root", what, fun)
    guess, tree = arrays_of("custom_root", "initial_guess", initial_guess)
    avals, count = avals_of(guess), len(guess)

    def staged(what: str, fun: Callable[..., Any], user: Callable[..., Any], *args: Any) -> Body:
        body = stage_body("custom_root", fun, tree_structure(args), avals * len(args), user)
        like = "x" if len(args) == 2 else "initial_guess"
        wanted = Solution("custom_root", what, user, like, tree, avals)
        found, types = wanted.of(body, has_aux=has_aux and what == "solve")
        wanted.check_structure(found)
        wanted.check_shapes(types)
        return body

    def linearize_and_solve(x: Any, y: Any) -> Any:
        def equation(*xs: Any) -> list[Any]:
            return eval_jaxpr(residual.jaxpr, (), *residual.consts, *xs)

        def product(v: Any) -> Any:
            leaves, _ = arrays_of("custom_root", "g", v)
            return tree_unflatten(tree, [filled(t) for t in program.push(leaves)])

        _, program = linearize(equation, tree_leaves(x))
        return tangent_solve(product, y)

    residual = staged("f", f, f, initial_guess)
    solved = staged("solve", lambda x: solve(f, x), solve, initial_guess)
    tangent = staged("tangent_solve", linearize_and_solve, tangent_solve, *[initial_guess] * 2)
    bodies = (residual, solved, tangent)
    root = _root(*(interned(body.jaxpr) for body in bodies), count=count)
    outs = root(*(x for body in bodies for x in body.consts), *guess)
    return tree_unflatten(solved.out_tree, map(as_result, outs))


def _root(equation: Jaxpr, solver: Jaxpr, tangent: Jaxpr, *, count: int) -> custom_jvp:
    """Return the function of the programs' constants and the guess that gives the solution.

    It holds the programs alone: what records it outlives the values they were recorded with.
    """
    lengths = [len(equation.invars) - count, len(solver.invars) - count]
    first, second = lengths[0], sum(lengths)

    @custom_jvp
    def root(*xs: Any) -> list[Any]:
        third = len(xs) - count
        return eval_jaxpr(solver, (), *xs[first:second], *xs[third:])

    def moved(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outs = root(*primals)
        consts, x = primals[:first], outs[:count]
        still = [Zero(aval_of(v).tangent()) for v in outs]
        _, residual = jvp(lambda *cs: eval_jaxpr(equation, (), *cs, *x), consts, tangents[:first])
        if all(map(is_zero, residual)) or any(t.aval.dtype == dtypes.float0 for t in still[:count]):
            return outs, still
        rest = primals[second : len(primals) - count]
        y = [neg(filled(t)) for t in residual]
        return outs, [*eval_jaxpr(tangent, (), *rest, *x, *y), *still[count:]]

    root.defjvp(moved, symbolic_zeros=True)
    return root
