"""A profile of a program of several processes: one trace, and what their collectives took.

Each process writes its part beside the trace; process 0 joins them. The clocks of machines differ,
so times are compared by the ends of collectives, which all processes leave at about the same time.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.base.files.writing import write_text
from kiln.base.lazy import json, xla_collectives, xla_tracing
from kiln.base.named_tuples import NamedTuple
from kiln.core.processes.peers import Peers
from kiln.tools.command_line import WrongUse
from kiln.tools.trace_events import Json, Span

COLLECTIVE, OPERATION = "collective", "operation of XLA"
ENDS_TOGETHER = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
"""The kinds that end in all processes at about the same time."""


class Row(NamedTuple):
    """A collective operation of a program: bytes of its operands on a device, and seconds.

    `least` and `most` are the mean times of a run in the process in which it is shortest, and
    longest. Processes that come early wait in it: the shortest is about what it takes itself.
    """

    program: str
    name: str
    kind: str
    nbytes: int
    size: int
    runs: int
    least: float
    most: float
    last: int
    """The process in which it is shortest: the others wait for it."""


@contextlib.contextmanager
def recorded() -> Iterator[list[Span]]:
    """Record the operations that XLA runs in a context, as spans."""
    found: list[Span] = []
    with xla_tracing.recorded() as operations:
        yield found
    for each in operations:
        known = xla_collectives.known.get((each.program, each.name))
        shown: Json = {"program": each.program}
        if known is not None:
            shown |= {"kind": known.kind, "bytes": known.nbytes, "devices": known.size}
        category = OPERATION if known is None else COLLECTIVE
        found.append(Span(each.name, category, each.start, each.end, shown))


def joined(path: Path, others: Peers, trace: Json) -> Json | None:
    """Write this process's part of a trace; in process 0, return the trace of all.

    Raises: PeerError if another process has failed: the parts stay beside the trace. WrongUse if
        the processes do not share the folder.
    """
    asked = f"joining the parts of {path}"
    part = path.with_name(f"{path.name}.process-{others.index}")
    write_text(part, json.dumps(trace))
    others.exchange("profile/written", "", asked)
    if others.index:
        others.exchange("profile/joined", "", asked)
        return None
    try:
        parts = [path.with_name(f"{path.name}.process-{i}") for i in range(others.count)]
        missing = [each.name for each in parts if not each.exists()]
        if missing:
            wrong = f"{', '.join(missing)} is not there: the processes do not share a file system"
            raise WrongUse(wrong, "name a trace in a folder that all of them share")
        traces = [json.loads(each.read_text(encoding="utf-8")) for each in parts]
        for each in parts:
            each.unlink()
    finally:
        others.exchange("profile/joined", "", asked)
    return merged(traces)


def merged(traces: Sequence[Json]) -> Json:
    """Return one trace with a row of tracks for each process, on the clock of process 0."""
    events: list[Json] = []
    reference = _ends(traces[0])
    for rank, trace in enumerate(traces):
        own = _ends(trace)
        shared = [own[key] - reference[key] for key in own.keys() & reference.keys()]
        ahead = statistics.median(shared) if shared else 0.0
        for event in trace["traceEvents"]:
            moved = {**event, "pid": rank}
            if event["ph"] == "M" and event["name"] == "process_name":
                moved["args"] = {"name": f"process {rank}"}
            if "ts" in event:
                moved["ts"] = event["ts"] - ahead
            events.append(moved)
        order = {"name": "process_sort_index", "args": {"sort_index": rank}}
        events.append({"ph": "M", "pid": rank, "tid": 0, **order})
    first = min((event["ts"] for event in events if "ts" in event), default=0.0)
    for event in events:
        if "ts" in event:
            event["ts"] -= min(first, 0.0)
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _collectives(events: Iterable[Json]) -> Iterator[tuple[tuple[int, str, str], Json]]:
    """Yield the collectives of a trace with their process, program and name."""
    for event in events:
        if event.get("cat") == COLLECTIVE:
            yield (event["pid"], event["args"]["program"], event["name"]), event


def _ends(trace: Json) -> Mapping[tuple[str, str, int], float]:
    """Return when the runs of collectives ended that all processes leave together."""
    found, runs = {}, defaultdict[tuple[str, str], int](int)
    for (_, program, name), event in _collectives(trace["traceEvents"]):
        if event["args"]["kind"] in ENDS_TOGETHER:
            number = runs[program, name] = runs[program, name] + 1
            found[program, name, number] = event["ts"] + event["dur"]
    return found


def rows(trace: Json) -> list[Row]:
    """Return the collectives of a merged trace, those that took longest first."""
    times: dict[tuple[str, str], dict[int, list[float]]] = {}
    shown: dict[tuple[str, str], Any] = {}
    for (process, program, name), event in _collectives(trace["traceEvents"]):
        by_process = times.setdefault((program, name), defaultdict(list))
        by_process[process].append(event["dur"] / 1e6)
        shown[program, name] = event["args"]
    found = []
    for key, by_process in times.items():
        means = {process: statistics.fmean(each) for process, each in by_process.items()}
        last = min(means, key=lambda process: means[process])
        args, runs = shown[key], max(map(len, by_process.values()))
        cost = (args["kind"], args["bytes"], args["devices"], runs)
        found.append(Row(*key, *cost, means[last], max(means.values()), last))
    return sorted(found, key=lambda row: -row.runs * row.most)


def overlap(trace: Json) -> tuple[float, float]:
    """Return the seconds of collectives, and those in which their process computes meanwhile.

    Both are sums over the processes. An operation of XLA in another thread is a computation.
    """
    spans: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for event in trace["traceEvents"]:
        if event.get("cat") in (COLLECTIVE, OPERATION):
            own = spans.setdefault(event["pid"], {COLLECTIVE: [], OPERATION: []})
            own[event["cat"]].append((event["ts"], event["ts"] + event["dur"]))
    total = both = 0.0
    for own in spans.values():
        exchanges, computations = _union(own[COLLECTIVE]), _union(own[OPERATION])
        total += sum(end - start for start, end in exchanges)
        both += sum(
            max(0.0, min(end, stop) - max(start, begin))
            for start, end in exchanges
            for begin, stop in computations
        )
    return total / 1e6, both / 1e6


def _union(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
