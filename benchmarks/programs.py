"""Programs of a given number of equations, written once for every array library.

`np` is `kiln.numpy` or `jax.numpy`. `salt` is a constant in the program: two programs that differ
in it are equal in cost, and no cache of programs can take one for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SIDE = 64

Program = Callable[[Any], Any]


def chain(np: Any, equations: int, salt: float) -> Program:
    """Return a chain of cheap elementwise equations."""
    steps = (
        lambda x: x * 1.0001,
        lambda x: x + 0.001,
        lambda x: -x,
        np.sin,
        lambda x: x - 0.5,
    )

    def program(x: Any) -> Any:
        x = x + salt
        for number in range(equations - 1):
            x = steps[number % len(steps)](x)
        return x

    return program


def matmuls(np: Any, equations: int, salt: float) -> Program:
    """Return matrix products, each followed by tanh."""

    def program(x: Any) -> Any:
        weights = x
        x = x * salt
        for number in range(equations - 1):
            x = np.tanh(x) if number % 2 else x @ weights
        return x

    return program


def mixed(np: Any, equations: int, salt: float) -> Program:
    """Return blocks of attention-like work: products, reductions, broadcasts, elementwise.

    A block of the source is ten operations; what a library records for one of them (a broadcast, a
    nested call) is its own affair.
    """
    steps = (
        lambda x, y: (x, x @ x),
        lambda x, y: (x, y * 0.125),
        lambda x, y: (x, y - np.max(y, axis=-1, keepdims=True)),
        lambda x, y: (x, np.exp(y)),
        lambda x, y: (x, y / np.sum(y, axis=-1, keepdims=True)),
        lambda x, y: (x, np.transpose(y)),
        lambda x, y: (x, y @ x),
        lambda x, y: (x, np.where(y > 0, y, 0.1 * y)),
        lambda x, y: (x, np.reshape(y, (SIDE, SIDE))),
        lambda x, y: (x + y, y),
    )

    def program(x: Any) -> Any:
        x = x + salt
        y = x
        for number in range(equations - 1):
            x, y = steps[number % len(steps)](x, y)
        return x + y

    return program


PROGRAMS = {"chain": chain, "matmuls": matmuls, "mixed": mixed}
SIZES = (10, 100, 1000)


def operand(np: Any) -> Any:
    """Return the argument of every program."""
    return np.ones((SIDE, SIDE), dtype=np.float32) * 0.01
