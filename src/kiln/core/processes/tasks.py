"""Calls on threads of their own, which are abandoned if they never return."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from kiln.base.process.forks import in_child


class Task:
    """A call, its result or error, and whether it has returned."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call: Callable[[], Any] | None = call
        self._result: Any = None
        self._error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Make the call."""
        assert self._call is not None
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001, re-raised in the thread that waits
            self._error = error
        self._call = None
        self.done.set()

    def result(self) -> Any:
        """Return the result, or raise the error."""
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error


class _Worker(threading.Thread):
    """A thread that runs tasks; one whose task never returns is abandoned."""

    def __init__(self) -> None:
        super().__init__(name="kiln waits for processes", daemon=True)
        self.tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            self.tasks.get().run()
            _idle.append(self)


_idle: list[_Worker] = []
in_child(_idle.clear)


def started(call: Callable[[], Any]) -> Task:
    """Make a call on a thread of its own, which may be abandoned."""
    task = Task(call)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.tasks.put(task)
    return task
