"""What kiln's own assembler gives beside LLVM: programs compiled by each, and first results.

Columns: kiln as it is (the assembler generates the first code), kiln with LLVM, and kiln with LLVM
on its fastest path, without optimizations. Traced programs are new ones in every sample.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from benchmarks.first_calls import LAYERS, Prepared, gradient, network, selu
from benchmarks.harness import Case, Library, Sampler, once
from benchmarks.programs import PROGRAMS, operand
from benchmarks.startup import fresh_process
from kiln.engines.native.llvm.assembly import LEAST_EFFORT

SALT = 7.0
"""The constants of samples lie above those of `first_calls`, which has some of the programs."""
BY_LLVM = {"kiln by LLVM": False, "kiln by LLVM, unoptimized": True}
EFFORT = "kiln.engines.native.llvm.generation.effort_for"
FIRST_SELU = """\
import {name}, {name}.numpy as np
{setting}
x = np.arange(5.0)
{name}.jit(lambda x: 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67))(x).block_until_ready()
"""
SETTING = 'kiln.config.update("code_generator", "llvm")\n'
FASTEST = """\
from kiln.engines.native.llvm import generation
generation.effort_for = lambda function: generation.LEAST_EFFORT
"""


@contextlib.contextmanager
def _by_llvm(lib: Library, *, fastest: bool) -> Iterator[None]:
    """Have LLVM compile, on its fastest path if `fastest`."""
    effort = mock.patch(EFFORT, return_value=LEAST_EFFORT) if fastest else contextlib.nullcontext()
    before = lib.root.config.code_generator
    lib.root.config.update("code_generator", "llvm")
    try:
        with effort:
            yield
    finally:
        lib.root.config.update("code_generator", before)


def _columns(
    libraries: Sequence[Library], sampler: Callable[[Library], Sampler]
) -> dict[str, Sampler]:
    """Return the samplers of all libraries, and of kiln's other code generators."""

    def others(lib: Library, fastest: bool) -> Sampler:
        sample = sampler(lib)

        def by_llvm() -> float:
            with _by_llvm(lib, fastest=fastest):
                return sample()

        return by_llvm

    found = {lib.name: sampler(lib) for lib in libraries}
    for lib in libraries:
        if lib.module == "kiln":
            found |= {name: others(lib, fastest) for name, fastest in BY_LLVM.items()}
    return found


_salts = itertools.count(1)


def _compiled(make: Callable[[Library, float], Prepared]) -> Callable[[Library], Sampler]:
    def sampler(lib: Library) -> Sampler:
        def traced() -> Any:
            function, operands = make(lib, SALT + next(_salts) / 8192)
            return lib.root.jit(function).trace(*operands)

        return once(traced, lambda traced: traced.lower().compile())

    return sampler


def _program(kind: str, equations: int) -> Callable[[Library, float], Prepared]:
    return lambda lib, salt: (PROGRAMS[kind](lib.np, equations, salt), (operand(lib.np),))


def _sums(lib: Library, salt: float) -> Prepared:
    """Return thirty equations with ten sums of sines among them, and their operand."""

    def function(x: Any) -> Any:
        for i in range(30):
            x = lib.np.sin(x) * (salt + i) + lib.np.sum(x) if i % 3 == 0 else x * x + i
        return x

    return function, (lib.np.ones(64, "float32"),)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    rows = {
        "compile selu": (selu, 15),
        "compile mixed, 100 equations": (_program("mixed", 100), 7),
        "compile chain, 100 equations": (_program("chain", 100), 7),
        "compile sums of sines": (_sums, 9),
        f"compile {LAYERS} layers": (network, 9),
        f"compile a gradient of {LAYERS} layers": (gradient, 7),
    }
    for name, (make, rounds) in rows.items():
        yield Case(name, _columns(libraries, _compiled(make)), rounds=rounds)
    settings = {lib.name: (lib.module, "") for lib in libraries}
    if "kiln" in settings:
        settings |= {
            name: ("kiln", SETTING + FASTEST * fastest) for name, fastest in BY_LLVM.items()
        }
    yield Case(
        "import to the first result of selu",
        {
            column: fresh_process(FIRST_SELU.format(name=module, setting=setting))
            for column, (module, setting) in settings.items()
        },
        rounds=9,
    )
