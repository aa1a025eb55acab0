"""`custom_root`: a root found by a user function.

The root x of f(x) = 0 depends on the values f closes over by df/dx dx = -df, whichever way `solve`
finds it (the implicit function theorem): the tangent is one linear solve, which the user provides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.records import Record
from kiln.base.source import api_boundary
from kiln.base.tree import tree_leaves, tree_structure, tree_unflatten
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.control.custom_rules.linear_solve import Solution
from kiln.control.regions.bodies import (
    Body,
    arrays_of,
    as_result,
    check_callable,
    interned,
    stage_body,
)
from kiln.control.regions.region import avals_of
from kiln.core.absent import Zero, is_zero
from kiln.core.staging import eval_jaxpr
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ops.elements.families import neg
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

    No derivative is taken through the iterations, whatever they are: the implicit function theorem
    gives it.

    `tangent_solve(g, y)` solves `g(x) == y` for a linear g; for reverse mode, it must be linear in
    y, or a `custom_linear_solve`. If `has_aux`, `solve` returns a pair, whose second part has no
    derivative.

    Raises: TypeError if a result's structure differs from that of the guess, ValueError if its
        shapes do.
    Example:
        >>> def newton(f, x):
        ...     return lax.fori_loop(0, 20, lambda _, x: x - f(x) / kiln.grad(f)(x), x)
        >>> def root(a):
        ...     return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
        >>> root(4.0), kiln.grad(root)(4.0)
        (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
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
    equation, solver, mover = (interned(body.jaxpr) for body in bodies)
    root = Root(equation, solver, mover, count)
    outs = root.differentiable()(*(x for body in bodies for x in body.consts), *guess)
    return tree_unflatten(solved.out_tree, map(as_result, outs))


class Root(Record):
    """A function: the constants of three programs, and the guess -> the leaves of the solution.

    It holds only the programs: a recorded equation outlives the values they were recorded with, and
    may assign values to their named sizes.
    """

    equation: Jaxpr
    solver: Jaxpr
    tangent: Jaxpr
    count: int
    """The number of leaves of the guess."""

    __name__ = "custom_root"

    def __call__(self, *xs: Any) -> list[Any]:
        """Return the leaves of the result of `solve`."""
        _, consts, _, guess = self.split(xs)
        return eval_jaxpr(self.solver, (), *consts, *guess)

    def split(self, xs: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the constants of each program, and the guess."""
        first = len(self.equation.invars) - self.count
        second = first + len(self.solver.invars) - self.count
        third = len(xs) - self.count
        return [xs[:first], xs[first:second], xs[second:third], xs[third:]]

    def differentiable(self) -> custom_jvp[..., Any]:
        """Return the function with its rule."""
        function = custom_jvp(self)
        function.defjvp(RootRule(self), symbolic_zeros=True)
        return function


class RootRule(Record):
    """The derivative of a root with respect to the values that its equation closes over."""

    root: Root

    __name__ = "custom_root"

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Return the solution and its tangents."""
        root = self.root
        outs = root.differentiable()(*primals)
        x = outs[: root.count]
        still = [Zero(aval_of(v).tangent()) for v in outs]
        consts, _, rest, _ = root.split(primals)
        moved, *_ = root.split(tangents)
        _, residual = jvp(lambda *cs: eval_jaxpr(root.equation, (), *cs, *x), consts, moved)
        fixed = any(t.aval.dtype == dtypes.float0 for t in still[: root.count])
        if fixed or all(map(is_zero, residual)):
            return outs, still
        y = [neg(filled(t)) for t in residual]
        return outs, [*eval_jaxpr(root.tangent, (), *rest, *x, *y), *still[root.count :]]
