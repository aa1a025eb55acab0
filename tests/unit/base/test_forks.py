"""Locks in the child of a fork; whole programs fork in tests/contract/test_forks.py."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import kiln
from kiln.base.forks import _in_child, in_child, new_lock, new_rlock


def in_a_child(work: object) -> int:
    """Return the status of a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"1" if work() else b"0")  # type: ignore[operator]
        os._exit(0)
    os.waitpid(pid, 0)
    found = os.read(read, 1)
    os.close(read)
    os.close(write)
    return int(found)


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
    assert found == ["base/forks.py"]
