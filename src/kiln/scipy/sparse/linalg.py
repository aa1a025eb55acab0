"""Iterative solvers of linear systems, on pytrees of arrays.

Derivatives are those of the solution, not of the iterations. Sources: Saad, "Iterative methods for
sparse linear systems" (2003), algorithms 9.1, 7.7 and 6.9.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.base.tree import Partial, tree_flatten, tree_leaves, tree_map, tree_structure
from kiln.control.custom_rules.linear_solve import custom_linear_solve
from kiln.control.loops.loops import fori_loop, while_loop
from kiln.numpy.linalg import lstsq
from kiln.numpy.promotion import promote_dtypes_inexact

__all__ = ["bicgstab", "cg", "gmres"]

SOLVE_METHODS = ("batched", "incremental")


def _refused(name: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(three_lines(f"{name} at {current_source()}", wrong, remedy))


def _dot(x: Any, y: Any) -> Any:
    parts = tree_map(lambda a, b: jnp.vdot(a, b, precision="highest"), x, y)
    return functools.reduce(operator.add, tree_leaves(parts))


def _square(x: Any) -> Any:
    return _dot(x, x).real


def _norm(x: Any) -> Any:
    return jnp.sqrt(_square(x))


def _add(x: Any, y: Any, factor: Any = 1) -> Any:
    """Return x + factor y."""
    return tree_map(lambda a, b: a + (factor * b).astype(a.dtype), x, y)


def _scale(x: Any, factor: Any) -> Any:
    return tree_map(lambda a: (factor * a).astype(a.dtype), x)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return tree_map(lambda a, b: jnp.where(condition, a, b), x, y)


def _as_function(name: str, A: Any) -> Callable[[Any], Any]:
    """Return a function that multiplies by a matrix, or by what defines `@`, or is one already.

    Raises: TypeError for anything else, ValueError for a matrix that is not square.
    """
    if callable(A):
        return A
    if not hasattr(A, "ndim") and not hasattr(A, "shape"):
        raise _refused(
            name,
            f"linear operator must be either a function or ndarray: {type(A)}",
            "pass lambda x: A @ x",
            TypeError,
        )
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise _refused(
            name,
            f"linear operator must be a square matrix, but has shape: {A.shape}",
            "pass a matrix of shape (n, n)",
        )
    # A user-defined operator is neither an array nor an operand of a program.
    return Partial(jnp.matmul, A) if hasattr(A, "ndim") else lambda x: A @ x


def _identity(x: Any) -> Any:
    return x


Solver = Callable[[Any, Any, Any, Any], Any]
"""solver(multiply, b, x0, precondition) returns an approximate solution."""


def _solved(name: str, A: Any, b: Any, x0: Any, M: Any, solver: Solver, symmetric: bool) -> Any:
    """Check operands, and solve so that derivatives are those of the solution."""
    multiply = _as_function(name, A)
    precondition = _identity if M is None else _as_function(name, M)
    b = tree_map(jnp.asarray, b)
    x0 = tree_map(jnp.zeros_like, b) if x0 is None else tree_map(jnp.asarray, x0)
    if tree_structure(x0) != tree_structure(b):
        raise _refused(
            name,
            "x0 and b must have matching tree structure: "
            f"{tree_structure(x0)} vs {tree_structure(b)}",
            "leave x0 out",
        )
    for start, right in zip(tree_leaves(x0), tree_leaves(b), strict=True):
        if start.shape != right.shape:
            raise _refused(
                name,
                f"arrays in x0 and b must have matching shapes: {start.shape} vs {right.shape}",
                "leave x0 out",
            )
    leaves, tree = tree_flatten((b, x0))
    b, x0 = tree.unflatten(promote_dtypes_inexact(*leaves))
    # A complex matrix makes complex solutions of real sides.
    product = multiply(x0)
    dtype = jnp.result_type(*tree_leaves(product), *tree_leaves(b))
    b, x0 = (tree_map(lambda x: x.astype(dtype), tree_) for tree_ in (b, x0))

    def solve(multiply: Any, right: Any) -> Any:
        return solver(multiply, right, x0, precondition)

    def transposed(multiply: Any, right: Any) -> Any:
        return solver(multiply, right, tree_map(jnp.zeros_like, right), precondition)

    return custom_linear_solve(
        multiply, b, solve=solve, transpose_solve=transposed, symmetric=symmetric
    )


def _most(b: Any, maxiter: int | None) -> int:
    # Rounding may need more steps than there are unknowns.
    return 10 * sum(x.size for x in tree_leaves(b)) if maxiter is None else int(maxiter)


def _target(b: Any, tol: Any, atol: Any) -> Any:
    """Return the square of the norm of the residual at which to stop."""
    return jnp.maximum(jnp.square(tol) * _square(b), jnp.square(atol))


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b for a Hermitian positive definite A by conjugate gradients.

    `A` and the preconditioner `M`, an approximate inverse, are matrices or functions of pytrees
    like `b`. Stops when the norm of the residual is at most max(tol * norm(b), atol).

    Returns the solution and None.
    Raises: TypeError or ValueError for operands that do not fit each other.
    Example:
        >>> a, b = jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 2.0])
        >>> kiln.scipy.sparse.linalg.cg(lambda x: a @ x, b)[0].round(4)
        Array([0.0909, 0.6364], dtype=float32)
    """

    def solver(multiply: Any, b: Any, x0: Any, precondition: Any) -> Any:
        target, most = _target(b, tol, atol), _most(b, maxiter)

        def more(carry: Any) -> Any:
            _, r, gamma, _, k = carry
            square = gamma.real if M is None else _square(r)
            return (square > target) & (k < most)

        def step(carry: Any) -> Any:
            x, r, gamma, p, k = carry
            product = multiply(p)
            alpha = gamma / _dot(p, product).astype(gamma.dtype)
            x, r = _add(x, p, alpha), _add(r, product, -alpha)
            z = precondition(r)
            after = _dot(r, z).astype(gamma.dtype)
            return x, r, after, _add(z, p, after / gamma), k + 1

        r = _add(b, multiply(x0), -1)
        z = precondition(r)
        return while_loop(more, step, (x0, r, _dot(r, z), z, 0))[0]

    return _solved("cg", A, b, x0, M, solver, True), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by stabilized biconjugate gradients; see `cg` for the arguments.

    Returns the solution and None.
    Raises: TypeError or ValueError for operands that do not fit each other.
    Example:
        >>> a, b = jnp.array([[4.0, 1.0], [2.0, 3.0]]), jnp.array([1.0, 2.0])
        >>> kiln.scipy.sparse.linalg.bicgstab(a, b)[0].round(4)
        Array([0.1, 0.6], dtype=float32)
    """

    def solver(multiply: Any, b: Any, x0: Any, precondition: Any) -> Any:
        target, most = _target(b, tol, atol), _most(b, maxiter)

        def more(carry: Any) -> Any:
            _, r, _, _, _, _, _, k = carry
            return (_square(r) > target) & (k < most) & (k >= 0)

        def step(carry: Any) -> Any:
            x, r, alpha, omega, rho, p, q, k = carry
            rho_after = _dot(shadow, r)
            beta = rho_after / rho * alpha / omega
            p = _add(r, _add(p, q, -omega), beta)
            p_hat = precondition(p)
            q = multiply(p_hat)
            alpha = (rho_after / _dot(shadow, q)).astype(rho.dtype)
            s = _add(r, q, -alpha)
            early = _square(s) < target
            s_hat = precondition(s)
            t = multiply(s_hat)
            omega = (_dot(t, s) / _dot(t, t)).astype(rho.dtype)
            half = _add(x, p_hat, alpha)
            x = _where(early, half, _add(half, s_hat, omega))
            r = _where(early, s, _add(s, t, -omega))
            stuck = (omega == 0) | (alpha == 0) | (rho_after == 0)
            return (
                x,
                r,
                alpha,
                omega,
                rho_after.astype(rho.dtype),
                p,
                q,
                jnp.where(stuck, -1, k + 1),
            )

        shadow = _add(b, multiply(x0), -1)
        one = jnp.ones((), tree_leaves(b)[0].dtype)
        zero = tree_map(jnp.zeros_like, shadow)
        start = (x0, shadow, one, one, one, zero, zero, jnp.asarray(0))
        return while_loop(more, step, start)[0]

    return _solved("bicgstab", A, b, x0, M, solver, False), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """Solve A x = b by generalized minimal residuals, restarted after `restart` steps.

    See `cg` for the arguments; `maxiter` counts restarts. The steps between two restarts are
    solved for at once, whatever the `solve_method`, "batched" or "incremental".

    Returns the solution, and 0, or 1 if it is not finite.
    Raises: TypeError or ValueError for operands that do not fit each other, or another method.
    Example:
        >>> a, b = jnp.array([[4.0, 1.0], [2.0, 3.0]]), jnp.array([1.0, 2.0])
        >>> kiln.scipy.sparse.linalg.gmres(a, b)[0].round(4)
        Array([0.1, 0.6], dtype=float32)
    """
    if solve_method not in SOLVE_METHODS:
        raise _refused(
            f"gmres with solve_method={solve_method!r}",
            f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'",
            "leave solve_method out",
        )

    def solver(multiply: Any, b: Any, x0: Any, precondition: Any) -> Any:
        size = sum(x.size for x in tree_leaves(b))
        steps, most = min(int(restart), size), _most(b, maxiter)
        # Convergence is that of the preconditioned residual.
        target = jnp.maximum(tol * _norm(precondition(b)), atol)

        def residual(x: Any) -> Any:
            return precondition(_add(b, multiply(x), -1))

        def more(carry: Any) -> Any:
            _, _, norm, k = carry
            return (norm > target) & (k < most)

        def cycle(carry: Any) -> Any:
            x, r, norm, k = carry
            x = _add(x, _minimal_step(multiply, precondition, r, norm, steps))
            r = residual(x)
            return x, r, _norm(r), k + 1

        r = residual(x0)
        return while_loop(more, cycle, (x0, r, _norm(r), 0))[0]

    x = _solved("gmres", A, b, x0, M, solver, False)
    bad = functools.reduce(operator.or_, [jnp.any(~jnp.isfinite(v)) for v in tree_leaves(x)])
    return x, jnp.where(bad, 1, 0)


def _minimal_step(multiply: Any, precondition: Any, r: Any, norm: Any, steps: int) -> Any:
    """Return what of the Krylov space of r, added to x, makes the residual least."""
    leaves, tree = tree_flatten(r)
    shapes = [x.shape for x in leaves]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    dtype = leaves[0].dtype
    eps = float(dtypes.finfo(dtype).eps)

    def flat(x: Any) -> Any:
        return jnp.concatenate([v.ravel() for v in tree_leaves(x)])

    def unflat(v: Any) -> Any:
        parts = jnp.split(v, ends)
        return tree.unflatten([p.reshape(s) for p, s in zip(parts, shapes, strict=True)])

    first = flat(r) / jnp.where(norm > 0, norm, 1).astype(dtype)
    basis = jnp.zeros((first.shape[0], steps + 1), dtype).at[:, 0].set(first)

    def arnoldi(k: Any, carry: Any) -> Any:
        basis, hessenberg = carry
        v = flat(precondition(multiply(unflat(basis[:, k]))))
        size = jnp.sqrt(jnp.sum(jnp.abs(v) ** 2))
        column = jnp.zeros(steps + 1, dtype)
        # Twice is enough to be orthogonal (Kahan and Parlett).
        for _ in range(2):
            parts = jnp.matmul(jnp.conj(basis.T), v, precision="highest")
            v = v - jnp.matmul(basis, parts, precision="highest")
            column = column + parts
        rest = jnp.sqrt(jnp.sum(jnp.abs(v) ** 2))
        # The space is exhausted: what remains is rounding.
        ended = rest <= 10 * eps * size
        v = jnp.where(ended, 0, v / jnp.where(ended, 1, rest).astype(dtype))
        column = column.at[k + 1].set(jnp.where(ended, 0, rest).astype(dtype))
        return basis.at[:, k + 1].set(v), hessenberg.at[:, k].set(column)

    hessenberg = jnp.zeros((steps + 1, steps), dtype)
    basis, hessenberg = fori_loop(0, steps, arnoldi, (basis, hessenberg))
    right = jnp.zeros(steps + 1, dtype).at[0].set(norm.astype(dtype))
    weights = lstsq(hessenberg, right, rcond=eps)[0]
    return unflat(jnp.matmul(basis[:, :steps], weights, precision="highest"))


_suggest_names(globals())
