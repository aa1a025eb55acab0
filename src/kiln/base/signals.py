"""Deferring Ctrl-C while a library must not be interrupted; keeping it where a library drops it.

The interpreter must not be shut down either while a thread is in such a library.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

from kiln import _runtime
from kiln.base.lazy import signal

T = TypeVar("T")
R = TypeVar("R")


class HeldBack:
    """A context that defers Ctrl-C until its end.

    It acts on the main thread, where signals are handled; on others there is nothing to defer. Only
    the call of the user's handler is deferred, and the handler is restored afterwards.
    """

    __slots__ = ("_handler", "_struck")

    def __enter__(self) -> None:
        _runtime.enter_library()
        self._struck: list[tuple[int, FrameType | None]] = []
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._struck.append((number, frame))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _runtime.leave()
        handler = self._handler
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
            if self._struck:
                number, frame = self._struck[0]
                self._struck.clear()
                handler(number, frame)


PATIENCE_S = 2.0
"""How long interpreter shutdown waits for interrupted work and daemon threads."""


def _end() -> None:
    _runtime.close_for_exit()
    deadline = time.monotonic() + PATIENCE_S
    with contextlib.suppress(KeyboardInterrupt):
        while _runtime.threads_inside() and time.monotonic() < deadline:
            time.sleep(0.001)
        # Gives threads that are about to return from short calls time to reach the point where they
        # block.
        time.sleep(0.02 if threading.active_count() > 1 else 0)


atexit.register(_end)

REMEMBERED_S = 0.1


class Forgotten:
    """The exception of a signal handler in a call whose caller drops it and calls again.

    NumPy does this: it asks an array for a buffer, then for `__array__`.
    """

    __slots__ = ("_struck",)

    def __init__(self) -> None:
        # The exception itself would keep the user's frames alive.
        self._struck: tuple[type[BaseException], tuple[Any, ...], float] | None = None

    def noting(self, function: Callable[[T], R]) -> Callable[[T], R]:
        """Return a function that records exceptions, for the first call."""

        def call(x: T) -> R:
            try:
                return function(x)
            except BaseException as error:
                self.note(error)
                raise

        return call

    def note(self, error: BaseException) -> None:
        """Record an exception, unless the second call raises it by itself."""
        if not isinstance(error, RuntimeError):
            self._struck = type(error), error.args, time.monotonic()

    def check(self) -> None:
        """Raise the exception of the previous call, if that was immediately before."""
        found = self._struck
        if found is not None:
            self._struck = None
            if time.monotonic() - found[2] < REMEMBERED_S:
                raise found[0](*found[1])


forgotten = Forgotten()
