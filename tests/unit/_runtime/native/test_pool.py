"""The threads of compiled code: chunks, errors, several callers, forks, interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import _runtime
from kiln.base.options.config import config
from tests.emulated.marks import forks_beside_threads
from tests.unit._runtime.native import native_code

COUNT, GRAIN = 10_007, 100
CHUNKS = -(-COUNT // GRAIN)
SOURCE = """
#include <math.h>
#define COUNT 10007
#define GRAIN 100
static int32_t fill(struct call *c, void *context, int64_t begin, int64_t end) {
  float sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    OUT(float, 0)[i] = IN(float, 0)[0] * i + begin;
    for (int j = 0; j < 20; ++j) sum += 1.0f / (i + j + 1);
  }
  OUT(float, 1)[begin / GRAIN] = sum;
  return 0;
}
ENTRY(parallel) { return kiln_parallel(c, fill, 0, COUNT, GRAIN); }
ENTRY(many) {
  for (int i = 0; i < 2000; ++i) {
    int32_t status = kiln_parallel(c, fill, 0, COUNT, 2000);
    if (status != 0) return status;
  }
  return 0;
}
static int32_t inner(struct call *c, void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) ((float *)context)[i] = i / 7 * 7 + begin;
  return 0;
}
static int32_t outer(struct call *c, void *context, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    int32_t status = kiln_parallel(c, inner, OUT(float, 0) + 100 * row, 100, 7);
    if (status != 0) return status;
  }
  return 0;
}
ENTRY(nested) { return kiln_parallel(c, outer, 0, 100, 1); }
static int32_t fail(struct call *c, void *context, int64_t begin, int64_t end) {
  for (volatile int i = 0; i < 1000 * (begin % 7); ++i) {}
  if (begin < (int64_t)IN(float, 0)[0]) return 0;
  c->fault->site = 3; c->fault->index = begin; c->fault->iteration = end;
  return -2;
}
ENTRY(fails) { return kiln_parallel(c, fail, 0, 1L << 23, 10); }
static int32_t wait(struct call *c, void *context, int64_t begin, int64_t end) {
  for (volatile int i = 0; i < 10000; ++i) {}
  return 0;
}
ENTRY(endless) { return kiln_parallel(c, wait, 0, 1L << 50, 1); }
static int32_t ask(struct call *c, void *context, int64_t begin, int64_t end) {
  void *buffers[] = {&begin};
  int64_t which = 0;
  return kiln_call_python(c, buffers, &which);
}
ENTRY(asks) { return kiln_parallel(c, ask, 0, 50, 1); }
ENTRY(nothing) { return kiln_parallel(c, fail, 0, 0, 10); }
static int32_t masked(struct call *c, void *context, int64_t begin, int64_t end) {
  for (volatile int i = 0; i < 100000; ++i) {}
  return 0;
}
ENTRY(busy) { return kiln_parallel(c, masked, 0, 1000, 1); }
"""
ONE = np.float32(1)
WIDE, SUMS = np.zeros(COUNT, np.float32), np.zeros(CHUNKS, np.float32)


@pytest.fixture(autouse=True)
def _three_threads() -> Any:
    before = config.num_threads
    kiln.set_num_threads(3)
    yield
    kiln.set_num_threads(before)


def fill(**options: Any) -> _runtime.CompiledProgram:
    return native_code.program(SOURCE, "parallel", [ONE], [WIDE, SUMS], **options)


def bits(run: Callable[..., Any], factor: float) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in run([factor])]


def test_chunks_are_the_same_for_all_numbers_of_threads() -> None:
    expected = bits(fill(threads=1), 2.0)
    begin = np.arange(COUNT) // GRAIN * GRAIN
    values = np.frombuffer(expected[0], np.float32)
    np.testing.assert_array_equal(values, (2 * np.arange(COUNT) + begin).astype(np.float32))
    for threads in (0, 2, 3, 5, 100):
        run = fill(threads=threads)
        assert all(bits(run, 2.0) == expected for _ in range(20))
    for number in (1, 2, 4):
        with kiln.num_threads(number):
            assert bits(fill(), 2.0) == expected


def test_many_loops_in_one_call() -> None:
    many = native_code.program(SOURCE, "many", [ONE], [WIDE, SUMS])
    values = np.asarray(many([1.0])[0])
    np.testing.assert_array_equal(values, np.arange(COUNT) + np.arange(COUNT) // 2000 * 2000)


def test_loops_within_loops() -> None:
    square = np.zeros(10_000, np.float32)
    run = native_code.program(SOURCE, "nested", [ONE], [square])
    out = np.asarray(run([1.0])[0])
    np.testing.assert_array_equal(out, np.tile(np.arange(100) // 7 * 14, 100))


def test_the_first_failure_counts() -> None:
    fails = native_code.program(SOURCE, "fails", [ONE], [ONE])
    for threads in (1, 3):
        with kiln.num_threads(threads):
            for first in (0, 10, 1230, 50_000):
                with pytest.raises(RuntimeError, match=f"site 3, index {first}, .* {first + 10}$"):
                    fails([float(first)])
    assert native_code.program(SOURCE, "nothing", [ONE], [ONE])([1.0])


class Struck(Exception):
    pass


def test_signals_arrive() -> None:
    def strike(*_: Any) -> None:
        raise Struck

    endless = native_code.program(SOURCE, "endless", [ONE], [ONE])
    before = signal.signal(signal.SIGALRM, strike)
    try:
        for threads in (1, 3):
            with kiln.num_threads(threads):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                with pytest.raises(Struck):
                    endless([1.0])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(bits(fill(), 1.0)) == 2


def test_callbacks_of_all_threads() -> None:
    seen: list[int] = []

    def note(x: np.ndarray) -> tuple[()]:
        seen.append(int(x))
        if len(seen) > limit:
            raise Struck
        return ()

    table = [(note, [("int64", ())], [])]
    limit = 50
    asks = native_code.program(SOURCE, "asks", [], [ONE], callbacks=table)
    asks([])
    assert sorted(seen) == list(range(50))
    seen.clear()
    limit = 20
    with pytest.raises(Struck):
        asks([])
    assert len(seen) < 50


def test_several_callers() -> None:
    run = fill()
    expected = {n: bits(run, float(n)) for n in range(4)}
    wrong: list[int] = []

    def work(n: int) -> None:
        wrong.extend(n for _ in range(100) if bits(run, float(n)) != expected[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def _fork_children(count: int) -> None:
    run = fill()
    expected = bits(run, 3.0)
    for _ in range(count):
        child = os.fork()
        if child == 0:
            try:
                good = all(bits(run, 3.0) == expected for _ in range(3))
                os._exit(0 if good and _runtime.pool_workers() == 2 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    assert bits(run, 3.0) == expected


@forks_beside_threads
@pytest.mark.filterwarnings("ignore")
def test_forked_children_make_threads_of_their_own() -> None:
    _fork_children(20)


@forks_beside_threads
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.full)])
def test_forks_while_threads_compute(count: int) -> None:
    busy = native_code.program(SOURCE, "busy", [], [ONE], is_long=True)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            busy([])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        _fork_children(count)
    finally:
        stop.set()
        thread.join()


@native_code.needs_compiler
def test_one_thread_makes_none() -> None:
    code = """
