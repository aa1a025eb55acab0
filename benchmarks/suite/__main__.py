"""Time kiln beside its peers: `python -m benchmarks.suite [TEXT ...] --help`.

A TEXT chooses the rows whose names contain it. Writes `results/suite.json`, `.md` and `.svg` when
all rows were measured, else only where `--output` says.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.suite import results
from benchmarks.suite.collection import ROWS, chosen
from benchmarks.suite.measuring import SECONDS, limit_threads, measure
from benchmarks.suite.peers import PEERS, Peer
from benchmarks.suite.row import KINDS

# Set once the process runs with the environment that limits threads.
MARK = "KILN_SUITE_THREADS"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="part of a row's name")
    parser.add_argument("--kind", action="append", default=[], help=f"of: {', '.join(KINDS)}")
    parser.add_argument("--peers", default=",".join(PEERS), help="columns, in this order")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="per peer and row")
    parser.add_argument("--threads", type=int, default=2, help="of every peer")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does every row run?")
    parser.add_argument("--list", action="store_true", help="print the rows, measure nothing")
    parser.add_argument("--output", type=Path, help="a folder for suite.json, .md and .svg")
    return parser


def ready(names: list[str]) -> list[Peer]:
    """Import the peers that are installed, and say which are not."""
    peers = []
    for name in names:
        missing = PEERS[name].missing()
        if missing:
            print(f"without {name}: {missing}", flush=True)
            continue
        PEERS[name].load()
        peers.append(PEERS[name])
    return peers


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


def main() -> None:
    """Measure the rows that the command line names, or all."""
    parser = _parser()
    arguments = parser.parse_args()
    names = arguments.peers.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    try:
        rows = chosen(arguments.texts, arguments.kind)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        print("\n".join(f"{row.kind:18} {row.name}" for row in rows))
        return
    if os.environ.get(MARK) != str(arguments.threads):
        # The libraries read their number of threads when they are imported.
        extra = {**limit_threads(arguments.threads), MARK: str(arguments.threads)}
        command = [sys.executable, "-m", "benchmarks.suite", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **extra})
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    peers, lines, started = ready(names), [], time.perf_counter()
    try:
        for number, row in enumerate(rows, 1):
            line = results.line(row, measure(row, peers, arguments.seconds, arguments.tiny))
            lines.append(line)
            print(progress(number, len(rows), line, started), flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: the results of {len(lines)} rows", flush=True)
    settings = {"threads": arguments.threads, "seconds": arguments.seconds, "tiny": arguments.tiny}
    result = results.whole(lines, settings)
    print(f"\n{results.summary(result)}\n\n{time.perf_counter() - started:.0f} s")
    everything = len(lines) == len(ROWS) and len(peers) > 1 and not arguments.tiny
    if arguments.output or everything:
        folder = arguments.output or results.JSON.parent
        results.write(result, folder)
        if importlib.util.find_spec("matplotlib"):
            picture = importlib.import_module("benchmarks.suite.picture")
            picture.draw(result, folder / results.PICTURE.name)
        else:
            print("no picture: matplotlib is not installed")
        print(f"written: {folder}/suite.*")


if __name__ == "__main__":
    main()
