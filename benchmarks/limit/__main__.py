"""Measure this machine's peaks, and time the suite's rows against them.

`python -m benchmarks.limit [TEXT ...] --help`. A TEXT chooses the rows whose names contain it.
Writes `results/limit.json`, `.md` and `.svg` when all rows were measured, else only where
`--output` says.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import warnings
from typing import Any

from benchmarks import report
from benchmarks.limit import latency, results, roofline
from benchmarks.limit.counting import Counts, counted
from benchmarks.suite.collection import ROWS, chosen
from benchmarks.suite.command import parser_of, ready, restrict_threads
from benchmarks.suite.measuring import measure, reason, same_options
from benchmarks.suite.peers import PEERS as SUITE_PEERS
from benchmarks.suite.peers import ArrayLibrary, Peer, mapped
from benchmarks.suite.row import Row, Work

PEERS: dict[str, Peer] = {name: SUITE_PEERS[name] for name in ("kiln", "jax")}


def counts_of(row: Row, work: Work, kiln: ArrayLibrary) -> Counts:
    """Count what a row must do, from the jaxpr that kiln traces."""
    root = kiln.library.root

    def program(*arguments: Any) -> Any:
        return work.program(kiln.library, *arguments)

    static = work.jit.get("static_argnums", ())
    with same_options(row, [kiln]):
        arguments = mapped(kiln.library.np.asarray, work.arguments)
        return counted(root.make_jaxpr(program, static_argnums=static)(*arguments))


def main() -> None:
    """Measure the peaks, then the rows that the command line names, or all."""
    parser = parser_of("limit", __doc__, PEERS, ROWS)
    parser.add_argument("--peaks", action="store_true", help="measure no rows")
    arguments = parser.parse_args()
    names = arguments.peers.split(",")
    if "kiln" not in names or not set(names) <= set(PEERS):
        parser.error("the peers are kiln, or kiln,jax")
    try:
        rows = chosen(arguments.texts, arguments.kind)
    except ValueError as error:
        parser.error(str(error))
    restrict_threads("limit", arguments.threads)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    peers, threads = ready(names, PEERS), arguments.threads
    kiln = PEERS["kiln"]
    assert isinstance(kiln, ArrayLibrary)
    libraries = {peer.name: peer.library for peer in peers if isinstance(peer, ArrayLibrary)}
    latencies = latency.measured(libraries, threads)
    peaks = roofline.peaks(threads)
    settings = {name: getattr(arguments, name) for name in ("threads", "seconds", "tiny")}
    result = results.whole(peaks, latencies, [], {}, settings)
    print(results.peaks_table(result), flush=True)
    for number, row in enumerate([] if arguments.peaks else rows, 1):
        try:
            counts = counts_of(row, row.work(arguments.tiny), kiln)
        # A row whose program cannot be traced alone is part of the result.
        except Exception as error:  # noqa: BLE001
            result["failed"][row.name] = reason(error)
            print(f"[{number:3}/{len(rows)}] {row.name:42} {reason(error)}", flush=True)
            continue
        limit = roofline.bound(peaks, counts, threads, latencies["call, kiln"])
        cells = measure(row, peers, arguments.seconds, arguments.tiny)
        one = results.line(row, counts, limit, cells)
        result["rows"].append(one)
        part = one["parts"].get("kiln")
        said = "open loop" if part is None else f"{part:.2f} of {limit['by']}"
        print(f"[{number:3}/{len(rows)}] {row.name:42} {said}", flush=True)
    if result["rows"]:
        print(f"\n{results.summary(result)}\n")
    everything = len(result["rows"]) + len(result["failed"]) == len(ROWS) and not arguments.tiny
    if arguments.output or everything:
        folder = arguments.output or report.RESULTS
        results.write(result, folder)
        if importlib.util.find_spec("matplotlib"):
            picture = importlib.import_module("benchmarks.limit.picture")
            picture.draw(result, folder / "limit.svg")
        else:
            print("no picture: matplotlib is not installed")
        print(f"written: {folder}/limit.*")


if __name__ == "__main__":
    main()
