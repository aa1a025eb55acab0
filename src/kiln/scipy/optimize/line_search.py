"""A step along a direction that satisfies the strong Wolfe conditions.

Sources: Nocedal and Wright, "Numerical optimization" (2006), algorithms 3.5 and 3.6; Hager and
Zhang, "A new conjugate gradient method with guaranteed descent" (2005), for what is accepted where
the decrease is below rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.named_tuples import NamedTuple
from kiln.control.loops.loops import while_loop

DECREASE = 1e-4
CURVATURE = 0.9


class Point(NamedTuple):
    """A step, with the function's value, slope along the direction, and gradient there."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class Search(NamedTuple):
    """Where a search is: its interval once one is found, and the best point so far."""

    count: Any
    next_step: Any
    bracketed: Any
    done: Any
    low: Point
    high: Point
    best: Point


def _select(condition: Any, x: Point, y: Point) -> Point:
    return Point(*(jnp.where(condition, a, b) for a, b in zip(x, y, strict=True)))


def _between(low: Point, high: Point) -> Any:
    """Return the minimum of the cubic through both ends, or the middle if it is near an end."""
    width = high.step - low.step
    middle = low.step + 0.5 * width
    rise = (high.value - low.value) / jnp.where(width == 0, 1, width)
    d1 = low.slope + high.slope - 3 * rise
    square = d1 * d1 - low.slope * high.slope
    d2 = jnp.copysign(jnp.sqrt(jnp.maximum(square, 0)), width)
    below = high.slope - low.slope + 2 * d2
    fraction = 1 - (high.slope + d2 - d1) / jnp.where(below == 0, 1, below)
    inside = (square >= 0) & (below != 0) & (fraction > 0.1) & (fraction < 0.9)
    return jnp.where(inside, low.step + jnp.where(inside, fraction, 0.5) * width, middle)


def line_search(
    value_and_grad: Callable[[Any], Any],
    x: Any,
    direction: Any,
    value: Any,
    gradient: Any,
    first_step: Any,
    maxiter: int,
) -> tuple[Point, Any, Any]:
    """Return the point found, whether it is lower, and the number of evaluations.

    `value_and_grad` gives both at a point; `value` and `gradient` are those at x, from which the
    search goes along `direction`, at first by `first_step`; `maxiter` bounds the evaluations, at
    most three times as many.
    Shapes: x, direction and gradient (n,).
    """
    slope0 = jnp.vdot(gradient, direction)
    slack = float(dtypes.finfo(x.dtype).eps) * jnp.abs(value)
    start = Point(jnp.zeros_like(value), value, slope0, gradient)

    def evaluated(step: Any) -> Point:
        found, slopes = value_and_grad(x + step * direction)
        return Point(step, found, jnp.vdot(slopes, direction), slopes)

    def more(state: Search) -> Any:
        return ~state.done & (state.count < 3 * maxiter)

    def step(state: Search) -> Search:
        here = evaluated(state.next_step)
        bad = ~jnp.isfinite(here.value)
        limit = value + DECREASE * here.step * slope0
        high = (here.value > limit) | bad
        flat = jnp.abs(here.slope) <= -CURVATURE * slope0
        nearly = (here.value <= value + slack) & (here.slope <= (2 * DECREASE - 1) * slope0)
        nearly = nearly & (here.slope >= CURVATURE * slope0)
        low, top = state.low, state.high
        above = high | ((here.value >= low.value) & (state.bracketed | (state.count > 0)))
        found = (~above & flat) | nearly
        # Where the function turns up again, or is too high, the minimum is behind.
        turned = ~above & (here.slope >= 0)
        enters = ~state.bracketed & (above | turned)
        back = state.bracketed & ~above & (here.slope * (top.step - low.step) >= 0)
        after_high = _select(above, here, _select(back | (enters & turned), low, top))
        after_low = _select(above, low, here)
        bracketed = state.bracketed | enters
        safe = after_high._replace(
            value=jnp.where(jnp.isfinite(after_high.value), after_high.value, value),
            slope=jnp.where(jnp.isfinite(after_high.slope), after_high.slope, 0),
        )
        middle = 0.5 * (after_low.step + after_high.step)
        inner = jnp.where(jnp.isfinite(after_high.value), _between(after_low, safe), middle)
        following = jnp.where(bracketed, inner, 2 * here.step)
        better = ~bad & ((here.value < state.best.value) | found)
        best = _select(better, here, state.best)
        empty = bracketed & (after_low.step == after_high.step)
        return Search(
            state.count + 1, following, bracketed, found | empty, after_low, after_high, best
        )

    first = jnp.asarray(first_step, x.dtype)
    no = jnp.zeros((), bool)
    state = while_loop(more, step, Search(jnp.asarray(0), first, no, no, start, start, start))
    return state.best, state.best.step > 0, state.count
