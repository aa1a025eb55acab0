"""Locks in a forked child; whole programs fork in tests/contract/test_forks.py."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

import kiln
from kiln.base.lazy import LazyModule
from kiln.base.process import forks
from kiln.base.process.forks import Loads, _in_child, in_child, new_lock, new_rlock
from tests.emulated.marks import forks_beside_threads


def in_a_child(work: object) -> int:
    """Return the status of a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"1" if work() else b"0")  # type: ignore[operator]
        os._exit(0)
    # A child that ends without an answer closes the last of the ends that write.
    os.close(write)
    found = os.read(read, 1)
    os.close(read)
    os.waitpid(pid, 0)
    return int(found)


@forks_beside_threads
def test_locks_that_other_threads_hold_are_free_in_the_child(recwarn: object) -> None:
    lock, rlock, mine = new_lock(), new_rlock(), new_rlock()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock, rlock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)

    def work() -> bool:
        mine.release()
        return lock.acquire(blocking=False) and rlock.acquire(blocking=False)

    with mine:
        # What the forking thread holds is still its own.
        assert in_a_child(work) == 1
    done.set()
    thread.join(60)


@forks_beside_threads
def test_functions_are_called_in_the_child_only(recwarn: object) -> None:
    called: list[int] = []
    in_child(lambda: called.append(os.getpid()))
    try:
        assert in_a_child(lambda: called == [os.getpid()]) == 1
        assert called == []
    finally:
        _in_child.pop()


def test_all_locks_of_kiln_are_made_here() -> None:
    root = Path(kiln.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "threading.Lock()" in (text := path.read_text(encoding="utf-8"))
        or "threading.RLock()" in text
        or "threading.Condition()" in text
        # Until Python 3.12 it holds a lock while it computes.
        or "cached_property" in text
    ]
    assert found == ["base/process/forks.py"]


@forks_beside_threads
def test_forks_wait_for_modules_that_others_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python leaves the lock of such a module locked in the child."""
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(0.3)\nx = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = LazyModule("slow_to_load")
    thread = threading.Thread(target=lambda: module.x)
    thread.start()
    while "slow_to_load" not in sys.modules:
        time.sleep(0.001)

    def work() -> bool:
        return hasattr(sys.modules["slow_to_load"], "x")

    try:
        assert in_a_child(work)
    finally:
        thread.join()
        sys.modules.pop("slow_to_load", None)


@forks_beside_threads
def test_forks_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "LONGEST_LOAD_S", 0.05)
    loads, done = Loads(), threading.Event()
    thread = threading.Thread(target=lambda: loads.__enter__() or done.wait(60))
    thread.start()
    try:
        while not loads._threads:
            time.sleep(0.001)
        assert in_a_child(lambda: not loads._threads)
        assert loads._threads == [thread.ident]
    finally:
        done.set()
        thread.join()
        forks._guards.remove(loads)
        _in_child.remove(loads._forget_others)
