"""The first call in a process that finds its program on disk, beside one in which it is compiled.

`python -m benchmarks.second_process` prints medians and ratios. A process imports kiln and makes
its operands before the clock starts, and calls some other function first if it is `warm`: then what
both have to load is loaded, and what remains is the program's own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.startup import bytecode

NETWORK = "network of 4 layers"
PROGRAMS = ("chain", "matmuls", "mixed", NETWORK)
ENGINES = ("native", "xla")

PROGRAM = """\
import sys, time
import kiln, kiln.numpy
import numpy
from benchmarks import first_calls, programs
from benchmarks.harness import load
name, is_warm = sys.argv[1], sys.argv[2] == "warm"
lib = load("kiln")
def made(salt):
    if name in programs.PROGRAMS:
        return programs.PROGRAMS[name](lib.np, 100, salt), (programs.operand(lib.np),)
    return first_calls.network(lib, salt)
if is_warm:
    # Not to be found on disk.
    function, operands = made(1.0 + time.time() % 1000 / 8192)
    kiln.block_until_ready(kiln.jit(function)(*operands))
function, operands = made(0.5)
kiln.block_until_ready(operands)
start = time.perf_counter()
kiln.block_until_ready(kiln.jit(function)(*operands))
print(1e3 * (time.perf_counter() - start), kiln.cache_info().disk.hits)
"""


def first_call(name: str, engine: str, folder: str, *, warm: bool) -> tuple[float, bool]:
    """Return the milliseconds of a first call in a new process; whether it was found on disk."""
    environment = {**os.environ, "KILN_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": bytecode().name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if engine == "xla":
        environment["KILN_ENGINE"] = engine
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, "warm" if warm else "fresh"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    milliseconds, hits = done.stdout.split()
    return float(milliseconds), hits != "0"


def row(name: str, engine: str, rounds: int, *, warm: bool) -> tuple[float, float]:
    """Return the medians without and with the cache, in turns.

    Raises: AssertionError if a program was not found on disk, or found where there is none.
    """
    with tempfile.TemporaryDirectory(prefix="kiln-cache-") as above:
        folder = os.path.join(above, "kiln")
        first_call(name, engine, folder, warm=warm)
        cold: list[float] = []
        found: list[float] = []
        for _ in range(rounds):
            for samples, where in ((cold, ""), (found, folder)):
                milliseconds, hit = first_call(name, engine, where, warm=warm)
                assert hit == bool(where), f"{name} on {engine}: found={hit}"
                samples.append(milliseconds)
    return statistics.median(cold), statistics.median(found)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    options = parser.parse_args(argv)
    print("| program | engine | process | compiled | from disk | ratio |")
    print("|---|---|---|---:|---:|---:|")
    for engine in options.engines.split(","):
        for name in options.programs.split(","):
            for warm in (False, True):
                cold, found = row(name, engine, options.rounds, warm=warm)
                process = "warm" if warm else "fresh"
                print(
                    f"| {name} | {engine} | {process} | {cold:.1f} ms | {found:.1f} ms "
                    f"| {found / cold:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
