"""Rows whose time is the way in and out of a call: small ones follow each other without waiting."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.suite.row import Row, Work, normal, shared


def one(n: int) -> Work:
    """Add one to a small array."""
    return shared(lambda np, x: x + 1, normal(n))


def many(count: int) -> Work:
    """Add one to each of many arrays."""

    def of(np: Any, *xs: Any) -> Any:
        return [x + 1 for x in xs]

    return shared(of, *(normal(8, seed=i) for i in range(count)))


def dictionary(layers: int) -> Work:
    """Add one to the leaves of nested dictionaries."""

    def bump(np: Any, tree: Any) -> Any:
        return {k: bump(np, v) if isinstance(v, dict) else v + 1 for k, v in tree.items()}

    names = ("bias", "kernel", "scale")
    tree = {f"layer_{i}": {name: normal(8, seed=i) for name in names} for i in range(layers)}
    return shared(bump, tree)


def numpy_leaves(count: int) -> Work:
    """Pass many NumPy arrays."""

    def program(lib: Any, *xs: Any) -> Any:
        return [x + 1 for x in xs]

    arguments = tuple(normal(8, seed=i) for i in range(count))
    return Work(arguments, program, lambda *xs: program(None, *xs), host=True)


def numpy_argument(kibi: int) -> Work:
    """Pass one NumPy array, and add its numbers."""
    x = normal(kibi * 256)
    return Work((x,), lambda lib, x: lib.np.sum(x), numpy.sum, host=True)


def python_number() -> Work:
    """Pass a Python number."""
    return Work((2.5,), lambda lib, x: x + 1, lambda x: x + 1, host=True)


def static_steps(steps: int) -> Work:
    """Call the tutorial's `g_jit_correct(10, 20)`: its number of steps is static."""

    def g(x: Any, n: int) -> Any:
        i = 0
        while i < n:
            i += 1
        return x + i

    def program(lib: Any, x: Any, n: int) -> Any:
        return g(x, n)

    return Work((10, steps), program, g, host=True, jit={"static_argnums": 1})


ROWS = [
    Row("call with 1 array", "call", one, (8,), (8,), waits=False),
    Row("call with 100 arrays in and out", "call", many, (100,), (4,), waits=False),
    Row("call with a dict of 21", "call", dictionary, (7,), (2,), waits=False),
    Row("call with 100 NumPy arrays", "call", numpy_leaves, (100,), (3,), waits=False),
    Row("call with a Python number", "call", python_number, (), (), waits=False),
    Row("call with a static number, g(10, 20)", "call", static_steps, (20,), (20,), waits=False),
    *(
        Row(f"NumPy argument of {words}", "call", numpy_argument, (kibi,), (1,), tolerance=1e-2)
        for words, kibi in (
            ("64 KiB", 64),
            ("1 MiB", 1024),
            ("8 MiB", 8192),
            ("64 MiB", 65536),
        )
    ),
]
