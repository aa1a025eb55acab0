"""Launches of programs over several virtual devices: those that exchange data, one by one."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError
from kiln.base.forks import in_child, new_rlock
from kiln.control.host_call import raise_failure
from kiln.engines.xla.binding import XlaError
from kiln.engines.xla.buffers import Buffer
from kiln.engines.xla.callbacks import HostCallback, Run

launch_lock = new_rlock()
"""Held while programs are launched, and while one runs whose devices wait for each other."""

_interrupted: list[tuple[Sequence[Buffer], Callable[[], None]]] = []
"""The results of runs that an interrupt left before their end, and what to do at that end."""
in_child(_interrupted.clear)


_EXCHANGES = (b"all-", b"collective-", b"reduce-scatter", b"send", b"recv")
"""How the names of XLA's operations begin in which devices wait for each other."""

Execute = Callable[[Sequence[Buffer]], Any]


def launcher_of(raw: Any, name: str, callbacks: Sequence[HostCallback]) -> tuple[Execute, Any]:
    """Return what runs an executable on virtual devices, and the lock to hold meanwhile, if any."""
    execute: Execute = raw.execute_sharded
    if len(raw.local_devices()) == 1:
        return execute, None if callbacks else launch_lock
    if callbacks or _exchanges(raw):
        return SerializedLauncher(raw, name, callbacks), None
    return functools.partial(_launch_whole, execute), launch_lock


def _exchanges(raw: Any) -> bool:
    """Tell whether the devices of a program wait for each other, as far as is known."""
    try:
        programs = [module.as_serialized_hlo_module_proto() for module in raw.hlo_modules()]
    except XlaError:
        return True
    return not programs or any(word in program for program in programs for word in _EXCHANGES)


def _launch_whole(execute: Execute, buffers: Sequence[Buffer]) -> Any:
    _require_all(buffers)
    return execute(buffers)


def _require_all(buffers: Sequence[Buffer]) -> None:
    if any(buffer.is_deleted() for buffer in buffers):
        # jaxlib would run the program on the devices whose parts are left, or crash.
        raise JaxRuntimeError("an argument, or a part of one, has been deleted or donated")


class SerializedLauncher:
    """Runs a program whose devices wait for each other to its end, before another one may begin.

    Virtual devices share the machine's threads. What is launched while such a program is under way
    can hold threads that it waits for, and XLA ends the process when that has lasted 40 seconds.
    Programs launched before it come to their turn. One that calls the host is not kept apart: its
    callbacks may run programs of this kind.
    """

    __slots__ = ("_callbacks", "_execute", "_name", "_runs")

    def __init__(self, raw: Any, name: str, callbacks: Sequence[HostCallback]) -> None:
        self._execute = raw.execute_sharded
        self._name = name
        self._callbacks = bool(callbacks)
        self._runs: list[Run] = []
        for callback in callbacks:
            callback.runs = self._runs

    def __call__(self, buffers: Sequence[Buffer]) -> Any:
        """Return what runs the program once it is told what to make of the results."""
        run = Run() if self._callbacks else None
        return _Launch(self._execute, self._name, buffers, run, self._runs)


class _Launch(NamedTuple):
    execute: Callable[..., Any]
    name: str
    buffers: Sequence[Buffer]
    run: Run | None
    runs: list[Run]

    def consume_with_handlers(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        run = self.run
        if run is None:
            with launch_lock:
                while _interrupted:
                    _wait(_interrupted[0][0])
                    _interrupted.pop(0)[1]()
                return self._run_to_end(handlers, lambda: None)
        self.runs.append(run)
        outs = self._run_to_end(handlers, lambda: self.runs.remove(run))
        if run.failure is not None:
            raise_failure(run.failure, f"running {self.name}")
        return outs

    def _run_to_end(self, handlers: Sequence[Any], at_end: Callable[[], None]) -> Sequence[Buffer]:
        outs: Sequence[Buffer] = []
        try:
            _require_all(self.buffers)
            outs = self.execute(self.buffers).consume_with_handlers(handlers)
            _wait(outs)
        except Exception:
            at_end()
            raise
        except BaseException:
            _interrupted.append((outs, at_end))
            raise
        at_end()
        return outs


def _wait(outs: Sequence[Buffer]) -> None:
    for out in outs:
        # Whoever reads the result hears of a failure.
        with contextlib.suppress(XlaError):
            _runtime.wait_until_ready(out)
