"""Minimization of functions of a vector by quasi-Newton methods.

Source: Nocedal and Wright, "Numerical optimization" (2006), algorithms 6.1, 7.4 and 7.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.api.derivatives.grad import value_and_grad
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.loops.loops import fori_loop, while_loop
from kiln.core.array_type import Array
from kiln.numpy.promotion import inexact, lifted
from kiln.ops.elements.conversion import complex
from kiln.scipy.optimize.line_search import line_search

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
METHODS = ("BFGS", LIMITED)
OPTIONS = frozenset(
    ("maxiter", "gtol", "norm", "line_search_maxiter", "maxls", "maxcor")
    # Of the method with limited memory; they have no effect.
    + ("ftol", "maxfun", "maxgrad")
)


class OptimizeResults(NamedTuple):
    """What was found: `x`, the function and its gradient there, and how.

    `status` is 0 if the gradient is small enough, 1 after `maxiter` steps, 5 if no step along the
    direction lowers the function. `hess_inv` is the estimate of the inverse Hessian matrix.

    Example:
        >>> def f(x):
        ...     return jnp.sum((x - 1) ** 2)
        >>> found = kiln.scipy.optimize.minimize(f, jnp.zeros(2), method="BFGS")
        >>> found.success, found.x.round(3)
        (Array(True, dtype=bool), Array([1., 1.], dtype=float32))
    """

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    memory: Any
    status: Any
    evaluations: Any
    iterations: Any


def _refused(asked: str, wrong: str, remedy: str, kind: type[Exception] = ValueError) -> Exception:
    return kind(three_lines(f"{asked} at {current_source()}", wrong, remedy))


def minimize(
    fun: Callable[..., Any],
    x0: Array,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Minimize a function of a vector and `args` from `x0`.

    The function is differentiated by `grad`; there is no `jac`. All of it runs inside `jit`.

    `method` is "BFGS", or the one with limited memory named in `METHODS`. `tol` is the largest
    entry of the gradient to stop at (1e-5). `options`: `maxiter`, `gtol`, `norm` (of the gradient,
    inf), `line_search_maxiter` (10), and `maxcor` (10), the steps that are remembered.

    A real function of complex numbers is minimized over their real and imaginary parts, of which
    `hess_inv` then is.

    Raises: ValueError for another method or option, TypeError for args that are not a tuple, or an
        x0 that is not a vector.
    Example:
        >>> def rosenbrock(x):
        ...     return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        >>> kiln.scipy.optimize.minimize(rosenbrock, jnp.zeros(2), method="BFGS").x.round(2)
        Array([1., 1.], dtype=float32)
    """
    if not isinstance(args, tuple):
        raise _refused(
            f"minimize with args={args!r:.40}",
            f"args argument to minimize must be a tuple, got {args!r:.60}",
            "write args=(a,)",
            TypeError,
        )
    if method not in METHODS and str(method).lower() != "bfgs":
        raise _refused(
            f"minimize with method={method!r}", f"Method {method} not recognized", 'use "BFGS"'
        )
    x = lifted(inexact("minimize", jnp.asarray(x0)))
    if x.ndim != 1:
        raise _refused(
            f"minimize from {x.aval}",
            f"x0 must be a vector, got shape {tuple(x.shape)}",
            "flatten it with kiln.flatten_util.ravel_pytree",
            TypeError,
        )
    if jnp.iscomplexobj(x):
        return _of_parts(fun, x, args, method, tol, options)
    found = dict(options or {})
    if set(found) - OPTIONS:
        raise _refused(
            f"minimize with options {sorted(found)}",
            f"options {sorted(set(found) - OPTIONS)} are not known",
            f"use some of {', '.join(sorted(OPTIONS))}",
        )
    limited = method == LIMITED
    gtol = found.get("gtol", 1e-5) if tol is None else tol
    searches = found.get("maxls", found.get("line_search_maxiter", 10))
    most = found.get("maxiter")
    most = 200 * x.shape[0] if most is None else most
    kept = min(int(found.get("maxcor", 10)), max(int(most), 1))
    evaluate = value_and_grad(lambda x: fun(x, *args))
    value, gradient = evaluate(x)
    memory = _empty_memory(x, kept) if limited else jnp.eye(x.shape[0], dtype=x.dtype)
    towards, learn = (_two_loops, _remembered) if limited else (_by_matrix, _updated)

    def size(gradient: Any) -> Any:
        return jnp.linalg.norm(gradient, ord=found.get("norm", np.inf))

    def more(state: _State) -> Any:
        return (state.status < 0) & (state.iterations < most)

    def step(state: _State) -> _State:
        direction = -towards(state.memory, state.gradient)
        # A direction that does not descend comes from rounding: fall back on the gradient.
        descends = jnp.vdot(direction, state.gradient) < 0
        direction = jnp.where(descends, direction, -state.gradient)
        length = jnp.linalg.norm(state.gradient)
        steep = 1 / jnp.maximum(length, 1)
        first = jnp.where((state.iterations == 0) | ~descends, steep, 1).astype(x.dtype)
        best, fine, count = line_search(
            evaluate, state.x, direction, state.value, state.gradient, first, searches
        )
        moved = best.step * direction
        memory = learn(state.memory, moved, best.gradient - state.gradient, state.iterations)
        done = size(best.gradient) < gtol
        status = jnp.where(done, 0, jnp.where(fine, -1, 5))
        return _State(
            state.x + moved,
            best.value,
            best.gradient,
            memory,
            status,
            state.evaluations + count,
            state.iterations + 1,
        )

    one, zero = jnp.asarray(1), jnp.asarray(0)
    begun = jnp.where(size(gradient) < gtol, 0, -1)
    end = while_loop(more, step, _State(x, value, gradient, memory, begun, one, zero))
    status = jnp.where(end.status < 0, 1, end.status)
    return OptimizeResults(
        x=end.x,
        success=status == 0,
        status=status,
        fun=end.value,
        jac=end.gradient,
        hess_inv=None if limited else end.memory,
        nfev=end.evaluations,
        njev=end.evaluations,
        nit=end.iterations,
    )


