"""Launches of programs that several processes run together, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kiln.base.errors import JaxRuntimeError
from kiln.core.peers import peers
from kiln.engines.xla.binding import XlaError, failed
from kiln.engines.xla.buffers import Buffer
from kiln.engines.xla.serialized_launches import launch_lock


class SharedLauncher:
    """Runs a program of several processes to its end, before another one may begin.

    All processes must run such programs in the same order. One that waits for a process which has
    failed is given up.
    """

    __slots__ = ("_execute", "_group", "_name")

    def __init__(self, raw: Any, name: str, group: Sequence[int]) -> None:
        self._execute = raw.execute_sharded
        self._name = name
        self._group = tuple(group)

    def __call__(self, buffers: Sequence[Buffer]) -> Any:
        """Return what runs the program once it is told what to make of the results."""
        return _Launch(self._execute, self._name, buffers, self._group)


class _Launch(NamedTuple):
    execute: Callable[..., Any]
    name: str
    buffers: Sequence[Buffer]
    group: tuple[int, ...]

    def consume_with_handlers(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        others = peers()
        assert others is not None
        with launch_lock:
            return others.run(self.group, lambda: self._run_to_end(handlers), self.name)

    def _run_to_end(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        if any(buffer.is_deleted() for buffer in self.buffers):
            # jaxlib would run the program on the devices whose parts are left, or crash.
            raise JaxRuntimeError("an argument, or a part of one, has been deleted or donated")
        try:
            outs: Sequence[Buffer] = self.execute(self.buffers).consume_with_handlers(handlers)
            for out in outs:
                # This thread hears no signals, and may be given up: it can wait in jaxlib.
                out.block_until_ready()
        except (XlaError, ValueError) as error:
            failed(error, f"running {self.name}")
        return outs
