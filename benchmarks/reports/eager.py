"""Reports about programs that run operation by operation, without `jit`."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.linalg

from benchmarks.reports.tracker import JAX, reported
from benchmarks.suite.row import Row, Work, normal


def draws(count: int) -> Work:
    """Split a key and draw three normal numbers, over and over."""

    def program(lib: Any, key: Any) -> Any:
        found = None
        for _ in range(count):
            key, part = lib.root.random.split(key)
            found = lib.root.random.normal(part, (3,))
        return found

    def plain(key: Any) -> Any:
        random, found = numpy.random.default_rng(0), None
        for _ in range(count):
            found = random.standard_normal(3, "float32")
        return found

    return Work((numpy.uint32([0, 7]),), program, plain, eager=True)


def arrays(count: int) -> Work:
    """Make arrays of one number from NumPy's."""

    def program(lib: Any, x: Any) -> Any:
        return [lib.np.array(x, copy=True) for _ in range(count)]

    def plain(x: Any) -> Any:
        return [numpy.array(x, copy=True) for _ in range(count)]

    return Work((normal(1),), program, plain, host=True, eager=True)


def concatenated(one: int, other: int) -> Work:
    """Concatenate two short arrays."""
    return Work(
        (normal(one), normal(other, seed=1)),
        lambda lib, x, y: lib.np.concatenate((x, y)),
        lambda x, y: numpy.concatenate((x, y)),
        lambda torch, x, y: torch.cat((x, y)),
        eager=True,
    )


def flat(n: int) -> Work:
    """Make a small matrix of ones, and flatten it."""
    return Work(
        (normal(1),),
        lambda lib, x: lib.np.ones((n, n)).ravel(),
        lambda x: numpy.ones((n, n), "float32").ravel(),
        eager=True,
    )


def logistic(n: int) -> Work:
    """Add logistic functions of a few numbers."""
    return Work(
        (normal(n),),
        lambda lib, x: lib.np.sum(1 / (1 + lib.np.exp(-x))),
        lambda x: numpy.sum(1 / (1 + numpy.exp(-x))),
        lambda torch, x: torch.sum(1 / (1 + torch.exp(-x))),
        eager=True,
    )


def posterior(latents: int, trials: int, points: int, spikes: int) -> Work:
    """Solve and multiply small matrices in two Python loops, each result set in an array."""

    def means(np: Any, solve: Any, put: Any, factors: Any, m: Any, k: Any) -> Any:
        found = []
        for r in range(trials):
            out = np.zeros((spikes, latents))
            for i in range(latents):
                solved = solve((factors[i, r], True), m[i, r])
                out = put(out, i, (k[i, r] @ solved)[:, 0])
            found.append(out)
        return found

    def program(lib: Any, *xs: Any) -> Any:
        solve = lib.root.scipy.linalg.cho_solve
        return means(lib.np, solve, lambda out, i, x: out.at[:, i].set(x), *xs)

    def put(out: Any, i: int, x: Any) -> Any:
        out[:, i] = x
        return out

    factors = numpy.tril(normal(latents, trials, points, points, dtype="float64"))
    factors = factors + 5 * numpy.eye(points)
    arguments = (
        factors,
        normal(latents, trials, points, 1, dtype="float64", seed=1),
        normal(latents, trials, spikes, points, dtype="float64", seed=2),
    )
    return Work(
        arguments,
        program,
        lambda *xs: means(numpy, scipy.linalg.cho_solve, put, *xs),
        eager=True,
    )


ROWS: list[Row] = [
    reported("50 keys split, normal of 3", f"{JAX}/968", "eager", draws, (50,), (2,),
             by_shape=("numpy",), tolerance=1e-4),
    reported("100 arrays from NumPy's", f"{JAX}/27460", "eager", arrays, (100,), (2,)),
    reported("concatenate 5 and 6", f"{JAX}/4865", "eager", concatenated, (5, 6), (5, 6)),
    reported("ones((10, 10)).ravel()", f"{JAX}/193", "eager", flat, (10,), (3,)),
    reported("sum of 10 logistic functions", f"{JAX}/427", "eager", logistic, (10,), (3,)),
    reported("posterior means, 4 x 8 solves", f"{JAX}/20326", "eager", posterior,
             (4, 8, 9, 50), (2, 2, 3, 4), x64=True, tolerance=1e-8),
]  # fmt: skip