def _of_parts(fun: Any, x: Any, args: Any, method: str, tol: Any, options: Any) -> OptimizeResults:
    """Minimize a real function of complex numbers over their real and imaginary parts."""

    def joined(parts: Any) -> Any:
        return complex(*jnp.split(parts, 2))

    start = jnp.concatenate([x.real, x.imag])
    end = minimize(
        lambda parts, *args: fun(joined(parts), *args),
        start,
        args,
        method=method,
        tol=tol,
        options=options,
    )
    # The gradient of a real function is the conjugate of the direction of steepest ascent.
    return end._replace(x=joined(end.x), jac=jnp.conj(joined(end.jac)))


def _by_matrix(inverse: Any, gradient: Any) -> Any:
    return jnp.matmul(inverse, gradient, precision="highest")


def _updated(inverse: Any, s: Any, y: Any, iteration: Any) -> Any:
    """Return the inverse Hessian after a step `s` that changed the gradient by `y`."""
    product = jnp.vdot(s, y)
    curved = product > 0
    rho = 1 / jnp.where(curved, product, 1)
    left = jnp.eye(s.shape[0], dtype=s.dtype) - rho * jnp.outer(s, y)
    inner = jnp.matmul(left, inverse, precision="highest")
    after = jnp.matmul(inner, left.T, precision="highest") + rho * jnp.outer(s, s)
    return jnp.where(curved, after, inverse)


def _empty_memory(x: Any, count: int) -> Any:
    rows = jnp.zeros((count, x.shape[0]), x.dtype)
    return rows, rows, jnp.zeros(count, x.dtype), jnp.ones((), x.dtype)


def _remembered(memory: Any, s: Any, y: Any, iteration: Any) -> Any:
    steps, changes, rhos, _ = memory
    product = jnp.vdot(s, y)
    curved = product > 0
    rho = 1 / jnp.where(curved, product, 1)
    scale = product / jnp.where(curved, jnp.vdot(y, y), 1)
    after = (
        jnp.roll(steps, -1, 0).at[-1].set(s),
        jnp.roll(changes, -1, 0).at[-1].set(y),
        jnp.roll(rhos, -1).at[-1].set(rho),
        scale,
    )
    return tuple(jnp.where(curved, a, b) for a, b in zip(after, memory, strict=True))


def _two_loops(memory: Any, gradient: Any) -> Any:
    """Return the product of the remembered inverse Hessian with a vector."""
    steps, changes, rhos, gamma = memory
    count = rhos.shape[0]

    def down(i: Any, carry: Any) -> Any:
        q, alphas = carry
        k = count - 1 - i
        alpha = rhos[k] * jnp.vdot(steps[k], q)
        return q - alpha * changes[k], alphas.at[k].set(alpha)

    q, alphas = fori_loop(0, count, down, (gradient, jnp.zeros_like(rhos)))

    def up(k: Any, r: Any) -> Any:
        beta = rhos[k] * jnp.vdot(changes[k], r)
        return r + steps[k] * (alphas[k] - beta)

    return fori_loop(0, count, up, gamma * q)
