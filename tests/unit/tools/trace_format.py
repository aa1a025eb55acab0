"""The trace event format, as its specification has it, for what `kiln profile` writes.

Source: "Trace Event Format", the document that chrome://tracing and Perfetto refer to.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

NUMBER = (int, float)
REQUIRED: dict[str, dict[str, Any]] = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER},
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "C": {"name": str, "pid": int, "ts": NUMBER, "args": dict},
}
"""The keys of complete events, of metadata and of counters."""
METADATA: dict[str, tuple[str, type]] = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
}
EPSILON = 1e-3
"""A nanosecond: times are microseconds as floats."""


def wrong(trace: Any) -> list[str]:
    """Return what is wrong with a trace; nothing if it follows the format."""
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no list of traceEvents"]
    found = []
    if trace.get("displayTimeUnit") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    named, tracks = set(), defaultdict(list)
    for number, event in enumerate(trace["traceEvents"]):
        keys = REQUIRED.get(event.get("ph"))
        if keys is None:
            found.append(f"event {number} has an unknown phase")
            continue
        for key, kind in keys.items():
            if not isinstance(event.get(key), kind) or isinstance(event.get(key), bool):
                found.append(f"event {number} ({event['ph']}) has no {key}")
        if not isinstance(event.get("args", {}), dict):
            found.append(f"event {number} has args that are not an object")
        if found:
            continue
        match event["ph"]:
            case "X":
                if event["ts"] < 0 or event["dur"] < 0:
                    found.append(f"event {number} is before the beginning, or ends before it")
                tracks[event["pid"], event["tid"]].append(event)
            case "M":
                key, kind = METADATA.get(event["name"], ("", str))
                if not isinstance(event["args"].get(key), kind):
                    found.append(f"event {number} is unknown metadata")
                named.add((event["pid"], event["tid"]))
            case _:
                if not all(isinstance(x, NUMBER) for x in event["args"].values()):
                    found.append(f"event {number} counts what is not a number")
    for track, events in tracks.items():
        if track not in named:
            found.append(f"track {track} has no name")
        found += _overlapping(events)
    return found


def _overlapping(events: list[dict[str, Any]]) -> list[str]:
    opened: list[dict[str, Any]] = []
    found = []
    for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
        while opened and opened[-1]["ts"] + opened[-1]["dur"] <= event["ts"] + EPSILON:
            opened.pop()
        if opened and event["ts"] + event["dur"] > opened[-1]["ts"] + opened[-1]["dur"] + EPSILON:
            found.append(f"{event['name']} overlaps {opened[-1]['name']} on its track")
        opened.append(event)
    return found
