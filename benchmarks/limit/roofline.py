"""Which peak binds a program, and the part of it that a time reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.limit import arithmetic, bandwidth
from benchmarks.limit.counting import Counts

Peaks = dict[str, Any]


def peaks(threads: int) -> Peaks:
    """Measure the machine: `gflops` by type, `gigabytes` by level and kind, by threads."""
    found: Peaks = {"gflops": {}, "gigabytes": {}, "caches": bandwidth.caches()}
    counts = sorted({1, threads})
    for dtype in filter(arithmetic.is_there, arithmetic.LANES):
        found["gflops"][dtype] = {str(n): arithmetic.gflops(dtype, n) for n in counts}
    for level, touched in bandwidth.working_sets().items():
        found["gigabytes"][level] = {
            kind: {str(n): bandwidth.gigabytes(kind, touched, n) for n in counts}
            for kind in bandwidth.KINDS
        }
    return found


def level(found: Peaks, moved: float, threads: int) -> str:
    """Return the level that holds so many bytes, shared by the threads."""
    for name, size in found["caches"].items():
        shared = threads if name in ("L1", "L2") else 1
        if moved <= size * shared:
            return str(name)
    return "memory"


def bound(found: Peaks, counts: Counts, threads: int, call_s: float) -> dict[str, Any]:
    """Return the least time that the peaks allow, and which of them it is.

    Arithmetic of several types is added up. Raises: KeyError for a number of threads that was not
    measured.
    """
    n = str(threads)
    work = {t: x / found["gflops"][t][n] / 1e9 for t, x in counts.flops.items() if x}
    held = level(found, counts.read + counts.written, threads)
    speeds: Mapping[str, Any] = found["gigabytes"][held]
    writing = max(speeds["write"][n], speeds["write past the caches"][n])
    moving = (counts.read / speeds["read"][n] + counts.written / writing) / 1e9
    times = {"call": call_s, held: moving}
    if work:
        times[max(work, key=work.__getitem__)] = sum(work.values())
    name = max(times, key=times.__getitem__)
    return {"by": name, "seconds": times[name], "times": times, "level": held}
