"""A profile in the format of trace events, which Perfetto and chrome://tracing open.

Spans of a track nest: each lies within the one around it, or beside it. Spans that overlap, such as
calls of a program on two threads, are on tracks of their own.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.llvm.measuring import Event
from kiln.engines.native.reports.profiling import Profile
from kiln.jit.signatures.explain import Record, reason_text
from kiln.tools.samples import Sample, Samples, spans

Json = dict[str, Any]


class Span(NamedTuple):
    """Something that took time: from `start` to `end`, in seconds of `time.perf_counter`."""

    name: str
    category: str
    start: float
    end: float
    shown: Json


def trace(
    profiles: Sequence[Profile],
    records: Sequence[Record],
    transfers: Sequence[Span],
    samples: Samples,
    begin: float,
    others: Sequence[Span] = (),
) -> Json:
    """Return a trace; its times are microseconds since `begin`.

    `others` are spans of further tracks, one for each category.
    """
    tracks = [
        *_tracks("operations", [span for each in profiles for span in calls(each)]),
        *_tracks("traces and compiles", _of_records(records)),
        *_tracks("transfers", transfers),
    ]
    for category in dict.fromkeys(span.category for span in others):
        own = [span for span in others if span.category == category]
        tracks += _tracks(f"{category}s" if category == "collective" else "operations of XLA", own)
    by_thread: defaultdict[int, list[Sample]] = defaultdict(list)
    for sample in samples.stacks:
        by_thread[sample.thread].append(sample)
    for number, found in enumerate(by_thread.values()):
        name = "Python, sampled" if number == 0 else f"Python, sampled: thread {number + 1}"
        tracks += _tracks(name, _of_python(found))
    process = os.getpid()
    events = [_named("process_name", process, 0, "kiln profile")]
    for number, (name, track) in enumerate(tracks, 1):
        events.append(_named("thread_name", process, number, name))
        events += [_event(span, process, number, begin) for span in track]
    events += [
        {
            "ph": "C",
            "name": "memory of the process",
            "pid": process,
            "tid": 0,
            "ts": max(1e6 * (at - begin), 0.0),
            "args": {"bytes": size},
        }
        for at, size in samples.memory
    ]
    return {"displayTimeUnit": "ns", "traceEvents": events}


def _named(what: str, process: int, track: int, name: str) -> Json:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": {"name": name}}


def _event(span: Span, process: int, track: int, begin: float) -> Json:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.category,
        "pid": process,
        "tid": track,
        "ts": 1e6 * (span.start - begin),
        "dur": 1e6 * (span.end - span.start),
        "args": span.shown,
    }


def calls(profile: Profile) -> Iterator[Span]:
    """Yield the recorded calls of a program, each from its first statement to its last, and these.

    Events of calls that overlap on several threads are not assigned to calls.
    """
    statements = profile.measurements.statements
    order = sorted(profile.measurements.events(), key=lambda event: event.start)
    made = [_operation(profile, statements[event.statement][0], event) for event in order]
    yield from made
    if any(a.end > b.start for a, b in itertools.pairwise(order)):
        return
    begin = 0
    for i in range(1, len(order) + 1):
        # Statements of a call end in the order of the program.
        if i == len(order) or order[i].statement <= order[i - 1].statement:
            shown = {"statements": i - begin}
            yield Span(profile.name, "call", made[begin].start, made[i - 1].end, shown)
            begin = i


def _operation(profile: Profile, statement: Any, event: Event) -> Span:
    shown = {"lines": profile.places(statement), "flops": event.flops, "bytes": event.bytes}
    name = profile.headings[statement]
    return Span(name, "operation", event.start / 1e9, event.end / 1e9, shown)


def first_calls(records: Iterable[Record]) -> float:
    """Return the seconds in which something was traced or compiled: functions trace others."""
    found, end = 0.0, 0.0
    for span in sorted(_of_records(records), key=lambda each: each.start):
        found += max(span.end - max(span.start, end), 0.0)
        end = max(end, span.end)
    return found


def _of_records(records: Iterable[Record]) -> Iterator[Span]:
    for record in records:
        shown = {
            "definition": record.definition,
            "called at": record.source,
            "why": [*map(reason_text, record.differences)],
        }
        parts = (
            ("trace", record.traced_at, record.trace_seconds),
            ("compile", record.compiled_at, record.compile_seconds),
        )
        for category, start, seconds in parts:
            if seconds:
                yield Span(f"{category} {record.function}", category, start, start + seconds, shown)


def _of_python(samples: Sequence[Sample]) -> Iterator[Span]:
    for frame, start, end in spans(list(samples)):
        place = {"line": f"{frame.file}:{frame.line}"} if frame.file else {}
        yield Span(frame.name, "python", start, end, place)


def _tracks(name: str, spans: Iterable[Span]) -> list[tuple[str, list[Span]]]:
    """Divide spans into tracks in which they nest."""
    tracks: list[tuple[list[Span], list[Span]]] = []
    for span in sorted(spans, key=lambda each: (each.start, -each.end)):
        for track, opened in tracks:
            while opened and opened[-1].end <= span.start:
                opened.pop()
            if not opened or span.end <= opened[-1].end:
                track.append(span)
                opened.append(span)
                break
        else:
            tracks.append(([span], [span]))
    names = (name if i == 0 else f"{name} ({i + 1})" for i in range(len(tracks)))
    return [(each, track) for each, (track, _) in zip(names, tracks, strict=True)]
