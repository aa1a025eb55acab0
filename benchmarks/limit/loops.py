"""Loops in LLVM IR, compiled for the host CPU and run by one thread or several at once.

kiln takes no part: the peaks are those of the machine.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy

LINE = 64
"""Bytes of a cache line, and of the vectors of AVX-512."""
_engines: list[Any] = []
"""The owners of compiled code, which stays loaded."""


def features() -> frozenset[str]:
    """Return the names of the instruction sets of the host CPU."""
    flags = llvm.get_host_cpu_features()
    return frozenset(name for name, has in flags.items() if has)


def vector_bytes() -> int:
    """Return how long the vectors of the host CPU are."""
    if "avx512f" in features():
        return 64
    return 32 if "avx2" in features() else 16


def compiled(ir: str, name: str, arguments: Sequence[Any]) -> Callable[..., Any]:
    """Compile a function of a module; calls of it release the GIL."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    module = llvm.parse_assembly(ir)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    address = engine.get_function_address(name)
    return ctypes.CFUNCTYPE(None, *arguments)(address)


def aligned(count: int) -> numpy.ndarray:
    """Return bytes that begin on a cache line, all written."""
    raw = numpy.ones(count + LINE, numpy.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + count]


def spans(calls: Sequence[Callable[[], Any]]) -> list[tuple[float, float]]:
    """Run calls at the same time, one per thread; return when each began and ended."""
    barrier = threading.Barrier(len(calls))
    found: list[tuple[float, float]] = []

    def run(call: Callable[[], Any]) -> None:
        barrier.wait()
        start = time.perf_counter()
        call()
        found.append((start, time.perf_counter()))

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def seconds_each(calls: Sequence[Callable[[], Any]], rounds: int) -> float:
    """Return the least time per call of several rounds, over the threads of a round.

    That is the harmonic mean of the threads' own times: how far apart they begin does not count.
    Only rounds in which all ran at the same time for four fifths of the longest time are taken, if
    there are any.
    """
    best = {True: float("inf"), False: float("inf")}
    for _ in range(rounds):
        found = spans(calls)
        lengths = [end - start for start, end in found]
        shared = min(end for _, end in found) - max(start for start, _ in found)
        mean = len(calls) / sum(1 / length for length in lengths)
        fits = shared >= 0.8 * max(lengths)
        # Rounds that do not fit count from the first beginning to the last end.
        whole = max(end for _, end in found) - min(start for start, _ in found)
        best[fits] = min(best[fits], mean if fits else whole)
    return best[True] if best[True] < float("inf") else best[False]


def calibrated(calls_of: Callable[[int], Sequence[Callable[[], Any]]], shortest_s: float) -> int:
    """Return how many repetitions make a call last as long as a sample should.

    Of three tries the fastest decides, as others may have been interrupted.
    """
    count = 1
    while True:
        seconds = min(seconds_each(calls_of(count), 1) for _ in range(3))
        if seconds >= shortest_s:
            return count
        count = int(count * min(16, max(2, 1.2 * shortest_s / seconds)))
