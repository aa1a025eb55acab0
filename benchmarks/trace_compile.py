"""What tracing and compiling cost, by the kind and length of a program.

Every sample gets a new function object with a new constant in it, so no cache of traces or of
executables answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness import Case, Library, Sampler, once
from benchmarks.programs import PROGRAMS, SIZES, Program, operand

Make = Callable[[Any, int, float], Program]


def _fresh(lib: Library, make: Make, equations: int) -> Callable[[], Any]:
    salts = itertools.count(1)
    return lambda: lib.root.jit(make(lib.np, equations, 1.0 + next(salts) / 8192))


def _trace_sampler(lib: Library, make: Make, equations: int) -> Sampler:
    x = operand(lib.np)
    return once(_fresh(lib, make, equations), lambda f: f.trace(x))


def _compile_sampler(lib: Library, make: Make, equations: int) -> Sampler:
    x = operand(lib.np)
    fresh = _fresh(lib, make, equations)
    return once(lambda: fresh().trace(x), lambda traced: traced.lower().compile())


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, make in PROGRAMS.items():
        for equations in SIZES:
            yield Case(
                f"trace {name}, {equations} equations",
                {lib.name: _trace_sampler(lib, make, equations) for lib in libraries},
                rounds=30 if equations <= 100 else 12,
            )
    for name, make in PROGRAMS.items():
        for equations in SIZES:
            yield Case(
                f"lower and compile {name}, {equations} equations",
                {lib.name: _compile_sampler(lib, make, equations) for lib in libraries},
                rounds=7 if equations <= 100 else 3,
            )
