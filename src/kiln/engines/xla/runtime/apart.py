"""Long calls into jaxlib, made on another thread so that signals reach the main one.

Python handles signals on the main thread, between two instructions; a call into jaxlib is one. An
interrupted caller abandons the work, which runs to its end unnoticed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kiln import _runtime

T = TypeVar("T")


class _Work:
    """A call and its outcome."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call: Callable[[], Any] | None = call
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Make the call."""
        assert self.call is not None
        _runtime.enter()
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001, raised again by who waits
            self.error = error
        finally:
            _runtime.leave()
            self.call = None
            self.done.set()


def apart(call: Callable[[], T], *, must_end: bool) -> T:
    """Call jaxlib and return its result; on the main thread, such that signals are delivered.

    The interpreter does not end before a call that `must_end`.
    """
    # While the interpreter ends only the thread that ends it gets in.
    if threading.current_thread() is not threading.main_thread() or _runtime.is_closed():
        return inside(call)
    work = _Work(call)
    thread = threading.Thread(target=work.run, name="kiln apart", daemon=not must_end)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter ends, or there are too many threads.
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
    """Call jaxlib; a thread inside is waited for when the interpreter ends."""
    _runtime.enter()
    try:
        return call(*args)
    finally:
        _runtime.leave()


def _launch(launcher: _runtime.Launcher, buffers: Sequence[Any]) -> Sequence[Any]:
    return apart(lambda: _runtime.Launcher.__call__(launcher, buffers), must_end=False)


_runtime.set_launch_apart(_launch)
