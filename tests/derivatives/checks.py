"""The checks of a row: what each says holds for all functions at all points.

- `jvp` agrees with central differences, its result with the function's.
- `vjp` is the adjoint of `jvp`.
- The derivative of `vjp` agrees with its differences: the second order.
- `vmap` of all three is a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.derivatives.operands import direction
from tests.derivatives.row import Row

STEP = 1e-5
SLOPES, EXACT = 2e-6, 1e-9
"""Tolerances for differences, and for two ways to compute one number; times the largest number."""


class Motion:
    """A row at a point with a direction: its derivatives, by a library."""

    def __init__(self, row: Row, lib: Any, point: int = 0) -> None:
        self.row, self.lib = row, lib
        self.fun = row.function(lib)
        self.primals = row.operands(point)
        self.seed = f"{row.text} {point}"
        self.tangents = [direction(x, f"{self.seed} {i}") for i, x in enumerate(self.primals)]
        self.outs = numbers(self.fun(*self.arrays(self.primals)))
        self.weights = [direction(y, f"{self.seed} out {i}") for i, y in enumerate(self.outs)]

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
        """Return all three."""
        primals = both[: len(both) // 2]
        return [self.pushed(*both), self.pulled(*primals), self.pulled_and_pushed(*both)]

    def both(self) -> list[Any]:
        """Return primals and tangents."""
        return self.arrays([*self.primals, *self.tangents])

    def moved(self, step: float) -> list[Any]:
        """Return the primals after a step along the tangents."""
        pairs = zip(self.primals, self.tangents, strict=True)
        return self.arrays([x + step * t for x, t in pairs])

    def slope(self, fun: Callable[..., Any]) -> list[np.ndarray]:
        """Return the central difference of a function along the tangents."""
        above, below = (numbers(fun(*self.moved(s))) for s in (STEP, -STEP))
        with np.errstate(invalid="ignore"):
            # Infinite at both, where nothing moves.
            return [
                np.where(a == b, 0, (a - b) / (2 * STEP)).astype(a.dtype)
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


def _paired(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)).real for x, y in zip(xs, ys)))


def check_forward(motion: Motion) -> list[str]:
    """Compare tangents with differences, if some result moves at all."""
    if not motion.outs:
        return ["no result has a derivative"]
    found = motion.pushed(*motion.both())
    return difference(found, motion.slope(motion.fun), SLOPES, "tangent")


def check_adjoint(motion: Motion) -> list[str]:
    """Compare what cotangents and tangents give together."""
    pushed, pulled = motion.pushed(*motion.both()), motion.pulled(*motion.arrays(motion.primals))
    left, right = _paired(pushed, motion.weights), _paired(pulled, motion.tangents)
    near = abs(left - right) <= EXACT * max(1.0, abs(left))
    return [] if near else [f"adjoint: forward {left}, in reverse {right}"]


def check_second(motion: Motion) -> list[str]:
    """Compare tangents of cotangents with differences."""
    found = motion.pulled_and_pushed(*motion.both())
    return difference(found, motion.slope(motion.pulled), SLOPES, "second derivative")


def check_batched(motion: Motion) -> list[str]:
    """Compare the derivatives at two points at once with those at each."""
    turned = [x * (1 + 0.01 * np.cos(np.arange(x.size))).reshape(x.shape) for x in motion.primals]
    given = [motion.both(), motion.arrays([*turned, *motion.tangents])]
    stacked = [motion.lib.numpy.stack(pair) for pair in zip(*given, strict=True)]
    found = motion.lib.vmap(motion.derivatives)(*stacked)
    alone = [motion.derivatives(*xs) for xs in given]
    wrong = []
    for kind, together, *each in zip(("jvp", "vjp", "second"), found, *alone, strict=True):
        expected = [np.stack(pair) for pair in zip(*map(numbers, each), strict=True)]
        wrong += difference(together, expected, EXACT, f"vmap of {kind}")
    return wrong


CHECKS = {
    "differences": check_forward,
    "adjoint": check_adjoint,
    "second": check_second,
    "batched": check_batched,
}


def failures(row: Row, lib: Any, point: int = 0, without: Sequence[str] = ()) -> list[str]:
    """Run the checks of a row at a point; return what is wrong."""
    with lib.enable_x64(True):
        motion = Motion(row, lib, point)
        wrong = [w for name, run in CHECKS.items() if name not in without for w in run(motion)]
    return [f"{row.id}, point {point}: {w}" for w in wrong]
