"""What this machine can do at most, measured with programs of kiln, and what binds an operation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kiln import numpy as jnp
from kiln.api.arrays import block_until_ready
from kiln.api.contexts.options import enable_x64
from kiln.api.jit import jit
from kiln.base.named_tuples import NamedTuple

ROWS = 512
"""Of the matrices whose product reaches the peak of arithmetic."""
WORKING_SETS = (1 << 18, 1 << 22, 1 << 24, 1 << 26)
_SECONDS = 0.06
_LEAST = 1e-12


class Limits(NamedTuple):
    """The greatest rates seen: operations per second by type, bytes per second by working set."""

    flops: Mapping[str, float]
    bytes: Mapping[int, float]

    def bytes_per_second(self, touched: float) -> float:
        """Return the rate at which this many bytes move: of the level of caches that holds them."""
        fitting = [size for size in self.bytes if touched <= size]
        return self.bytes[min(fitting, default=max(self.bytes))]

    def seconds(self, dtype: str, flops: float, touched: float, runs: float) -> tuple[float, str]:
        """Return the least time of all runs of an operation, and what binds it.

        `flops` and `touched` are those of all runs. Other types than `f64` are taken to be as fast
        as `f32`.
        """
        arithmetic = flops / self.flops["f64" if dtype == "f64" else "f32"]
        moving = touched / self.bytes_per_second(touched / max(runs, 1))
        return max((arithmetic, "arithmetic"), (moving, "memory"))


def measured() -> Limits:
    """Measure the machine, in less than a second.

    The peak of arithmetic is that of products of matrices, the rate of bytes that of a loop which
    reads an array and writes another.
    """
    flops = {}
    for name, dtype in (("f32", "float32"), ("f64", "float64")):
        with enable_x64(True):
            matrix = jnp.ones((ROWS, ROWS), dtype)
            flops[name] = 2 * ROWS**3 / _fastest(jit(_squared), matrix)
    moved = {}
    for size in WORKING_SETS:
        array = jnp.ones(size // 8, "float32")
        moved[size] = size / _fastest(jit(_increased), array)
    return Limits(flops, moved)


def _squared(x: Any) -> Any:
    return x @ x


def _increased(x: Any) -> Any:
    return x + 1


def _fastest(fun: Callable[..., Any], *args: Any) -> float:
    # The code of a program improves within its first calls.
    for _ in range(3):
        block_until_ready(fun(*args))
    found, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        block_until_ready(fun(*args))
        found = min(found, time.perf_counter() - start)
    return max(found, _LEAST)
