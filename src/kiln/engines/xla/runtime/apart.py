"""Long calls into jaxlib, on another thread so that the main one receives signals.

Python handles signals on the main thread, between two bytecode instructions; a call into jaxlib is
a single one. An interrupted caller abandons the call, which completes in the background.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kiln import _runtime
from kiln.base.source import current_source, working_for

T = TypeVar("T")


class _Work:
    """A call and its outcome."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call: Callable[[], Any] | None = call
        self.source = current_source()
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Make the call."""
        assert self.call is not None
        _runtime.enter()
        try:
            with working_for(self.source):
                self.result = self.call()
        except BaseException as error:  # noqa: BLE001, raised again by who waits
            self.error = error
        finally:
            _runtime.leave()
            self.call = None
            self.done.set()


def apart(call: Callable[[], T], *, must_end: bool) -> T:
    """Call jaxlib and return its result; the main thread receives signals meanwhile.

    Interpreter shutdown waits for a call that `must_end`.
    """
    # During interpreter shutdown only the thread that performs it may enter.
    if threading.current_thread() is not threading.main_thread() or _runtime.is_closed():
        return inside(call)
    work = _Work(call)
    thread = threading.Thread(target=work.run, name="kiln apart", daemon=not must_end)
    try:
        thread.start()
    except RuntimeError:
        # Interpreter shutdown, or too many threads.
        return inside(call)
    work.done.wait()
    error, work.error = work.error, None
    if error is not None:
        try:
            raise error
        finally:
            del error
    result: T = work.result
    return result


def inside(call: Callable[..., T], *args: Any) -> T:
    """Call jaxlib; interpreter shutdown waits for threads inside."""
    _runtime.enter()
    try:
        return call(*args)
    finally:
        _runtime.leave()


def _launch(launcher: _runtime.Launcher, buffers: Sequence[Any]) -> Sequence[Any]:
    return apart(lambda: _runtime.Launcher.__call__(launcher, buffers), must_end=False)


_runtime.set_launch_apart(_launch)
