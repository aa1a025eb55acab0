"""What many shapes cost in memory, and what a library gives back.

One function of three operations is called with 2,000 shapes in a fresh process. Measured is the
growth of resident memory after a warm-up, how many programs a second pass over the last 256 shapes
compiles, and what is left once the caches are cleared. `python -m benchmarks.memory` prints the
table and writes `results/memory.json` and `.md`; `--fit` measures what an executable costs against
its serialized size, the constants of `engines/xla/runtime/client.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import report

SHAPES = 2000
LAST = 256
LIBRARIES = ("kiln", "jax")

MAX_GROWTH_MB = 300
MAX_LEFT_MB = 60
"""What kiln promises for 2,000 shapes with default settings; see `broken_promises`."""

SOAK = """
import gc, importlib, json, os, sys, time
import numpy
name, shapes, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lib, np = importlib.import_module(name), importlib.import_module(name + ".numpy")

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

compiled = [0]
if name == "kiln":
    from kiln.execution.compilation import on_compile
    on_compile(lambda name, seconds: compiled.__setitem__(0, compiled[0] + 1))
else:
    from jax import monitoring
    def listen(event, seconds, **other):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled[0] += 1
    monitoring.register_event_duration_secs_listener(listen)

f = lib.jit(lambda x: np.sin(x) * 2 + x)

def run(n):
    f(numpy.ones(n, numpy.float32)).block_until_ready()

for n in range(1, 4):
    run(n)
gc.collect()
start = resident_mb()
begin = time.perf_counter()
for n in range(4, 4 + shapes):
    run(n)
seconds = time.perf_counter() - begin
grown = resident_mb() - start
before = compiled[0]
for n in range(4 + shapes - last, 4 + shapes):
    run(n)
again = compiled[0] - before
del before
lib.clear_caches()
left = resident_mb() - start
print(json.dumps({
    "start_mb": start, "grown_mb": grown, "compiled": compiled[0] - again,
    "compiled_again": again, "left_mb": left, "seconds": seconds,
}))
"""

FIT = """
import gc, json, os, sys
import numpy
import kiln, kiln.numpy as jnp
from benchmarks import programs
from kiln.base.process.memory import give_back
from kiln.engines.xla.runtime import client

def resident():
    give_back()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

name, equations, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
kiln.config.update("executable_cache_mb", 1 << 20)
kept = []

def one(i):
    if name == "three":
        f, x = kiln.jit(lambda x: jnp.sin(x) * 2 + x), numpy.ones(i, numpy.float32)
    else:
        make = programs.PROGRAMS[name]
        f, x = kiln.jit(make(jnp, equations, 1 + i / 64)), programs.operand(jnp)
    compiled = f.lower(x).compile().compiled
    kept.append((f, compiled))
    return compiled

for i in range(1, 4):
    one(i)
start = resident()
made = [one(i).executable.raw for i in range(4, 4 + count)]
grown = (resident() - start) / count
serialized = sum(len(client.client("cpu").serialize(raw)) for raw in made) / count
optimized = sum(
    len(module.as_serialized_hlo_module_proto()) for raw in made for module in raw.hlo_modules()
) / count
print(json.dumps({
    "program": f"{name}, {equations} equations", "grown_bytes": grown,
    "serialized_bytes": serialized, "optimized_bytes": optimized,
}))
"""
FITTED = (
    ("three", 3, 60),
    ("chain", 30, 20),
    ("chain", 300, 6),
    ("matmuls", 30, 12),
    ("matmuls", 300, 5),
    ("mixed", 30, 12),
    ("mixed", 300, 5),
)


@dataclasses.dataclass(frozen=True)
class Soak:
    """What happened to one library. Sizes are in units of 10^6 bytes."""

    library: str
    shapes: int
    start_mb: float
    grown_mb: float
    compiled: int
    compiled_again: int
    left_mb: float
    seconds: float


def _run(program: str, *arguments: object) -> Any:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    if done.returncode != 0:
        raise RuntimeError(f"a benchmark's process failed: {arguments}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def soak(library: str, shapes: int = SHAPES, last: int = LAST) -> Soak:
    """Run a library in a process of its own."""
    return Soak(library, shapes, **_run(SOAK, library, shapes, min(last, shapes)))


def broken_promises(found: Soak) -> list[str]:
    """Return what kiln promises and does not keep."""
    broken = []
    if found.grown_mb > MAX_GROWTH_MB:
        broken.append(f"grew by {found.grown_mb:.0f} MB, more than {MAX_GROWTH_MB}")
    if found.compiled_again:
        broken.append(f"compiled {found.compiled_again} programs again in the second pass")
    if found.left_mb > MAX_LEFT_MB:
        broken.append(f"kept {found.left_mb:.0f} MB after clear_caches(), more than {MAX_LEFT_MB}")
    return broken


def table(rows: Sequence[Soak]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| | shapes | growth | per shape | compiled in second pass | left once cleared | time |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        each = 1000 * row.grown_mb / row.shapes
        lines.append(
            f"| {row.library} | {row.shapes} | {row.grown_mb:.0f} MB | {each:.0f} kB "
            f"| {row.compiled_again} | {row.left_mb:.0f} MB | {report.duration(row.seconds)} |"
        )
    return "\n".join(lines)


def fit() -> str:
    """Return a table of executables, and the straight lines through it."""
    found = [_run(FIT, *arguments) for arguments in FITTED]
    lines = ["| program | resident | serialized | optimized program |", "|---|---:|---:|---:|"]
    for row in found:
        sizes = [row[f"{what}_bytes"] / 1e3 for what in ("grown", "serialized", "optimized")]
        cells = " | ".join(f"{size:.1f} kB" for size in sizes)
        lines.append(f"| {row['program']} | {cells} |")
    for y, x in (("grown", "serialized"), ("serialized", "optimized")):
        base, factor = _line([(row[f"{x}_bytes"], row[f"{y}_bytes"]) for row in found])
        lines.append(f"\n{y} = {base:.0f} bytes + {factor:.1f} * {x}")
    return "\n".join(lines)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the line with the least sum of squared relative errors."""
    rows = [(1 / y, x / y) for x, y in points]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(r[i] for r in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    return (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant


def main() -> None:
    """Run the soak, print the table, write the results; exit 1 if kiln breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--fit", action="store_true", help="fit the size of an executable instead")
    parser.add_argument("--dry-run", action="store_true", help="print, but write no results")
    arguments = parser.parse_args()
    if arguments.fit:
        print(fit())
        return
    begin = time.perf_counter()
    rows = [soak(library, arguments.shapes) for library in arguments.libraries.split(",")]
    print(f"{table(rows)}\n\n{time.perf_counter() - begin:.0f} s")
    broken = [text for row in rows if row.library == "kiln" for text in broken_promises(row)]
    if not arguments.dry_run:
        report.RESULTS.mkdir(exist_ok=True)
        result = {"machine": report.machine(), "soak": [dataclasses.asdict(row) for row in rows]}
        (report.RESULTS / "memory.json").write_text(
            json.dumps(result, indent=2) + "\n", encoding="utf-8"
        )
        (report.RESULTS / "memory.md").write_text(table(rows) + "\n", encoding="utf-8")
    for text in broken:
        print(f"kiln {text}")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
