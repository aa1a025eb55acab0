"""Running programs with effects: their order, their failures, and interpreter shutdown.

Calls of Python and returns from jaxlib are not allowed during interpreter shutdown; and a forked
child has none of the threads that run programs.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import sys
import warnings
from typing import NoReturn

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.process.forks import in_child, new_lock, new_rlock
from kiln.base.source import current_source
from kiln.engines.xla.launches.levels import DEEPEST
from kiln.engines.xla.runtime.buffers import Buffer, is_deleted, is_ready, wait
from kiln.engines.xla.runtime.client import has_started
from kiln.engines.xla.stablehlo.callbacks import level, refuse
from kiln.ir.shardings.sharding import Sharding


class Effects:
    """The programs with effects that may still be running, and the order among them."""

    def __init__(self) -> None:
        # By level, like clients.
        self.locks = [new_rlock() for _ in range(DEEPEST)]
        self.orders: dict[int, tuple[Buffer, Sharding | None]] = {}
        self._running: collections.deque[tuple[Buffer, int]] = collections.deque()
        self._running_lock = new_lock()
        self._failure: BaseException | None = None
        self._watched: collections.deque[Buffer] = collections.deque()
        atexit.register(self._end)
        in_child(self._forget)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=_warn)

    def take_order(self, at: int, everywhere: Sharding | None) -> Buffer | None:
        """Return the token of a level's last ordered program; None if there is none or it failed.

        If that program is on other devices, wait for it instead.
        """
        found = self.orders.pop(at, None)
        if found is not None and found[1] != everywhere:
            _failure(found[0])
        elif found is not None:
            token = found[0]
            if not is_ready(token) or _failure(token) is None:
                return token
        return None

    def add(self, token: Buffer, at: int) -> None:
        """Record a running program, and drop those that have ended."""
        running = self._running
        with self._running_lock:
            running.append((token, at))
            ended = []
            while len(running) > 1 and is_ready(running[0][0]):
                ended.append(running.popleft()[0])
        for token in ended:
            self._finish(token)

    def forget(self, token: Buffer) -> None:
        """Drop a program whose failure has been reported."""
        with self._running_lock:
            left = [each for each in self._running if each[0] is not token]
            self._running = collections.deque(left)

    def watch(self, result: Buffer) -> None:
        """Record a program that calls Python, by one of its results, until it has ended."""
        if is_ready(result):
            return
        with self._running_lock:
            while self._watched and _is_over(self._watched[0]):
                self._watched.popleft()
            self._watched.append(result)

    def _finish(self, token: Buffer) -> None:
        # `barrier` raises the first one; its frames are dropped, since they would hold the user's
        # arrays.
        failure = _failure(token)
        if failure is not None and self._failure is None:
            self._failure = failure.with_traceback(None)

    def _settle(self, from_level: int = 0) -> None:
        while True:
            with self._running_lock:
                found = [token for token, at in self._running if at >= from_level]
            if not found:
                return
            # If interrupted, it stays recorded.
            self._finish(found[0])
            self.forget(found[0])

    def barrier(self) -> None:
        """Wait until all programs with effects have ended; raise the first failure.

        In a callback, only wait for those run by callbacks at least as deep: the others may wait
        for this callback.
        """
        self._settle(level())
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _end(self) -> None:
        """Wait for programs that call Python; keep other threads out of jaxlib."""
        _runtime.close_for_exit()
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            # After Ctrl-C, do not wait for callbacks.
            refuse()
        try:
            self._wait_for_all()
        except KeyboardInterrupt:
            # The user does not wait any longer: make further callbacks fail, so that programs end
            # soon.
            refuse()
            with contextlib.suppress(KeyboardInterrupt):
                self._wait_for_all()

    def _wait_for_all(self) -> None:
        self._settle()
        while self._watched:
            _failure(self._watched[0])
            self._watched.popleft()

    def _forget(self) -> None:
        """In a forked child: no program is running, or ever will."""
        self._failure = None
        self.orders.clear()
        self._running.clear()
        self._watched.clear()
        if has_started():
            _runtime.close_for_child(_refuse_in_child)


def _is_over(result: Buffer) -> bool:
    return is_deleted(result) or is_ready(result)


def _failure(token: Buffer) -> BaseException | None:
    try:
        wait(token)
    except JaxRuntimeError as error:
        return error
    except BaseException as error:
        if not is_ready(token):
            # It was raised while we waited.
            raise
        return error
    return None


def _warn() -> None:
    if has_started() and not _runtime.is_closed():
        text = three_lines(
            "os.fork() in a process whose programs run on the threads of the xla engine",
            "the child has none of these threads: there, using the engine will raise",
            "use multiprocessing's 'spawn' or 'forkserver', or fork before the first program runs",
        )
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _refuse_in_child() -> NoReturn:
    raise JaxRuntimeError(
        three_lines(
            f"use of the xla engine in a forked child at {current_source()}",
            "the threads that compile and run programs stayed in the parent, where the engine had "
            "been in use before os.fork()",
            "start processes with multiprocessing's 'spawn' or 'forkserver', or compute by "
            "KILN_ENGINE=reference",
        )
    )
