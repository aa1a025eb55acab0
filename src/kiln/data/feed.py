"""The thread that reads batches ahead, and ends with its iterator."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.base.process.forks import in_child
from kiln.base.weak import WeakSet

POLL_S = 0.2
"""How often a thread that waits for an item looks for failures of other processes."""


class End(NamedTuple):
    """The end of the batches, by an error if there is one."""

    error: BaseException | None


class Feed:
    """Items that a thread makes ahead, `depth` at most beyond the one in use.

    `items` yields None, before it does anything, and then the items. When the feed is closed, the
    thread closes the generator, after the item that it is making. The thread does not keep the
    process alive.
    """

    def __init__(self, items: Generator[Any, None, None], depth: int) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(depth):
            self._room.put(None)
        self._is_closed = False
        self.thread = threading.Thread(
            target=self._run, args=(items,), name="kiln batches", daemon=True
        )
        _running.add(self)
        self.thread.start()

    def take(self, poll: Callable[[], None]) -> Any:
        """Return the next item, or the end; call a function, which may raise, while waiting."""
        while True:
            try:
                found = self._items.get(timeout=POLL_S)
            except queue.Empty:
                poll()
            else:
                self._room.put(None)
                return found

    def close(self) -> None:
        """Let the thread end; do not wait for it."""
        self._is_closed = True
        self._room.put(None)

    def _run(self, items: Generator[Any, None, None]) -> None:
        error = None
        try:
            next(items)
            while True:
                self._room.get()
                if self._is_closed:
                    items.close()
                    break
                self._items.put(next(items))
        except StopIteration:
            pass
        except BaseException as found:  # noqa: BLE001, raised in the thread that takes the items
            error = found
        self._items.put(End(error))


_running: WeakSet[Feed] = WeakSet()


@in_child
def _end_all() -> None:
    """The child of a fork has no such threads."""
    for feed in list(_running):
        feed._items = queue.SimpleQueue()
        feed._room = queue.SimpleQueue()
        feed._items.put(End(RuntimeError("the thread that reads the batches is in the parent")))
