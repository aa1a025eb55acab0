"""`custom_linear_solve`: a linear system solved by a user function.

The solution x of A x = b satisfies A dx = db - dA x, whichever way `solve` finds it: the tangent is
one more solve, with `matvec` for dA x. In reverse mode, the transposed system is solved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import api_boundary, current_source, definition_of
from kiln.base.tree import PyTreeDef, tree_structure, tree_unflatten
from kiln.control.regions.bodies import (
    Body,
    arrays_of,
    check_callable,
    converted,
    interned,
    stage_body,
)
from kiln.control.regions.region import Extend, Region, avals_of, select_by
from kiln.core.absent import Zero, is_linear, is_zero
from kiln.core.meaning import meaning
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import sub
from kiln.ops.elements.families import neg
from kiln.ops.shape import filled, mapped_at, zeros_of
from kiln.transforms.batching import MappedAxis, batch_jaxpr
from kiln.transforms.jvp import jvp_jaxpr
from kiln.transforms.reverse import linearize


class SolveTuple(NamedTuple):
    """One value for each of the four programs."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transposed(self) -> SolveTuple:
        """Return the tuple of the transposed system."""
        return SolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


class LinearSolve(Region):
    """Solve a system: constants of the four programs, then b -> x, then auxiliary results.

    `jaxprs.matvec` maps x to b; `vecmat` and `transpose_solve` are None if there is no reverse
    mode.
    """

    name = "custom_linear_solve"

    def infer(self, *xs: Any, const_lengths: SolveTuple, jaxprs: SolveTuple) -> list[ShapedArray]:
        return jaxprs.solve.out_avals

    def numpy(self, *xs: Any, const_lengths: SolveTuple, jaxprs: SolveTuple) -> Any:
        consts, b = _cut(xs, const_lengths)
        return meaning(jaxprs.solve, [*consts.solve, *b])

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        const_lengths: SolveTuple,
        jaxprs: SolveTuple,
    ) -> Any:
        params = {"const_lengths": const_lengths, "jaxprs": jaxprs}
        consts, b = _cut(primals, const_lengths)
        dconsts, db = _cut(tangents, const_lengths)
        outs = self.bind(*primals, **params)
        x, count = outs[: len(b)], len(b)
        moves = [aval_of(v).tangent() for v in outs]
        rhs = list(db)
        moving = [not is_zero(t) for t in dconsts.matvec]
        if any(moving):
            both, there = jvp_jaxpr(jaxprs.matvec, [*moving, *[False] * count])
            placed = [converted(v, aval_of(w)) for v, w in zip(x, b, strict=True)]
            moved = eval_jaxpr(
                both, (), *consts.matvec, *placed, *select_by(moving, dconsts.matvec)
            )
            rhs = _difference(rhs, there, moved[count:])
        if all(map(is_zero, rhs)):
            return outs, [Zero(a) for a in moves]
        given = [
            zeros_of(aval_of(v)) if r.aval.dtype == dtypes.float0 else filled(r)
            for v, r in zip(b, rhs, strict=True)
        ]
        dx = self.bind(*primals[: len(primals) - count], *given, **params)
        still = [False] * count + [True] * (len(outs) - count)
        return outs, [
            Zero(a) if s or a.dtype == dtypes.float0 else t
            for a, s, t in zip(moves, still, dx, strict=True)
        ]

    def transpose(
        self, cts: Sequence[Any], *xs: Any, const_lengths: SolveTuple, jaxprs: SolveTuple
    ) -> Any:
        if jaxprs.transpose_solve is None:
            raise TypeError(
                three_lines(
                    f"reverse derivative of custom_linear_solve at {current_source()}",
                    "transpose_solve required for backwards mode automatic differentiation of "
                    "custom_linear_solve",
                    "pass transpose_solve, or symmetric=True; or use forward mode",
                )
            )
        consts, b = _cut(xs, const_lengths)
        count = len(b)
        outs = self.bind(
            *(x for part in consts.transposed() for x in part),
            *map(filled, cts[:count]),
            const_lengths=const_lengths.transposed(),
            jaxprs=jaxprs.transposed(),
        )
        pulled = [ct if is_linear(v) else None for v, ct in zip(b, outs[:count], strict=True)]
        return [*[None] * (len(xs) - count), *pulled]

    def batch_over(
        self,
        axis: MappedAxis,
        xs: Sequence[Any],
        axes: Sequence[Any],
        /,
        *,
        const_lengths: SolveTuple,
        jaxprs: SolveTuple,
    ) -> Any:
        at, at_b = _cut(axes, const_lengths)
        count = len(at_b)

        def over(jaxpr: Jaxpr | None, places: Sequence[int | None]) -> tuple[Any, list[bool]]:
            if jaxpr is None:
                return None, []
            # All of x and b become stacks: any part of one may depend on any part of the other.
            force = [True] * count + [False] * (len(jaxpr.outvars) - count)
            return batch_jaxpr(jaxpr, axis, [*places, *[0] * count], force)

        stacked = SolveTuple(*map(over, jaxprs, at))
        first = len(xs) - count
        b = [mapped_at(x, axis.size, a, 0) for x, a in zip(xs[first:], at_b, strict=True)]
        outs = self.bind(
            *(*xs[:first], *b),
            const_lengths=const_lengths,
            jaxprs=SolveTuple(*(jaxpr for jaxpr, _ in stacked)),
        )
        return outs, [0 if m else None for m in stacked.solve[1]]

    def thread_state(
        self,
        extend: Extend,
        state: Sequence[Any],
        xs: Sequence[Any],
        *,
        const_lengths: SolveTuple,
        jaxprs: SolveTuple,
    ) -> Any:
        """Solve with the extended program: the state is one of its constants and auxiliaries."""
        consts, b = _cut(xs, const_lengths)
        count = len(state)
        solve = extend(jaxprs.solve)
        given = consts._replace(solve=[*state, *consts.solve])
        outs = self.bind(
            *(*(x for part in given for x in part), *b),
            const_lengths=SolveTuple(*map(len, given)),
            jaxprs=jaxprs._replace(
                solve=solve.with_(outvars=[*solve.outvars[count:], *solve.outvars[:count]])
            ),
        )
        after = len(outs) - count
        return [*outs[after:], *outs[:after]]


