"""The checks of a row: what each says holds for all functions at all points.

- `jvp` agrees with central differences of the function, or of the quantiles that are drawn.
- `vjp` is the adjoint of `jvp`.
- The derivative of `vjp` agrees with its differences: the second order.
- `vmap` of all three is a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.derivatives.operands import direction
from tests.derivatives.quantiles import quantiles
from tests.derivatives.row import Row

STEPS = {64: 1e-5, 32: 1e-2}
"""By the bits in which a function computes."""
SLOPES, EXACT = {64: 2e-6, 32: 1e-3}, {64: 1e-9, 32: 1e-5}
"""Tolerances for differences, and for two ways to compute one number; times the largest number."""
KINDS = ("jvp", "vjp", "second")


def primals_and_tangents(row: Row, point: int = 0) -> list[np.ndarray]:
    """Return the operands of a row at a point, then the direction in which they move."""
    primals = row.operands(point)
    return primals + [direction(x, f"{row.text} {point} {i}") for i, x in enumerate(primals)]


class Motion:
    """A row at a point with a direction: its derivatives, by a library."""

    def __init__(self, row: Row, lib: Any, point: int = 0) -> None:
        self.row, self.lib = row, lib
        self.fun = row.function(lib)
        self.seed = f"{row.text} {point}"
        both = primals_and_tangents(row, point)
        self.primals, self.tangents = both[: len(both) // 2], both[len(both) // 2 :]

    @functools.cached_property
    def outs(self) -> list[Any]:
        """The results of the function at the point; set first where a program is traced."""
        return numbers(self.fun(*self.arrays(self.primals)))

    @functools.cached_property
    def weights(self) -> list[np.ndarray]:
        """What the results are weighted with in reverse."""
        return [direction(y, f"{self.seed} out {i}") for i, y in enumerate(self.outs)]

    def arrays(self, values: Sequence[np.ndarray]) -> list[Any]:
        """Return arrays of the library."""
        return [self.lib.numpy.asarray(x) for x in values]

    def pushed(self, *both: Any) -> list[Any]:
        """Return the tangents of the results, given primals and tangents."""
        half = len(both) // 2
        return self.lib.jvp(self.fun, both[:half], both[half:])[1]

    def pulled(self, *primals: Any) -> list[Any]:
        """Return the cotangents of the operands."""
        _, pull = self.lib.vjp(self.fun, *primals)
        return list(pull(self.arrays(self.weights)))

    def pulled_and_pushed(self, *both: Any) -> list[Any]:
        """Return the tangents of the cotangents of the operands."""
        half = len(both) // 2
        return self.lib.jvp(self.pulled, both[:half], both[half:])[1]

    def derivatives(self, *both: Any) -> list[list[Any]]:
        """Return all that the row has, in the order of `KINDS`."""
        found = [self.pushed(*both)] if self.row.order else []
        if self.row.order and not self.row.forward_only:
            found.append(self.pulled(*both[: len(both) // 2]))
            if self.row.order == 2:
                found.append(self.pulled_and_pushed(*both))
        return found

    def both(self) -> list[Any]:
        """Return primals and tangents."""
        return self.arrays([*self.primals, *self.tangents])

    @functools.cached_property
    def here(self) -> list[list[Any]]:
        """The derivatives at the point."""
        return self.derivatives(*self.both())

    def moved(self, step: float) -> list[Any]:
        """Return the primals after a step along the tangents."""
        pairs = zip(self.primals, self.tangents, strict=True)
        return self.arrays([x + step * t for x, t in pairs])

    def slope(self, fun: Callable[..., Any]) -> list[np.ndarray]:
        """Return the central difference of a function along the tangents."""
        step = STEPS[self.row.bits]
        above, below = (numbers(fun(*self.moved(s))) for s in (step, -step))
        with np.errstate(invalid="ignore"):
            # Infinite at both, where nothing moves.
            return [
                np.where(a == b, 0, (a - b) / (2 * step)).astype(a.dtype)
                for a, b in zip(above, below, strict=True)
            ]


def numbers(xs: Any) -> list[np.ndarray]:
    """Return results as NumPy arrays."""
    return [np.asarray(x) for x in xs]


def difference(found: Any, expected: Any, tolerance: float, what: str) -> list[str]:
    """Say where two lists of arrays differ; nothing where they agree."""
    wrong = []
    for i, (x, y) in enumerate(zip(numbers(found), numbers(expected), strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            wrong.append(f"{what} {i}: {x.dtype}{x.shape}, not {y.dtype}{y.shape}")
            continue
        size = tolerance * max(1.0, float(np.abs(y).max(initial=0.0)))
        if not (np.abs(x - y) <= size).all():
            wrong.append(f"{what} {i}: {x.tolist()}, not {y.tolist()}")
    return wrong


def product(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """Return the real part of the sum of products, without conjugation, of any library's arrays."""
    return sum((x * y).sum().real for x, y in zip(xs, ys, strict=True))


