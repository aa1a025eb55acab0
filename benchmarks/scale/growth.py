"""How start-up, compiling once, checkpoints and failures grow to 4,096 processes: formulas.

`python -m benchmarks.scale.growth` writes a table of `docs/scale.md`, and draws it. Constants are
measured here (`crowd.py`, `many_processes.py`, `first_step.py`), except those of the machine, which
are those of `model.py`, and the time between failures, which is stated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report import RESULTS, duration
from benchmarks.scale.model import Machine

COUNTS = (16, 64, 256, 1024, 4096)
PICTURE = RESULTS / "scale_processes.svg"
DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
MEBIBYTE = 1 << 20
YEAR_S = 365.25 * 86400


@dataclasses.dataclass(frozen=True)
class Constants:
    """Seconds, unless a name tells otherwise."""

    process: float = 0.49
    """Python and imports, of one process alone (`many_processes`)."""
    connection: float = 1.3e-3
    """Of process 0, to authenticate another one (`crowd`, 4,096 connections)."""
    exchange: float = 8.8e-5
    """Of process 0 and its peers, for each text of an exchange (`crowd`, 4,096 processes)."""
    compile: float = 4.6
    """The first step of the small transformer in one process (`first_step`)."""
    executable: int = MEBIBYTE
    """Bytes of a program that others receive: a round number, not measured."""
    leaf: float = 4.5e-5
    """Of each process, to save a leaf (`many_processes`, 10,000 leaves, 16 processes)."""
    read_leaf: float = 7.5e-5
    """Of each process, to restore a leaf."""
    owner: float = 1.0e-6
    """Of each process, to read from the index which process wrote a block, and its device: once
    for each layout (4,096 processes)."""
    noticed: float = 0.1
    """Until a killed process is known to all."""
    between_failures: float = 5 * YEAR_S
    """Of one process and its machine: stated."""


LEAVES = 10_000
STAGES = 3
"""Exchanges of a checkpoint."""
LAYOUTS = 10
"""Different layouts of the leaves, such as one for each kind of a layer's weights."""


def start(n: int, c: Constants) -> float:
    """Return the time until all processes have met: one process after the other at process 0."""
    return c.process + n * c.connection


def barrier(n: int, c: Constants) -> float:
    """Return the time of an exchange of equal short texts."""
    return n * c.exchange


def broadcast(n: int, nbytes: int, machine: Machine) -> float:
    """Return the time of a tree: log2(n) messages, one after the other."""
    return math.ceil(math.log2(n)) * (machine.latency_s + nbytes / machine.far)


def gather(n: int, nbytes: int, machine: Machine) -> float:
    """Return the time in which each process receives the arrays of all: a ring."""
    return (n - 1) * (machine.latency_s + nbytes / machine.far)


def compiled_once(n: int, c: Constants, machine: Machine) -> float:
    """Return the time of a first step: one compiles, process 0 sends the program to all others."""
    return c.compile + n * c.executable / machine.far


def save(n: int, c: Constants, leaves: int = LEAVES) -> float:
    """Return the time of saving leaves that all processes hold parts of, without their bytes."""
    return STAGES * barrier(n, c) + leaves * c.leaf + LAYOUTS * n * c.owner


def restore(n: int, c: Constants, leaves: int = LEAVES) -> float:
    """Return the time of restoring them: each process reads the index, and its own file."""
    return leaves * c.read_leaf + LAYOUTS * n * c.owner


def interval(n: int, c: Constants) -> float:
    """Return the best time between checkpoints. Source: Young 1974, its first-order formula."""
    return math.sqrt(2 * save(n, c) * c.between_failures / n)


def lost(n: int, c: Constants, machine: Machine) -> float:
    """Return the share of the time that is lost: by saving, by steps run again, by starting."""
    every, rate = interval(n, c), n / c.between_failures
    again = c.noticed + start(n, c) + compiled_once(n, c, machine) + restore(n, c)
    return save(n, c) / every + rate * (every / 2 + again)


def rows(c: Constants, machine: Machine) -> Iterator[str]:
    """Yield the table."""
    yield (
        "| processes | start | barrier | broadcast of 1 MiB | as a gather | first step | save "
        "| restore | best interval | lost |"
    )
    yield f"|---:|{'---:|' * 9}"
    for n in COUNTS:
        times = (
            start(n, c),
            barrier(n, c),
            broadcast(n, MEBIBYTE, machine),
            gather(n, MEBIBYTE, machine),
            compiled_once(n, c, machine),
            save(n, c),
            restore(n, c),
        )
        cells = " | ".join(map(duration, times))
        minutes = interval(n, c) / 60
        yield f"| {n} | {cells} | {minutes:.0f} min | {lost(n, c, machine):.1%} |"


def draw(c: Constants, machine: Machine, path: Path) -> None:
    """Draw the times on logarithmic axes."""
    figure = Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.subplots()
    lines = {
        "start": [start(n, c) for n in COUNTS],
        "barrier": [barrier(n, c) for n in COUNTS],
        "broadcast, 1 MiB": [broadcast(n, MEBIBYTE, machine) for n in COUNTS],
        "first step": [compiled_once(n, c, machine) for n in COUNTS],
        "save, 10,000 leaves": [save(n, c) for n in COUNTS],
        "restore": [restore(n, c) for n in COUNTS],
    }
    for name, values in lines.items():
        axes.plot(COUNTS, values, marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(COUNTS, [str(n) for n in COUNTS])
    axes.set_xlabel("processes")
    axes.set_ylabel("seconds, modeled")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with mpl.rc_context({"svg.hashsalt": "kiln"}):
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Write the table and the picture."""
    constants, machine = Constants(), Machine()
    draw(constants, machine, PICTURE)
    begin, end = "<!-- growth: begin -->", "<!-- growth: end -->"
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(begin)
    text = "\n".join((before + begin, *rows(constants, machine), end + rest.split(end)[1]))
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
