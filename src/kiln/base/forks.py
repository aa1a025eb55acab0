"""What a forked child must not take over: locks of threads it does not have, and their work.

`os.fork` copies one thread. A lock that another thread held at that moment would be held for good
in the child, so all locks of kiln are made here and are new ones there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from kiln import _runtime

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_in_child: list[Callable[[], None]] = []


def new_lock() -> threading.Lock:
    """Return a lock that nobody holds in the child of a fork."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> Any:
    """Return a reentrant lock that nobody but the forking thread holds in the child of a fork."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function in the child of each fork, after the locks are free again."""
    _in_child.append(function)
    return function


def _after_fork() -> None:
    _runtime.set_main_thread(threading.get_ident())
    for lock in list(_locks):
        owned = getattr(lock, "_is_owned", None)
        if owned is None or not owned():
            lock._at_fork_reinit()
    for function in _in_child:
        function()


_runtime.set_main_thread(threading.main_thread().ident or 0)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
