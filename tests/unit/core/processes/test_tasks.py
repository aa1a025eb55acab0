"""Calls on threads of their own."""

from __future__ import annotations

import threading

import pytest

from kiln.core.processes import tasks
from kiln.core.processes.tasks import started


def test_a_result_and_an_error() -> None:
    task = started(lambda: 3)
    assert task.done.wait(10)
    assert task.result() == 3

    def fail() -> None:
        raise KeyError("x")

    task = started(fail)
    assert task.done.wait(10)
    with pytest.raises(KeyError):
        task.result()


def test_a_call_that_never_returns_keeps_only_its_own_thread() -> None:
    hangs = threading.Event()
    abandoned = started(hangs.wait)
    ids = set()
    for _ in range(3):
        task = started(threading.get_ident)
        assert task.done.wait(10)
        ids.add(task.result())
    assert not abandoned.done.is_set()
    # Threads that are done are used again.
    assert len(ids) <= 2
    assert all(worker.is_alive() for worker in tasks._idle)
    hangs.set()
