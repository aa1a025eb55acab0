"""What long programs cost to compile, for two sizes, one four times the other.

Deeply nested loops, chains and their gradients, and bodies that attract each other, written out by
loops of Python. Constants are new in every sample, so that no cache answers.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from benchmarks.harness import Case, Library, Sampler, once
from benchmarks.programs import Program, operand

STACK_BYTES = 1 << 30
DEPTH = 1_000_000
SALT = 5.0

T = TypeVar("T")
Make = Callable[[Library, int, float], Program]


def nested_loops(lib: Library, depth: int, salt: float) -> Program:
    """Return loops of two turns, each in the one around it, of which the innermost one adds."""

    def body(k: int) -> Callable[[Any, Any], Any]:
        if k == 0:
            return lambda i, x: x + salt
        inner = body(k - 1)
        return lambda i, x: lib.root.lax.fori_loop(0, 2, inner, x) * 0.5

    outermost = body(depth)
    return lambda x: outermost(0, x)


def chain(lib: Library, equations: int, salt: float) -> Program:
    """Return sines and products in turn."""

    def program(x: Any) -> Any:
        for _ in range(equations // 2):
            x = lib.np.sin(x) * salt
        return x

    return program


def gradient(lib: Library, equations: int, salt: float) -> Program:
    """Return the gradient of a chain."""
    inner = chain(lib, equations, salt)
    return lib.root.grad(lambda x: inner(x).sum())


def bodies(lib: Library, pairs: int, salt: float) -> Program:
    """Return the accelerations of bodies, written out for each pair."""
    np, count = lib.np, round(pairs**0.5)

    def program(x: Any) -> Any:
        found = []
        for i in range(count):
            total = np.zeros(3)
            for j in range(count):
                if i != j:
                    d = x[j, :3] - x[i, :3]
                    total = total + salt * d / np.sqrt(np.sum(d * d) + 1e-3) ** 3
            found.append(total)
        return np.stack(found)

    return program


PROGRAMS: dict[str, tuple[Make, tuple[int, int]]] = {
    "nested loops": (nested_loops, (15, 60)),
    "deeply nested loops": (nested_loops, (100, 400)),
    "chain": (chain, (1000, 4000)),
    "gradient of a chain": (gradient, (500, 2000)),
    "pairs of bodies": (bodies, (49, 196)),
}
OF_KILN_ALONE = {"deeply nested loops"}
"""A process in which JAX compiles these ends by SIGSEGV."""


def _sampler(lib: Library, make: Make, size: int) -> Sampler:
    x = operand(lib.np)
    salts = itertools.count(1)
    compiled = once(
        lambda: lib.root.jit(make(lib, size, SALT + next(salts) / 8192)),
        lambda f: f.trace(x).lower().compile(),
    )
    return lambda: on_a_long_stack(compiled)


def on_a_long_stack(work: Callable[[], T]) -> T:
    """Do deeply recursive work in a thread whose stack is long enough for it."""
    found: list[T] = []
    limit, before = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(DEPTH)
    try:
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
        sys.setrecursionlimit(limit)
    return found[0]


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, (make, sizes) in PROGRAMS.items():
        able = [lib for lib in libraries if lib.module == "kiln" or name not in OF_KILN_ALONE]
        for size in sizes if able else ():
            samplers = {lib.name: _sampler(lib, make, size) for lib in able}
            yield Case(f"{name}, {size}", samplers, rounds=3)