def paired(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """Return the product as a number."""
    return float(product(numbers(xs), numbers(ys)))


def refused(which: str, derivative: Callable[..., Any], xs: Sequence[Any]) -> list[str]:
    """Say that a derivative is not refused, if so."""
    try:
        derivative(*xs)
    except (NotImplementedError, ValueError):
        return []
    return [f"the {which} derivative is not refused: remove the mark"]


def check_forward(motion: Motion) -> list[str]:
    """Compare tangents with differences, if some result moves at all."""
    if not motion.outs:
        return ["no result has a derivative"]
    if not motion.row.order:
        return refused("first", motion.pushed, motion.both())
    fun, tolerance = motion.fun, SLOPES[motion.row.bits]
    wrong = []
    if motion.row.implicit:
        fun = quantiles(motion.row, motion.lib, motion.primals)
        wrong = difference(motion.outs, fun(*motion.primals), tolerance, "sample")
    return wrong + difference(motion.here[0], motion.slope(fun), tolerance, "tangent")


def check_adjoint(motion: Motion) -> list[str]:
    """Compare what cotangents and tangents give together."""
    if motion.row.forward_only:
        return refused("reverse", motion.pulled, motion.arrays(motion.primals))
    if not motion.row.order:
        return []
    pushed, pulled = motion.here[:2]
    left, right = paired(pushed, motion.weights), paired(pulled, motion.tangents)
    near = abs(left - right) <= EXACT[motion.row.bits] * max(1.0, abs(left))
    return [] if near else [f"adjoint: forward {left}, in reverse {right}"]


def check_second(motion: Motion) -> list[str]:
    """Compare tangents of cotangents with differences, or see them refused."""
    if motion.row.forward_only:
        return []
    if motion.row.order == 2:
        slope = motion.slope(motion.pulled)
        return difference(motion.here[2], slope, SLOPES[motion.row.bits], "second derivative")
    return refused("second", motion.pulled_and_pushed, motion.both())


def check_batched(motion: Motion) -> list[str]:
    """Compare the derivatives at two points at once with those at each."""
    turned = [x * (1 + 0.01 * np.cos(np.arange(x.size))).reshape(x.shape) for x in motion.primals]
    other = motion.arrays([*turned, *motion.tangents])
    stacked = [motion.lib.numpy.stack(pair) for pair in zip(motion.both(), other, strict=True)]
    found = motion.lib.vmap(motion.derivatives)(*stacked)
    alone = [motion.here, motion.derivatives(*other)]
    wrong = []
    for kind, together, *each in zip(KINDS, found, *alone, strict=False):
        expected = [np.stack(pair) for pair in zip(*map(numbers, each), strict=True)]
        wrong += difference(together, expected, EXACT[motion.row.bits], f"vmap of {kind}")
    return wrong


CHECKS = (check_forward, check_adjoint, check_second, check_batched)


def failures(row: Row, lib: Any, point: int = 0) -> list[str]:
    """Run the checks of a row at a point; return what is wrong."""
    with lib.enable_x64(True):
        motion = Motion(row, lib, point)
        wrong = [w for check in CHECKS for w in check(motion)]
    return [f"{row.id}, point {point}: {w}" for w in wrong]
