"""How long a jitted call takes that computes nothing, and how long a worker takes to wake."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks import harness

ROUNDS = 50
LENGTH = 1 << 16
"""Enough sines for a loop to be divided among threads."""


def call(library: harness.Library) -> float:
    """Return the least seconds of a call of `jit(x + 1)` on one number, waited for."""
    f, x = library.root.jit(lambda x: x + 1), library.np.ones(1)
    f(x).block_until_ready()
    sample = harness.timed("f(x).block_until_ready()", {"f": f, "x": x}, 0.001)
    return min(sample() for _ in range(ROUNDS))


def waves(library: harness.Library) -> tuple[Any, Any]:
    """Return a jitted loop that several threads share, and its operand."""
    np = library.np
    x = np.asarray(numpy.linspace(0, 1, LENGTH, dtype="float32"))
    return library.root.jit(lambda x: np.sin(x) + np.cos(x)), x


def wake(library: harness.Library, threads: int) -> float:
    """Return what dividing a loop among threads adds to its share of the time, in seconds.

    The figure includes the wait for the last thread.
    """
    f, x = waves(library)
    least = {}
    for count in (1, threads):
        with library.root.num_threads(count):
            f(x).block_until_ready()
            sample = harness.timed("f(x).block_until_ready()", {"f": f, "x": x}, 0.001)
            least[count] = min(sample() for _ in range(ROUNDS))
    return max(0.0, least[threads] - least[1] / threads)


def measured(libraries: dict[str, Any], threads: int) -> dict[str, float]:
    """Return all latencies, in seconds."""
    found = {f"call, {name}": call(library) for name, library in libraries.items()}
    if threads > 1:
        found["wake a worker, kiln"] = wake(libraries["kiln"], threads)
    return found
