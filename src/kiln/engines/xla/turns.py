"""Programs over several virtual devices, one after the other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kiln.base.errors import JaxRuntimeError
from kiln.engines.xla.binding import XlaError
from kiln.engines.xla.client import Buffer

_turn = threading.Lock()


class InTurn:
    """Runs a program over several virtual devices to its end, before another one may begin.

    Virtual devices share the machine's threads. Two such programs under way together can each wait
    for threads that the other holds, and XLA ends the process when that has lasted 40 seconds. One
    that calls the host is not kept apart: its callbacks may run programs of this kind.
    """

    __slots__ = ("_calls_host", "_execute")

    def __init__(self, raw: Any, *, calls_host: bool) -> None:
        self._execute = raw.execute_sharded
        self._calls_host = calls_host

    def __call__(self, buffers: Sequence[Buffer]) -> Any:
        """Return what runs the program once it is told what to make of the results."""
        return _Turn(self._execute, buffers, self._calls_host)


class _Turn(NamedTuple):
    execute: Callable[..., Any]
    buffers: Sequence[Buffer]
    calls_host: bool

    def consume_with_handlers(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        with contextlib.nullcontext() if self.calls_host else _turn:
            if any(buffer.is_deleted() for buffer in self.buffers):
                # jaxlib would run the program on the devices whose parts are left, or crash.
                raise JaxRuntimeError("an argument, or a part of one, has been deleted or donated")
            outs: Sequence[Buffer] = self.execute(self.buffers).consume_with_handlers(handlers)
            for out in outs:
                # Whoever reads the result hears of a failure.
                with contextlib.suppress(XlaError):
                    out.block_until_ready()
        return outs
