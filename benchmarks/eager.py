"""What an operation on small arrays costs without jit, by the kind of operation.

Calls follow each other without waiting; the last result of a sample is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness import Case, Library, Sampler, repeated

Operation = Callable[[Library, Any, Any], Any]

OPERATIONS: dict[str, Operation] = {
    "exp(x)": lambda lib, x, m: lib.np.exp(x),
    "maximum(x, 0)": lambda lib, x, m: lib.np.maximum(x, 0),
    "where(x > 3, x, 0)": lambda lib, x, m: lib.np.where(x > 3, x, 0.0),
    "x ** 2": lambda lib, x, m: x**2,
    "x // 2": lambda lib, x, m: x // 2,
    "m + x": lambda lib, x, m: m + x,
    "x.astype(int32)": lambda lib, x, m: x.astype(lib.np.int32),
    "zeros(8)": lambda lib, x, m: lib.np.zeros(8),
    "m.reshape(-1)": lambda lib, x, m: m.reshape(-1),
    "m.T": lambda lib, x, m: m.T,
    "m[2, 1:5]": lambda lib, x, m: m[2, 1:5],
    "stack([x, x])": lambda lib, x, m: lib.np.stack([x, x]),
    "m.sum(axis=0)": lambda lib, x, m: m.sum(axis=0),
    "x.mean()": lambda lib, x, m: x.mean(),
    "m @ x": lambda lib, x, m: m @ x,
    "x.at[0].set(1)": lambda lib, x, m: x.at[0].set(1.0),
}


def _sampler(lib: Library, operation: Operation) -> Sampler:
    x, m = lib.np.arange(8.0), lib.np.arange(64.0).reshape(8, 8)

    def call() -> Any:
        return operation(lib, x, m)

    lib.root.block_until_ready(call())
    return repeated(call, lib.root.block_until_ready)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, operation in OPERATIONS.items():
        yield Case(name, {lib.name: _sampler(lib, operation) for lib in libraries}, rounds=30)
