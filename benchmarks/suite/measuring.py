"""Measures a row: results are compared first, then the peers take turns."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from benchmarks import harness
from benchmarks.suite.peers import ArrayLibrary, Peer, Prepared, leaves
from benchmarks.suite.row import Row

SECONDS = 0.2
"""How long the samples of one peer take together."""
ROUNDS = 10
REST_S = 0.03
"""Threads of some peers spin for a while after their work: the next peer has to wait for them."""
JUDGE = "jax"
Cell = dict[str, Any]
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes(field: str = "VmRSS") -> int:
    """Return the resident memory of this process, or with `VmHWM` its peak; 0 if unknown."""
    if not STATUS.exists():
        return 0
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


class Peak:
    """Growth of resident memory within a `with` block, at its peak; None if the system hides it."""

    grown: int | None = None

    def __enter__(self) -> Peak:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            # Memory that was freed and not returned would hide what the block takes.
            ctypes.CDLL(None).malloc_trim(0)
        try:
            # Sets the peak to what is resident now.
            CLEAR.write_text("5", encoding="ascii")
            self._before: int | None = resident_bytes()
        except OSError:
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self.grown = max(0, resident_bytes("VmHWM") - self._before)


def as_numpy(leaf: Any) -> numpy.ndarray:
    """Return an array of any peer as NumPy's; narrow floats become float32."""
    if type(leaf).__module__.partition(".")[0] == "torch":
        leaf = leaf.detach()
        leaf = leaf.float() if leaf.dtype.itemsize == 2 and leaf.is_floating_point() else leaf
        return leaf.numpy()  # type: ignore[no-any-return]
    array = numpy.asarray(leaf)
    return array.astype("float32") if array.dtype.name in ("bfloat16", "float16") else array


def difference(result: Any, reference: Any, tolerance: float, shapes_only: bool) -> str | None:
    """Return how a result differs from the reference, in words, or None.

    The error is relative to the greatest number of an array. Whole numbers and truth values must
    be equal, and all numbers finite: for others processors and libraries take other paths, and what
    is timed would not be the program.
    """
    got, want = ([as_numpy(leaf) for leaf in leaves(tree)] for tree in (result, reference))
    if len(got) != len(want):
        return f"{len(got)} arrays instead of {len(want)}"
    for i, (a, b) in enumerate(zip(got, want)):
        if a.shape != b.shape:
            return f"array {i} has shape {a.shape} instead of {b.shape}"
        if shapes_only or b.size == 0:
            continue
        if b.dtype.kind in "biu":
            wrong = int(numpy.sum(a != b))
            if wrong:
                return f"array {i}: {wrong} of {b.size} numbers differ"
            continue
        a, b = (x.astype("complex128" if x.dtype.kind == "c" else "float64") for x in (a, b))
        if not (numpy.isfinite(a).all() and numpy.isfinite(b).all()):
            return f"array {i}: not finite"
        scale = float(numpy.max(numpy.abs(b))) or 1.0
        error = float(numpy.max(numpy.abs(a - b))) / scale
        if error > tolerance:
            return f"array {i}: error {error:.1e}, allowed {tolerance:.0e}"
    return None


@contextlib.contextmanager
def same_options(row: Row, peers: Sequence[Peer]) -> Any:
    """Let kiln and JAX have 64 bits in rows of these, and draw the same random numbers."""
    with contextlib.ExitStack() as stack:
        for peer in peers:
            if isinstance(peer, ArrayLibrary):
                stack.enter_context(peer.library.root.enable_x64(row.x64))
                # JAX's default.
                stack.enter_context(peer.library.root.threefry_partitionable(True))
        yield


def forget_the_past() -> None:
    """Collect garbage, and leave what is left out of the collections before each sample."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def reason(error: Exception) -> str:
    """Return an exception as one line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"


def _first(peer: Peer, call: Prepared) -> tuple[Any, Cell]:
    with Peak() as first:
        start = time.perf_counter()
        result = call.run()
        seconds = time.perf_counter() - start
    with Peak() as later:
        result = call.run()
    cell: Cell = {}
    if peer.in_this_process:
        cell = {"first_peak_bytes": first.grown, "peak_bytes": later.grown}
    if peer.compiles:
        cell["first_s"] = seconds
    return result, cell


def measure(
    row: Row, peers: Sequence[Peer], seconds: float = SECONDS, tiny: bool = False
) -> dict[str, Cell]:
    """Return a cell for each peer that takes part in the row.

    A cell has times, or says under `wrong` or `failed` why it has none. JAX comes first, as all
    results are compared with its own; without it they are not.
    """
    work = row.work(tiny)
    cells: dict[str, Cell] = {}
    samplers: dict[str, harness.Sampler] = {}
    kept, reference = [], None
    with same_options(row, peers):
        for peer in sorted(peers, key=lambda peer: peer.name != JUDGE):
            try:
                call = peer.prepare(row, work)
                if call is None:
                    continue
                result, cells[peer.name] = _first(peer, call)
                if peer.name == JUDGE:
                    reference = result
                if reference is not None:
                    shapes_only = peer.name in row.by_shape
                    found = difference(result, reference, row.tolerance, shapes_only)
                    if found:
                        cells[peer.name] = {"wrong": found}
                        continue
            # A peer that cannot run a row is part of the result.
            except Exception as error:  # noqa: BLE001
                cells[peer.name] = {"failed": reason(error)}
                continue
            samplers[peer.name] = call.sampler(result, row.waits, seconds / ROUNDS)
            kept.append(call)
        del reference
        order = [peer.name for peer in peers if peer.name in samplers]
        case = harness.Case(row.name, {name: samplers[name] for name in order}, ROUNDS)
        forget_the_past()
        for name, timing in harness.measure(case, None, seconds, REST_S).columns.items():
            cells[name] |= {
                "median_s": timing.median_s,
                "min_s": timing.min_s,
                "samples": timing.samples,
            }
    return {peer.name: cells[peer.name] for peer in peers if peer.name in cells}


def geometric_mean(numbers: Sequence[float]) -> float:
    """Return the geometric mean, or NaN of nothing."""
    if not numbers:
        return math.nan
    return math.exp(sum(math.log(x) for x in numbers) / len(numbers))


def limit_threads(threads: int) -> dict[str, str]:
    """Return the environment in which every peer has so many threads and processors.

    Also sets the affinity of this process, which threads and children inherit.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    counts = ("KILN_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    counts += ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {
        **dict.fromkeys(counts, str(threads)),
        # Threads of NumPy's BLAS would otherwise keep a processor busy for 30 ms after their work.
        "OPENBLAS_THREAD_TIMEOUT": "20",
        # Compile times are those of a first compilation, in this process.
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
