"""The times of XLA's operations, as its profiler records them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from jaxlib import _profile_data, _profiler

from kiln.base.named_tuples import NamedTuple


class Operation(NamedTuple):
    """An operation of a program that has run, in seconds of `time.perf_counter`."""

    name: str
    program: str
    start: float
    end: float


@contextlib.contextmanager
def recorded() -> Iterator[list[Operation]]:
    """Record the operations that XLA runs in a context; the list is filled at its end."""
    options = _profiler.ProfileOptions()
    # Its samples of Python's calls would cost more than the operations.
    options.python_tracer_level = 0
    found: list[Operation] = []
    session = _profiler.ProfilerSession(options)
    begin = time.perf_counter()
    try:
        yield found
    finally:
        data = _profile_data.ProfileData.from_serialized_xspace(session.stop())
        found += _operations(data, begin)


def _operations(data: _profile_data.ProfileData, begin: float) -> list[Operation]:
    """Return the operations of all threads in order of time.

    Events named `end: ...` tell when an executor goes on, which may be long after an operation.
    """
    found = []
    for plane in data.planes:
        for line in plane.lines:
            for event in line.events:
                shown = {name: value for name, value in event.stats if name is not None}
                if "hlo_op" in shown:
                    start = begin + event.start_ns / 1e9
                    name, program = str(shown["hlo_op"]), str(shown.get("hlo_module", ""))
                    end = start + event.duration_ns / 1e9
                    found.append(Operation(name, program, start, end))
    return sorted(found, key=lambda each: each.start)
