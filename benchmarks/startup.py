"""What a fresh process costs: importing, and the time to the first result.

Every sample is a new interpreter, so the columns share nothing but the file cache and bytecode.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from benchmarks.harness import Case, Library, Sampler

# Must not be loaded by `import kiln`: they take longer than kiln itself.
NOT_AT_IMPORT = ("jaxlib", "scipy", "jax")

TIMED = """\
import time
{before}
start = time.perf_counter()
{program}
print(time.perf_counter() - start)
"""
FIRST_RESULT = """\
import {name}, {name}.numpy
{name}.jit(lambda x: x + 1)({name}.numpy.arange(8.0)).block_until_ready()
"""


@functools.cache
def bytecode() -> tempfile.TemporaryDirectory[str]:
    """Return where the processes keep bytecode: that of all libraries, as after their first use."""
    return tempfile.TemporaryDirectory(prefix="kiln-bytecode-")


def _run(program: str) -> str:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode().name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"a benchmark's fresh process failed:\n{program}\n{done.stderr}")
    return done.stdout


def fresh_process(program: str, before: str = "") -> Sampler:
    """Return a sampler of a program in a new interpreter, which runs `before` untimed."""
    text = TIMED.format(program=program, before=before)
    return lambda: float(_run(text).split()[-1])


def _whole(program: str) -> Sampler:
    def sample() -> float:
        start = time.perf_counter()
        _run(program)
        return time.perf_counter() - start

    return sample


def check_light_import(name: str) -> None:
    """Raise if importing kiln loads what must wait for first use."""
    loaded = _run(f"import sys, {name}\nprint(*sys.modules)").split()
    heavy = sorted(set(NOT_AT_IMPORT) & set(loaded))
    if heavy:
        raise AssertionError(f"`import {name}` loads {', '.join(heavy)}")


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    modules = {lib.name: lib.module for lib in libraries}
    if "kiln" in modules.values():
        check_light_import("kiln")
    yield Case(
        "import",
        {
            "numpy": fresh_process("import numpy"),
            **{n: fresh_process(f"import {m}") for n, m in modules.items()},
        },
        rounds=15,
    )
    yield Case(
        "import, numpy already loaded",
        {n: fresh_process(f"import {m}", before="import numpy") for n, m in modules.items()},
        rounds=15,
    )
    programs = {n: FIRST_RESULT.format(name=m) for n, m in modules.items()}
    yield Case(
        "import to first result of jit(x + 1)",
        {n: fresh_process(program) for n, program in programs.items()},
        rounds=11,
    )
    yield Case(
        "whole process of jit(x + 1)",
        {n: _whole(program) for n, program in programs.items()},
        rounds=11,
    )
