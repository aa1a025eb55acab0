"""Reports about compilation: each call traces, compiles and runs a program with a new constant."""

from __future__ import annotations

from typing import Any

from benchmarks.reports.tracker import JAX, reported
from benchmarks.suite.row import Row, Work, normal, uniform


def _unused(lib: Any, *xs: Any) -> Any:
    raise AssertionError("a row of first calls makes its programs by `fresh`")


def likelihood(bins: int, processes: int) -> Work:
    """Return the gradient of a binned likelihood whose bins are written out."""

    def fresh(salt: float) -> Any:
        def program(lib: Any, strengths: Any, rates: Any, counts: Any) -> Any:
            np = lib.np

            def minus_log(strengths: Any) -> Any:
                total = 0.0
                for b in range(bins):
                    expected = salt
                    for p in range(processes):
                        shift = strengths[p]
                        expected = expected + rates[b, p] * np.where(
                            shift > 0, (1 + 0.1 * b / bins) ** shift, (1 - 0.1 * b / bins) ** -shift
                        )
                    total = total + expected - counts[b] * np.log(expected)
                return total

            return lib.root.grad(minus_log)(strengths)

        return program

    arguments = (normal(processes), uniform(bins, processes, low=1.0, high=9.0),
                 uniform(bins, low=5.0, high=50.0))  # fmt: skip
    return Work(arguments, _unused, fresh=fresh)


def sampling(pixels: int, width: int) -> Work:
    """Draw pixels one after another, each from all before it, in a loop that Python unrolls."""

    def fresh(salt: float) -> Any:
        def program(lib: Any, first: Any, second: Any, noise: Any) -> Any:
            np, image, hidden = lib.np, lib.np.zeros(pixels), lib.np.zeros(width)
            for i in range(pixels):
                logits = np.tanh(hidden * salt) @ second[:, : i + 1]
                drawn = logits[i] + noise[i] * np.exp(-np.abs(np.mean(logits)))
                image = image.at[i].set(drawn)
                hidden = hidden + first[i] * image[i]
            return image

        return program

    arguments = (normal(pixels, width), normal(width, pixels, seed=1), normal(pixels, seed=2))
    return Work(arguments, _unused, fresh=fresh)


def unrolled(steps: int) -> Work:
    """Iterate a map of a few numbers in a loop that Python unrolls."""

    def fresh(salt: float) -> Any:
        def program(lib: Any, x: Any, y: Any) -> Any:
            for _ in range(steps):
                x, y = y + lib.np.sin(x) * (0.1 * salt), x * 0.5 - lib.np.cos(y)
            return x, y

        return program

    return Work((normal(16), normal(16, seed=1)), _unused, fresh=fresh)


ROWS: list[Row] = [
    reported("gradient of a likelihood, 16 bins", f"{JAX}/4924", "first call", likelihood,
             (16, 4), (2, 2), tolerance=1e-3),
    reported("sampling of 32 pixels, unrolled", f"{JAX}/1223", "first call", sampling, (32, 16),
             (3, 4), tolerance=1e-3),
    reported("loop of 60 iterations, unrolled", f"{JAX}/2777", "first call", unrolled, (60,),
             (3,), tolerance=1e-3),
]  # fmt: skip
