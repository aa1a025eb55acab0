"""Time programs of libraries in fresh processes: `python -m benchmarks.end_to_end --python PYTHON`.

PYTHON has the libraries (`make bench-programs` says which). Each program runs without a cache on
disk, then once to fill one, then with it; on JAX and on kiln, in turns. A time is that of the whole
process: start, imports, tracing, compilation, the program's own work.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.end_to_end.picture import draw
from benchmarks.report import duration
from benchmarks.startup import bytecode
from benchmarks.suite.measuring import geometric_mean
from tests.libraries.oracle import DATA, RUN, load, subjects
from tests.libraries.run import ERROR, FILES_OF_JAX

JSON, TABLE, PICTURE = (report.RESULTS / f"end_to_end.{end}" for end in ("json", "md", "svg"))
COLUMNS = ("jax", "jax with its cache", "kiln", "kiln with its cache")
OF_EACH = 3
"""Programs of one subject; some subjects have forty."""
Times = dict[str, float]


def chosen(of_each: int = OF_EACH) -> list[str]:
    """Return the first programs of each subject, as `subject:program`."""
    found = []
    for subject in subjects():
        names = dict.fromkeys(name.split("/")[0] for name in load(DATA / f"{subject}.npz"))
        found += [f"{subject}:{name}" for name in list(names)[:of_each]]
    return found


def environment(library: str, cache: str) -> dict[str, str]:
    """Return the environment of a process; without a name there is no cache on disk."""
    found = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode().name, "KILN_CACHE_DIR": cache}
    for name in ("PYTHONDONTWRITEBYTECODE", "KILN_CHECK", "KILN_NUM_CPU_DEVICES"):
        found.pop(name, None)
    found |= {"JAX_PLATFORMS": "cpu", "JAX_THREEFRY_PARTITIONABLE": "1"}
    if library == "jax" and cache:
        # JAX keeps only what takes it a second, unless it is told to keep all.
        found |= {
            "JAX_COMPILATION_CACHE_DIR": cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    return found


def seconds(python: str, library: str, program: str, cache: str = "") -> float:
    """Return how long a process takes for a program.

    Raises: RuntimeError if it fails, or if it was the other library that ran.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.npz"
        under = ["-m", "kiln.as_jax"] if library == "kiln" else []
        command = [python, *under, str(RUN), program, str(output)]
        start = time.perf_counter()
        done = subprocess.run(
            command, env=environment(library, cache), capture_output=True, text=True, check=False
        )
        taken = time.perf_counter() - start
        if done.returncode != 0:
            raise RuntimeError(f"{program} on {library}:\n{done.stderr[-2000:]}")
        with np.load(output) as found:
            if bool(found[FILES_OF_JAX]) != (library == "jax"):
                raise RuntimeError(f"{program} was not run by {library}")
            failed = [str(found[name]) for name in found.files if name.endswith(f"/{ERROR}")]
    if failed:
        raise RuntimeError(f"{program} on {library}:\n{failed[0]}")
    return taken


def row(python: str, program: str, rounds: int) -> Times:
    """Return the least time of a program in each column."""
    found: dict[str, list[float]] = {column: [] for column in COLUMNS}
    with tempfile.TemporaryDirectory(prefix="kiln-cache-") as above:
        # kiln's refuses a folder that others may write to; each makes its own.
        cache = {library: os.path.join(above, library) for library in ("jax", "kiln")}
        for library in cache:
            # Also writes the bytecode of what the program imports.
            seconds(python, library, program, cache[library])
        for _ in range(rounds):
            for library in cache:
                found[library].append(seconds(python, library, program))
                warm = seconds(python, library, program, cache[library])
                found[f"{library} with its cache"].append(warm)
    return {column: min(samples) for column, samples in found.items()}


def means(rows: Mapping[str, Times]) -> dict[str, float]:
    """Return how many times faster kiln is: in sums, and geometric means over programs."""
    found = {}
    for name, one, other in (
        ("without caches", "kiln", "jax"),
        ("with caches", "kiln with its cache", "jax with its cache"),
    ):
        ratios = [times[other] / times[one] for times in rows.values()]
        sums = [sum(times[column] for times in rows.values()) for column in (other, one)]
        found[f"{name}, geometric mean"] = geometric_mean(ratios)
        found[f"{name}, least"] = min(ratios)
        found[f"{name}, all programs together"] = sums[0] / sums[1]
    return found


def table(rows: Mapping[str, Times]) -> str:
    """Return the rows as a Markdown table."""
    lines = [f"| program | {' | '.join(COLUMNS)} | times faster | with caches |"]
    lines.append("|---|" + "---:|" * (len(COLUMNS) + 2))
    for program, times in rows.items():
        cells = [duration(times[column]) for column in COLUMNS]
        cells.append(f"{times['jax'] / times['kiln']:.1f}")
        cells.append(f"{times['jax with its cache'] / times['kiln with its cache']:.1f}")
        lines.append(f"| {program.replace('_', ' ').replace(':', ': ')} | {' | '.join(cells)} |")
    totals = [duration(sum(times[column] for times in rows.values())) for column in COLUMNS]
    lines.append(f"| all {len(rows)} | {' | '.join(totals)} | | |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", required=True, help="an interpreter that has the libraries")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--of-each", type=int, default=OF_EACH, help="programs of each subject")
    parser.add_argument("--only", default="", help="only programs whose name contains this text")
    parser.add_argument("--dry-run", action="store_true", help="print, but write no results")
    options = parser.parse_args(argv)
    rows: dict[str, Times] = {}
    for program in chosen(options.of_each):
        if options.only in program:
            rows[program] = row(options.python, program, options.rounds)
            print(table({program: rows[program]}).splitlines()[2], flush=True)
    result: dict[str, Any] = {
        "machine": report.machine(),
        "rounds": options.rounds,
        "means": means(rows),
        "rows": rows,
    }
    print("\n".join(f"{name}: {times:.2f}" for name, times in result["means"].items()))
    if not options.dry_run:
        JSON.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        TABLE.write_text(table(rows) + "\n", encoding="utf-8")
        draw(result, PICTURE)
        print(f"written: {JSON}, {TABLE}, {PICTURE}")


if __name__ == "__main__":
    main()
