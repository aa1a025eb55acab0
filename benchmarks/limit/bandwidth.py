"""How many bytes a second the machine reads, writes and copies, by cache level."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.limit.loops import LINE, aligned, calibrated, compiled, seconds_each

KINDS = ("read", "write", "write past the caches", "copy")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
USUAL = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
MEMORY = 384 << 20
LANES = 8
SAMPLE_S = 0.001
"""Short samples fit between interruptions."""
ROUNDS = 200
SPENT_S = 1.0
"""How long the rounds of one figure take at most, once there were three."""


def caches() -> dict[str, int]:
    """Return the sizes of the caches of data, in bytes; usual ones if the system hides them."""
    found = {}
    for entry in sorted(CACHES.glob("index*")):
        texts = [(entry / name).read_text().strip() for name in ("level", "type", "size")]
        if texts[1] != "Instruction":
            found[f"L{texts[0]}"] = int(texts[2].rstrip("KMG")) << {"K": 10, "M": 20}[texts[2][-1]]
    return found or USUAL


def working_sets() -> dict[str, int]:
    """Return how many bytes a thread touches to measure each level: half a cache, at most 8 MiB."""
    halves = {name: min(size // 2, 8 << 20) for name, size in caches().items()}
    return {**halves, "memory": MEMORY}


def _ir(kind: str) -> str:
    vector = "<8 x i64>"
    reads, writes = kind in ("read", "copy"), kind != "read"
    past = ", !nontemporal !0" if kind == "write past the caches" else ""
    body, phis, tail = [], [], []
    for i in range(LANES):
        place = f"  %o{i} = add i64 %i, {i * LINE}"
        body.append(place)
        value = "splat (i64 7)"
        if reads:
            body += [
                f"  %s{i} = getelementptr i8, ptr %src, i64 %o{i}",
                f"  %v{i} = load {vector}, ptr %s{i}, align 64",
            ]
            value = f"%v{i}"
        if writes:
            body += [
                f"  %d{i} = getelementptr i8, ptr %dst, i64 %o{i}",
                f"  store {vector} {value}, ptr %d{i}, align 64{past}",
            ]
        else:
            phis.append(f"  %a{i} = phi {vector} [zeroinitializer, %outer], [%b{i}, %loop]")
            body.append(f"  %b{i} = or {vector} %a{i}, {value}")
            # The sum of a pass is stored, so that no load is dead.
            tail += [
                f"  %t{i} = getelementptr i8, ptr %dst, i64 {i * LINE}",
                f"  store {vector} %b{i}, ptr %t{i}, align 64",
            ]
    lines = [
        "define void @work(ptr %dst, ptr %src, i64 %bytes, i64 %passes) {",
        "entry:",
        "  br label %outer",
        "outer:",
        "  %pass = phi i64 [0, %entry], [%after, %ended]",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %outer], [%next, %loop]",
        *phis,
        *body,
        f"  %next = add i64 %i, {LANES * LINE}",
        "  %more = icmp ult i64 %next, %bytes",
        "  br i1 %more, label %loop, label %ended",
        "ended:",
        *tail,
        "  %after = add i64 %pass, 1",
        "  %again = icmp ult i64 %after, %passes",
        "  br i1 %again, label %outer, label %done",
        "done:",
        "  ret void",
        "}",
        "!0 = !{i32 1}",
    ]
    return "\n".join(lines)


@functools.cache
def _loop(kind: str) -> Callable[..., Any]:
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return compiled(_ir(kind), "work", types)


def gigabytes(kind: str, touched: int, threads: int = 1, rounds: int = ROUNDS) -> float:
    """Return the greatest bandwidth over some rounds, in GB/s.

    `touched` counts the bytes of one thread. A copy counts what it reads and what it writes, each
    half of `touched`; what a cache reads before a write is not counted.
    """
    work, step = _loop(kind), LANES * LINE
    length = max(step, touched // (2 if kind == "copy" else 1) // step * step)
    moved = 2 * length if kind == "copy" else length
    pairs = [(aligned(length), aligned(length if kind == "copy" else step)) for _ in range(threads)]
    if kind != "copy":
        # What is read alone lies in the longer buffer, and so does what is written alone.
        pairs = [(b, a) if kind == "read" else (a, b) for a, b in pairs]

    def calls_of(passes: int) -> list[Callable[[], Any]]:
        return [
            functools.partial(work, dst.ctypes.data, src.ctypes.data, length, passes)
            for dst, src in pairs
        ]

    passes = calibrated(calls_of, SAMPLE_S)
    once = seconds_each(calls_of(passes), 1)
    count = min(rounds, max(3, int(SPENT_S / once)))
    seconds = min(once, seconds_each(calls_of(passes), count))
    return threads * passes * moved / seconds / 1e9
