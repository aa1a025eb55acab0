"""Serialized launches of programs over several virtual devices; with collectives, until they end.

`_runtime.LaunchLock`, one per client, determines which may run concurrently. Programs that call the
host are not serialized, because their callbacks may run programs.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError
from kiln.base.named_tuples import NamedTuple
from kiln.base.process.forks import in_child
from kiln.control.effects.host_call import raise_failure
from kiln.engines.xla.runtime.binding import XlaError
from kiln.engines.xla.runtime.buffers import Buffer
from kiln.engines.xla.runtime.client import Client
from kiln.engines.xla.stablehlo.callbacks import HostCallback, Run

_left: list[tuple[Sequence[Buffer], list[Run], Run]] = []
"""Runs of programs that call the host, abandoned because a signal handler raised."""
in_child(_left.clear)

_EXCHANGES = (b"all-", b"collective-", b"reduce-scatter", b"send", b"recv")
"""Prefixes of the names of XLA's operations in which devices wait for each other."""

Execute = Callable[[Sequence[Buffer]], Any]


class Launching(NamedTuple):
    """A launcher of an executable, its lock if any, and which programs may run concurrently."""

    execute: Execute
    lock: _runtime.LaunchLock | None
    launches_alone: bool
    runs_alone: bool


def launching_of(
    client: Client, raw: Any, name: str, callbacks: Sequence[HostCallback]
) -> Launching:
    """Return how to launch an executable on virtual devices."""
    execute: Execute = raw.execute_sharded
    lock = None if callbacks else client.launch_lock
    if len(raw.local_devices()) == 1:
        return Launching(execute, lock, False, False)
    if callbacks:
        return Launching(CallingLauncher(raw, name, callbacks), lock, False, False)
    return Launching(functools.partial(_launch_whole, execute), lock, True, _exchanges(raw))


def _exchanges(raw: Any) -> bool:
    """Tell whether the devices of a program may wait for each other."""
    try:
        programs = [module.as_serialized_hlo_module_proto() for module in raw.hlo_modules()]
    except XlaError:
        return True
    return not programs or any(word in program for program in programs for word in _EXCHANGES)


def _launch_whole(execute: Execute, buffers: Sequence[Buffer]) -> Any:
    require_all(buffers)
    return execute(buffers)


def require_all(buffers: Sequence[Buffer]) -> None:
    """Raise if a shard of an argument has been deleted.

    Raises: JaxRuntimeError.
    """
    if any(buffer.is_deleted() for buffer in buffers):
        # jaxlib would run the program on the devices of the remaining shards, or crash.
        raise JaxRuntimeError("an argument, or a shard of one, has been deleted or donated")


class CallingLauncher:
    """Runs a program over several devices that calls the host, until it ends.

    Failures of callbacks are raised afterwards: they do not stop the devices.
    """

    __slots__ = ("_execute", "_name", "_runs")

    def __init__(self, raw: Any, name: str, callbacks: Sequence[HostCallback]) -> None:
        self._execute = raw.execute_sharded
        self._name = name
        self._runs: list[Run] = []
        for callback in callbacks:
            callback.runs = self._runs

    def __call__(self, buffers: Sequence[Buffer]) -> Any:
        """Return a launch, which runs when it is given the handlers of the results."""
        return _Launch(self._execute, self._name, buffers, Run(), self._runs)


class _Launch(NamedTuple):
    execute: Execute
    name: str
    buffers: Sequence[Buffer]
    run: Run
    runs: list[Run]

    def consume_with_handlers(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        require_all(self.buffers)
        _forget_ended()
        outs: Sequence[Buffer] = []
        self.runs.append(self.run)
        try:
            outs = self.execute(self.buffers).consume_with_handlers(handlers)
            for out in outs:
                # Reading the result raises the failure.
                with contextlib.suppress(XlaError):
                    _runtime.wait_until_ready(out)
        except (XlaError, ValueError):
            # It was not launched.
            self.runs.remove(self.run)
            raise
        except BaseException:
            # A signal handler raised this; the run continues.
            _left.append((outs, self.runs, self.run))
            raise
        self.runs.remove(self.run)
        if self.run.failure is not None:
            raise_failure(self.run.failure, f"running {self.name}")
        return outs


def _forget_ended() -> None:
    for left in list(_left):
        outs, runs, run = left
        # If a handler raised before results existed, there is nothing to query.
        if outs and all(out.is_deleted() or out.is_ready() for out in outs):
            with contextlib.suppress(ValueError):
                _left.remove(left)
                runs.remove(run)
