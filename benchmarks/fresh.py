"""Functions made anew for every call: the loops of the just-in-time tutorial, and closures.

Each piece of work is a loop of 20 calls, as in the tutorial: of `jit` of one function, of a fresh
partial, of a fresh lambda. The last cases close over an array that differs from call to call, and
run an eager loop with a fresh body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness import Case, Library, Sampler, repeated

STEPS = 20


def unjitted_loop_body(prev_i: Any) -> Any:
    """Return the next number."""
    return prev_i + 1


def _looped(lib: Library, make: Callable[[], Callable[[Any], Any]]) -> Callable[[], Any]:
    def loop() -> Any:
        i = 0
        while i < STEPS:
            i = lib.root.jit(make())(i)
        return i

    return loop


def same_function(lib: Library) -> Callable[[], Any]:
    """Return the loop that jits one function."""
    return _looped(lib, lambda: unjitted_loop_body)


def fresh_partials(lib: Library) -> Callable[[], Any]:
    """Return the loop that jits a fresh partial each time."""
    return _looped(lib, lambda: functools.partial(unjitted_loop_body))


def fresh_lambdas(lib: Library) -> Callable[[], Any]:
    """Return the loop that jits a fresh lambda each time."""
    return _looped(lib, lambda: lambda x: unjitted_loop_body(x))  # noqa: PLW0108 - as there


def fresh_closures(lib: Library) -> Callable[[], Any]:
    """Return a loop that jits a lambda over another array each time."""
    arrays = [lib.np.arange(8.0) + i for i in range(STEPS)]

    def loop() -> Any:
        total = arrays[0]
        for array in arrays:
            total = lib.root.jit(lambda x, array=array: x * array)(total)
        return total

    return loop


def fresh_scans(lib: Library) -> Callable[[], Any]:
    """Return a loop of eager scans, each with a fresh body."""
    xs = lib.np.arange(8.0)

    def loop() -> Any:
        carry = 0.0
        for _ in range(STEPS):
            carry, _ = lib.root.lax.scan(lambda c, x: (c * 0.5 + x, None), carry, xs)
        return carry

    return loop


LOOPS = {
    f"{STEPS} calls, jit(same function)": (same_function, 30),
    f"{STEPS} calls, jit(fresh partial)": (fresh_partials, 7),
    f"{STEPS} calls, jit(fresh lambda)": (fresh_lambdas, 7),
    f"{STEPS} calls, fresh lambda over arrays": (fresh_closures, 7),
    f"{STEPS} eager scans, fresh bodies": (fresh_scans, 7),
}


def _sampler(lib: Library, make: Callable[[Library], Callable[[], Any]]) -> Sampler:
    loop = make(lib)
    lib.root.block_until_ready(loop())
    return repeated(loop, lib.root.block_until_ready)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, (make, rounds) in LOOPS.items():
        yield Case(name, {lib.name: _sampler(lib, make) for lib in libraries}, rounds=rounds)