def _cut(xs: Sequence[Any], lengths: SolveTuple) -> tuple[SolveTuple, list[Any]]:
    """Return the operands of each program, and the right-hand side."""
    parts, start = [], 0
    for length in lengths:
        parts.append(list(xs[start : start + length]))
        start += length
    return SolveTuple(*parts), list(xs[start:])


def _difference(left: Sequence[Any], there: Sequence[bool], right: Sequence[Any]) -> list[Any]:
    """Subtract the right-hand terms that are `there`."""
    given = iter(right)
    out = []
    for x, t in zip(left, there, strict=True):
        y = next(given) if t else None
        out.append(x if y is None else neg(y) if is_zero(x) else sub(x, y))
    return out


linear_solve_p = LinearSolve()


@api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return `solve(matvec, b)`, differentiated as the solution x of `matvec(x) == b`.

    Reverse mode needs `transpose_solve(vecmat, b)`, or `symmetric`. If `has_aux`, both return a
    pair, whose second part has no derivative.

    Raises: ValueError for results whose shapes differ from b's, TypeError for other structures;
        TypeError in reverse mode if the transposed system cannot be solved.
    Example:
        >>> a, b = jnp.array([[2.0, 0.0], [0.0, 4.0]]), jnp.array([1.0, 2.0])
        >>> def solve(b):
        ...     by_diagonal = lambda matvec, b: b / matvec(jnp.ones(2))
        ...     return lax.custom_linear_solve(lambda x: a @ x, b, by_diagonal, symmetric=True)
        >>> solve(b), kiln.grad(lambda b: solve(b).sum())(b)
        (Array([0.5, 0.5], dtype=float32), Array([0.5 , 0.25], dtype=float32))
    """
    for what, fun in (("matvec", matvec), ("solve", solve)):
        check_callable("custom_linear_solve", what, fun)
    values, tree = arrays_of("custom_linear_solve", "b", b)
    avals = avals_of(values)
    in_tree = tree_structure((b,))

    def staged(what: str, fun: Callable[..., Any], user: Callable[..., Any]) -> Body:
        body = stage_body("custom_linear_solve", fun, in_tree, avals, user)
        wanted = Solution("custom_linear_solve", what, user, "b", tree, avals)
        found, types = wanted.of(body, has_aux=has_aux and what != "matvec")
        wanted.check_shapes(types)
        wanted.check_structure(found)
        return body

    forward = staged("matvec", matvec, matvec)
    solved = staged("solve", lambda rhs: solve(matvec, rhs), solve)
    backward: Body | None = None
    back: Body | None = None
    if symmetric:
        backward, back = forward, solved
    elif transpose_solve is not None:
        check_callable("custom_linear_solve", "transpose_solve", transpose_solve)
        backward = Body(_transposed(forward, avals), forward.consts, tree)
        vecmat = _callable(backward)
        given = transpose_solve
        back = staged("transpose_solve", lambda rhs: given(vecmat, rhs), transpose_solve)
    bodies = SolveTuple(forward, backward, solved, back)
    outs = linear_solve_p.bind(
        *(x for body in bodies if body is not None for x in body.consts),
        *values,
        const_lengths=SolveTuple(*(0 if body is None else len(body.consts) for body in bodies)),
        jaxprs=SolveTuple(*(None if body is None else interned(body.jaxpr) for body in bodies)),
    )
    return tree_unflatten(solved.out_tree, outs)


def _transposed(matvec: Body, avals: Sequence[ShapedArray]) -> Jaxpr:
    """Return the program of the transposed product, with the same constants."""
    count = len(matvec.consts)

    def pull(*args: Any) -> list[Any]:
        def product(*xs: Any) -> list[Any]:
            return eval_jaxpr(matvec.jaxpr, (), *args[:count], *xs)

        _, program = linearize(product, [zeros_of(a) for a in avals])
        return [filled(ct) for ct in program.pull(args[count:])]

    types = [*avals_of(matvec.consts), *matvec.out_avals]
    jaxpr = stage_pure(pull, types, name=matvec.jaxpr.name, purpose="transposition")
    return eliminate_dead_code(jaxpr)[0]


def _callable(body: Body) -> Callable[[Any], Any]:
    def product(x: Any) -> Any:
        values, _ = arrays_of("custom_linear_solve", "vecmat", x)
        return tree_unflatten(body.out_tree, eval_jaxpr(body.jaxpr, (), *body.consts, *values))

    return product


class Solution(NamedTuple):
    """What the result of a user function represents, and must therefore match."""

    construct: str
    what: str
    user: Callable[..., Any]
    like: str
    tree: PyTreeDef
    avals: Sequence[ShapedArray]

    def of(self, body: Body, *, has_aux: bool) -> tuple[PyTreeDef, list[ShapedArray]]:
        """Return the structure and the types of the solution in a recorded function's result.

        Raises: ValueError if it is not a pair although `has_aux` is set.
        """
        found = body.out_tree
        if not has_aux:
            return found, body.out_avals
        parts = found.children()
        if found.is_leaf or len(parts) != 2:
            raise ValueError(
                self._message(
                    f"must return a pair with has_aux=True, got {found}",
                    "return (solution, auxiliary values)",
                )
            )
        return parts[0], body.out_avals[: parts[0].num_leaves]

    def check_shapes(self, avals: Sequence[ShapedArray]) -> None:
        """Raise ValueError for results of other shapes."""
        found, wanted = ([tuple(a.shape) for a in each] for each in (avals, self.avals))
        if found != wanted:
            raise ValueError(
                self._message(
                    f"output shapes must match {self.like}, got {found} and {wanted}",
                    f"return a result of the shapes {wanted}",
                )
            )

    def check_structure(self, found: PyTreeDef) -> None:
        """Raise TypeError for a result of another structure."""
        if found != self.tree:
            raise TypeError(
                self._message(
                    f"output pytree structure must match {self.like}, got {found} and {self.tree}.",
                    f"return a result of the structure {self.tree}",
                )
            )

    def _message(self, wrong: str, remedy: str) -> str:
        asked = f"{self.construct}: the function {definition_of(self.user)}, called at"
        return three_lines(f"{asked} {current_source()}", f"{self.what}() {wrong}", remedy)
