"""State that a forked child must not inherit: locks of other threads, and their work.

`os.fork` copies one thread. A lock that another thread holds at that moment would stay locked in
the child, so all locks of kiln are created here, and replaced in the child.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from kiln import _runtime
from kiln.base.weak import WeakSet

_locks: WeakSet[Any] = WeakSet()
_guards: list[Any] = []
_in_child: list[Callable[[], None]] = []
LONGEST_LOAD_S = 10.0


def new_lock() -> threading.Lock:
    """Return a lock that is free in a forked child."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> Any:
    """Return a reentrant lock that only the forking thread may hold in a forked child."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def new_guard() -> Any:
    """Return a reentrant lock that forks wait for, so that no other thread holds it then.

    For libraries whose own locks a child could not free. Hold it for a short time only.
    """
    lock = threading.RLock()
    _guards.append(lock)
    return lock


class Loads:
    """A context for loading modules, which forks wait for.

    Python's import lock of a module that another thread is importing would stay locked in a child
    forever. No lock is held while loading, since modules run arbitrary code.
    """

    def __init__(self) -> None:
        self._threads: list[int] = []
        _guards.append(self)
        in_child(self._forget_others)

    def __enter__(self) -> None:
        self._threads.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        self._threads.remove(threading.get_ident())

    def acquire(self) -> None:
        """Wait until no other thread is loading, or for `LONGEST_LOAD_S`."""
        own, end = threading.get_ident(), time.monotonic() + LONGEST_LOAD_S
        while any(each != own for each in self._threads) and time.monotonic() < end:
            time.sleep(0.001)

    def release(self) -> None:
        """Do nothing: loading may begin again at any time."""

    def _forget_others(self) -> None:
        own = threading.get_ident()
        self._threads[:] = [each for each in self._threads if each == own]


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Register a function to call in the child of each fork, once the locks are free again."""
    _in_child.append(function)
    return function


def _before_fork() -> None:
    for lock in _guards:
        lock.acquire()


def _after_fork_in_parent() -> None:
    for lock in reversed(_guards):
        lock.release()


def _after_fork() -> None:
    _after_fork_in_parent()
    _runtime.set_main_thread(threading.get_ident())
    for lock in list(_locks):
        owned = getattr(lock, "_is_owned", None)
        if owned is None or not owned():
            lock._at_fork_reinit()
    for function in _in_child:
        function()


_runtime.set_main_thread(threading.main_thread().ident or 0)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork,
    )
