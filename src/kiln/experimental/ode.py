"""Ordinary differential equations, by a Runge-Kutta method with adaptive steps.

Sources: Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980); Shampine, "Some
practical Runge-Kutta formulas" (1986) for the value in the middle of a step; Hairer, Nørsett and
Wanner, "Solving ordinary differential equations I", II.4 for step sizes; Chen et al., "Neural
ordinary differential equations" (2018) for reverse-mode derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.api.derivatives.linear import vjp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_leaves, tree_map
from kiln.control.custom_rules.closure import closure_convert
from kiln.control.custom_rules.vjp import custom_vjp
from kiln.control.loops.loops import scan, while_loop
from kiln.flatten_util import ravel_pytree

__all__ = ["odeint"]

_TIMES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_WEIGHTS = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (
    35 / 384 - 5179 / 57600,
    0.0,
    500 / 1113 - 7571 / 16695,
    125 / 192 - 393 / 640,
    -2187 / 6784 + 92097 / 339200,
    11 / 84 - 187 / 2100,
    -1 / 40,
)
_MIDDLE = (
    6025192743 / 30085553152 / 2,
    0.0,
    51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2,
    11237099 / 235043384 / 2,
)
_SAFETY, _SHRINK, _GROW, _ORDER = 0.9, 0.2, 10.0, 5


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """Solve dy/dt = func(y, t, *args) from y0 at t[0]; return y at the ascending times `t`.

    `y0` and `args` are pytrees of arrays. The error of a step is below atol + rtol * |y|. Between
    two times there are at most `mxstep` steps, of at most `hmax`. Reverse-mode derivatives with
    respect to y0, t, args and values that `func` closes over integrate the adjoint equation
    backwards.

    Shapes: each leaf gets a leading axis of len(t).
    Raises: TypeError for times or arguments that are not arrays.
    Example:
        >>> odeint(lambda y, t: -y, 1.0, jnp.array([0.0, 1.0]), rtol=1e-6)
        Array([1.        , 0.36787942], dtype=float32)
    """
    for leaf in tree_leaves((y0, t, args)):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, (bool, int, float, complex)):
            raise TypeError(
                three_lines(
                    f"odeint with an argument of type {type(leaf).__name__} at {current_source()}",
                    f"The contents of odeint's y0, t and args must be arrays or scalars, but got "
                    f"{leaf!r:.40}.",
                    "close over other values in func",
                )
            )
    y0 = tree_map(_inexact, y0)
    t = _inexact(t)
    converted, consts = closure_convert(func, y0, t[0], *args)
    start, unravel = ravel_pytree(y0)

    def flat(y: Any, time: Any, *rest: Any) -> Any:
        return ravel_pytree(converted(unravel(y), time, *rest))[0].astype(y.dtype)

    real = start.real.dtype
    options = (rtol, atol, mxstep, hmax)
    found = _solve(flat, options, start, t.astype(real), *args, *consts)
    return _each_row(unravel, found, y0)


def _inexact(x: Any) -> Any:
    found = jnp.asarray(x)
    if dtypes.issubdtype(found.dtype, np.inexact):
        return found
    return found.astype(dtypes.default_float_dtype())


def _each_row(unravel: Any, rows: Any, like: Any) -> Any:
    count = rows.shape[0]
    sizes = [int(np.prod(leaf.shape)) for leaf in tree_leaves(like)]
    parts = iter(jnp.split(rows, np.cumsum(sizes)[:-1], axis=1))
    return tree_map(lambda x: next(parts).reshape((count, *x.shape)).astype(x.dtype), like)


def _combined(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    parts = [w * k for w, k in zip(weights, slopes, strict=False) if w]
    return sum(parts[1:], parts[0])


def _stepped(fun: Any, y: Any, slope: Any, t: Any, dt: Any) -> tuple[Any, Any, Any, Any]:
    """Return y and its slope after a step, an error estimate, and y at the midpoint."""
    slopes = [slope]
    for time, weights in zip(_TIMES[1:], _WEIGHTS, strict=True):
        value = y + dt * _combined(weights, slopes)
        slopes.append(fun(value, t + time * dt))
    # The last stage is at the result: its slope is the first one of the next step (FSAL).
    middle = y + dt * _combined(_MIDDLE, slopes)
    return value, slopes[-1], dt * _combined(_ERROR, slopes), middle


def _quartic(y0: Any, y1: Any, middle: Any, f0: Any, f1: Any, dt: Any) -> tuple[Any, ...]:
    """Return the polynomial in [0, 1] with these values and slopes, highest power first."""
    a = 2 * dt * (f1 - f0) - 8 * (y1 + y0) + 16 * middle
    b = dt * (5 * f0 - 3 * f1) + 18 * y0 + 14 * y1 - 32 * middle
    c = dt * (f1 - 4 * f0) - 11 * y0 - 5 * y1 + 16 * middle
    return a, b, c, dt * f0, y0


def _mean_square(x: Any) -> Any:
    return jnp.sqrt(jnp.mean(jnp.abs(x) ** 2))


def _first_step(fun: Any, t: Any, y: Any, slope: Any, rtol: float, atol: float) -> Any:
    scale = atol + jnp.abs(y) * rtol
    d0, d1 = _mean_square(y / scale), _mean_square(slope / scale)
    tiny = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = jnp.where(tiny, 1e-6, 0.01 * d0 / jnp.where(tiny, 1, d1))
    d2 = _mean_square((fun(y + h0 * slope, t + h0) - slope) / scale) / h0
    most = jnp.maximum(d1, d2)
    still = most <= 1e-15
    h1 = (0.01 / jnp.where(still, 1, most)) ** (1 / _ORDER)
    return jnp.minimum(100 * h0, jnp.where(still, jnp.maximum(1e-6, h0 * 1e-3), h1))


def _solve(fun: Any, options: Any, y0: Any, ts: Any, *args: Any) -> Any:
    # Its rules call it recursively, so that higher derivatives are solutions, too.
    solve = custom_vjp(_stepwise, nondiff_argnums=(0, 1))
    solve.defvjp(_forward, _backward)
    return solve(fun, options, y0, ts, *args)


def _stepwise(fun: Any, options: Any, y0: Any, ts: Any, *args: Any) -> Any:
    rtol, atol, mxstep, hmax = options

    def slope_at(y: Any, t: Any) -> Any:
        return fun(y, t, *args)

    def reach(carry: Any, target: Any) -> Any:
        def more(state: Any) -> Any:
            count, _, _, t, dt, _, _ = state
            return (t < target) & (count < mxstep) & (dt > 0)

        def step(state: Any) -> Any:
            count, y, slope, t, dt, last, curve = state
            after, after_slope, error, middle = _stepped(slope_at, y, slope, t, dt)
            allowed = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(after))
            ratio = _mean_square(error / allowed)
            good = ratio <= 1
            change = _SAFETY * jnp.where(ratio == 0, 1, ratio) ** (-1 / _ORDER)
            change = jnp.clip(change, jnp.where(good, 1, _SHRINK), _GROW)
            change = jnp.where(ratio == 0, _GROW, change)
            # A step into a region where the function is not finite was too large.
            change = jnp.where(jnp.isfinite(ratio), change, _SHRINK)
            found = _quartic(y, after, middle, slope, after_slope, dt)
            accepted = (after, after_slope, t + dt, t, found)
            kept = (y, slope, t, last, curve)
            y, slope, t, last, curve = tree_map(lambda a, b: jnp.where(good, a, b), accepted, kept)
            next_dt = jnp.clip(dt * change, 0, hmax).astype(dt.dtype)
            return count + 1, y, slope, t, next_dt, last, curve

        y, slope, t, dt, last, curve = carry
        state = (jnp.zeros(()), y, slope, t, dt, last, curve)
        _, *carry = while_loop(more, step, state)
        _, _, t, _, last, curve = carry
        part = (target - last) / jnp.where(t == last, 1, t - last)
        value = curve[0]
        for c in curve[1:]:
            value = value * part + c
        return tuple(carry), value

    slope = slope_at(y0, ts[0])
    first = _first_step(slope_at, ts[0], y0, slope, rtol, atol)
    dt = jnp.clip(first, 0, hmax).astype(ts.dtype)
    zero = jnp.zeros_like(y0)
    carry = (y0, slope, ts[0], dt, ts[0], (zero, zero, zero, zero, y0))
    _, rows = scan(reach, carry, ts[1:])
    return jnp.concatenate([y0[None], rows])


def _forward(fun: Any, options: Any, y0: Any, ts: Any, *args: Any) -> Any:
    rows = _solve(fun, options, y0, ts, *args)
    return rows, (rows, ts, args)


def _backward(fun: Any, options: Any, residuals: Any, cotangents: Any) -> Any:
    rows, ts, args = residuals
    leaves = [jnp.asarray(x) for x in tree_leaves(args)]
    movable = [dtypes.issubdtype(x.dtype, np.inexact) for x in leaves]

    def with_floats(floats: Sequence[Any]) -> Any:
        rest = iter(floats)
        replaced = iter([next(rest) if f else x for f, x in zip(movable, leaves, strict=True)])
        return tree_map(lambda _: next(replaced), args)

    floats = [x for f, x in zip(movable, leaves, strict=True) if f]

    def slope_at(y: Any, t: Any, floats: Any) -> Any:
        return fun(y, t, *with_floats(floats))

    def adjoint(state: Any, back: Any, *floats: Any) -> Any:
        # Times run backwards, as -t.
        y, y_bar, _, _ = state
        value, pull = vjp(slope_at, y, -back, list(floats))
        by_y, by_t, by_floats = pull(y_bar)
        return -value, by_y, by_t, by_floats

    def interval(carry: Any, i: Any) -> Any:
        y_bar, t0_bar, float_bars = carry
        t_bar = jnp.sum(slope_at(rows[i], ts[i], floats) * cotangents[i]).real.astype(ts.dtype)
        state = (rows[i], y_bar, t0_bar - t_bar, float_bars)
        start, unravel = ravel_pytree(state)

        def flat(y: Any, t: Any, *floats: Any) -> Any:
            return ravel_pytree(adjoint(unravel(y), t, *floats))[0]

        both = jnp.stack([-ts[i], -ts[i - 1]])
        found = unravel(_solve(flat, options, start, both, *floats)[1])
        _, y_bar, t0_bar, float_bars = found
        return (y_bar + cotangents[i - 1], t0_bar, float_bars), t_bar

    zeros = [jnp.zeros_like(x) for x in floats]
    start = (cotangents[-1], jnp.zeros((), ts.dtype), zeros)
    indices = jnp.arange(ts.shape[0] - 1, 0, -1)
    (y_bar, t0_bar, float_bars), t_bars = scan(interval, start, indices)
    t_bars = jnp.concatenate([t0_bar[None], jnp.flip(t_bars)])
    found = iter(float_bars)
    bars = iter([next(found) if f else None for f in movable])
    structure = [next(bars) for _ in movable]
    rest = iter(structure)
    return y_bar, t_bars, *tree_map(lambda _: next(rest), args)
