"""The command line of a table of rows: select, measure by turns, write the results, draw them.

`python -m benchmarks.suite`, `benchmarks.models` and `benchmarks.reports` have different rows and
peers, and nothing else of their own.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.suite import results
from benchmarks.suite.collection import chosen
from benchmarks.suite.measuring import SECONDS, limit_threads, measure
from benchmarks.suite.peers import Peer
from benchmarks.suite.row import Row

# Set once the process runs with the environment that limits threads.
MARK = "KILN_SUITE_THREADS"
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Choices for older releases of OpenBLAS, which slow NumPy's."""


def parser_of(
    name: str, description: str | None, peers: Mapping[str, Peer], rows: Sequence[Row]
) -> argparse.ArgumentParser:
    """Return the options that all tables have."""
    kinds = ", ".join(dict.fromkeys(row.kind for row in rows))
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="part of a row's name")
    parser.add_argument("--kind", action="append", default=[], help=f"of: {kinds}")
    parser.add_argument("--peers", default=",".join(peers), help="columns, in this order")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per peer and row")
    parser.add_argument("--threads", type=int, default=2, help="of every peer")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does every row run?")
    parser.add_argument("--list", action="store_true", help="print the rows, measure nothing")
    parser.add_argument("--output", type=Path, help=f"a folder for {name}.json, .md and .svg")
    return parser


def restrict_threads(name: str, threads: int) -> None:
    """Replace this process by one in which every library has that many threads.

    The libraries read their number of threads when they are imported.
    """
    if os.environ.get(MARK) == str(threads):
        return
    kept = {key: value for key, value in os.environ.items() if key not in UNSET}
    environment = {**kept, **limit_threads(threads), MARK: str(threads)}
    os.execve(
        sys.executable, [sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], environment
    )


def stop_by_exception() -> None:
    """Raise KeyboardInterrupt when the process is told to stop, so that it writes what it has.

    A shell starts processes in the background with Ctrl-C ignored; that is undone.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def ready(names: Sequence[str], peers: Mapping[str, Peer]) -> list[Peer]:
    """Import the peers that are installed, and say which are not."""
    found = []
    for name in names:
        missing = peers[name].missing()
        if missing:
            print(f"without {name}: {missing}", flush=True)
            continue
        peers[name].load()
        found.append(peers[name])
    return found


def progress(number: int, count: int, line: dict[str, Any], started: float) -> str:
    """Return a line about a measured row."""
    best, jax = results.best_peer(line), results.speed(line, "jax")
    said = [f"{jax:.2f} x jax" if jax else ""]
    if best and best != "jax":
        said.append(f"{results.speed(line, best) or 0:.2f} x {best}")
    for name, cell in line["peers"].items():
        said += [f"{name} {word}: {cell[word]}" for word in ("wrong", "failed") if word in cell]
    elapsed = time.perf_counter() - started
    left = elapsed / number * (count - number)
    place = f"[{number:3}/{count}, {left:3.0f} s left]"
    return f"{place} {line['row']:42} {'  '.join(text for text in said if text)}"


def write(result: Mapping[str, Any], folder: Path, name: str) -> None:
    """Write a result as JSON and Markdown, and draw it."""
    results.write(result, folder, name)
    if not result["rows"]:
        print("no picture: no row was measured")
    elif importlib.util.find_spec("matplotlib"):
        picture = importlib.import_module("benchmarks.suite.picture")
        picture.draw(result, folder / f"{name}.svg")
    else:
        print("no picture: matplotlib is not installed")
    print(f"written: {folder}/{name}.*")


def run(
    name: str,
    rows: Sequence[Row],
    peers: Mapping[str, Peer],
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
) -> None:
    """Measure the rows that the arguments name, or all.

    Results are written when all rows were measured, else only where `--output` says.
    """
    names = arguments.peers.split(",")
    unknown = [one for one in names if one not in peers]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(peers)}")
    try:
        selected = chosen(arguments.texts, arguments.kind, rows)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        print("\n".join(f"{row.kind:18} {row.name}" for row in selected))
        return
    restrict_threads(name, arguments.threads)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    present, lines, started = ready(names, peers), [], time.perf_counter()
    stop_by_exception()
    try:
        for number, row in enumerate(selected, 1):
            cells = measure(row, present, arguments.seconds, arguments.tiny)
            lines.append(results.line(row, cells))
            print(progress(number, len(selected), lines[-1], started), flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: the results of {len(lines)} rows", flush=True)
    settings = {
        "threads": arguments.threads,
        "seconds": arguments.seconds,
        "tiny": arguments.tiny,
        "peers": [peer.name for peer in present],
    }
    result = results.whole(lines, settings)
    print(f"\n{results.summary(result)}\n\n{time.perf_counter() - started:.0f} s")
    everything = len(lines) == len(rows) and len(present) > 1 and not arguments.tiny
    if arguments.output or everything:
        write(result, arguments.output or report.RESULTS, name)