from tests.unit._runtime.native import test_pool
from kiln import _runtime
assert _runtime.num_threads() == 1
test_pool.fill()([1.0])
print(_runtime.pool_workers(), len(__import__("os").listdir("/proc/self/task")))
test_pool.fill(threads=3)([1.0])
print(_runtime.pool_workers())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "KILN_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["0", "1", "2"]


@native_code.needs_compiler
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux keeps them away")
def test_workers_that_were_woken_may_run_everywhere() -> None:
    """While they sleep they are kept away from the processor of the thread that wakes them."""
    code = """
import os, time
from pathlib import Path
from tests.unit._runtime.native import test_pool

run = test_pool.fill(threads=2)
expected = test_pool.bits(run, 1.0)

def allowed():
    tasks = [int(task.name) for task in Path("/proc/self/task").iterdir()
             if (task / "comm").read_text() == "kiln\\n"]
    return [os.sched_getaffinity(task) for task in tasks]

for usual in (os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}):
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), usual)
    # Until the next call the worker sleeps, with the processors that were set last.
    for _ in range(30):
        time.sleep(0.002)
        assert test_pool.bits(run, 1.0) == expected
    end = time.monotonic() + 10
    while allowed() != [usual] and time.monotonic() < end:
        time.sleep(0.001)
        test_pool.bits(run, 1.0)
    assert allowed() == [usual], (allowed(), usual)
"""
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=True,
    )


def test_signals_are_not_handled_on_workers() -> None:
    bits(fill(), 1.0)
    masks = []
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text() == "kiln\n":
            lines = (task / "status").read_text().splitlines()
            masks.append(next(line.split()[1] for line in lines if line.startswith("SigBlk")))
    assert len(masks) >= 2
    assert all(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks)


# How many.


def test_numbers_of_threads() -> None:
    assert kiln.get_num_threads() == config.num_threads == 3
    seen = []
    with kiln.num_threads(2):
        assert kiln.get_num_threads() == config.num_threads == 2
        thread = threading.Thread(target=lambda: seen.append(kiln.get_num_threads()))
        thread.start()
        thread.join()
        with kiln.num_threads(None):
            assert kiln.get_num_threads() == _runtime.processors()
    assert seen == [3]
    kiln.set_num_threads(None)
    assert kiln.get_num_threads() == _runtime.processors() <= len(os.sched_getaffinity(0))
    for wrong in (0, -1, "a", 1.5, True):
        with pytest.raises(ValueError, match="positive"):
            kiln.set_num_threads(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="positive"):
            kiln.num_threads(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("groups", "files", "processors"),
    [
        ("0::/a/b", {"sys/fs/cgroup/a/cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {"sys/fs/cgroup/cpu.max": "max 100000"}, 0),
        ("0::/", {"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        (
            "0::/a",
            {"sys/fs/cgroup/cpu.max": "400000 100000", "sys/fs/cgroup/a/cpu.max": "300000 100000"},
            3,
        ),
        (
            "5:memory:/x\n4:cpu,cpuacct:/a",
            {
                "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "250000",
                "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        (
            "4:cpu:/elsewhere",
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            0,
        ),
        ("nonsense", {"sys/fs/cgroup/cpu.max": "what"}, 0),
        ("0::/", {}, 0),
    ],
)
def test_quotas_of_control_groups(
    tmp_path: Path, groups: str, files: dict[str, str], processors: int
) -> None:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert _runtime.processor_quota(str(tmp_path)) == processors
