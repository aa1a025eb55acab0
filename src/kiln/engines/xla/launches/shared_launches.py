"""Launches of programs that several processes run together, one at a time."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError, one_line, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.effects.host_call import raise_failure
from kiln.core.processes.peers import Peers, peers
from kiln.engines.xla.launches.serialized_launches import CallingLauncher, require_all
from kiln.engines.xla.runtime.binding import XlaError, failed
from kiln.engines.xla.runtime.buffers import Buffer
from kiln.engines.xla.stablehlo.callbacks import HostCallback, Run, is_inside_call

_calls: collections.Counter[tuple[int, ...]] = collections.Counter()


class SharedLauncher(CallingLauncher):
    """Runs a program of several processes until it ends; the next one starts afterwards.

    All processes must run such programs in the same order. A run that waits for a failed process is
    abandoned. A callback to Python runs in the first of the processes; if it fails, the program
    continues with zeros, and then all processes raise.
    """

    __slots__ = ("_calls_host", "_digest", "_group", "_lock")

    def __init__(
        self,
        raw: Any,
        name: str,
        callbacks: Sequence[HostCallback],
        lock: _runtime.LaunchLock,
        group: Sequence[int],
        digest: str,
    ) -> None:
        super().__init__(raw, name, callbacks)
        self._calls_host = bool(callbacks)
        self._lock = lock
        self._group = tuple(group)
        self._digest = digest

    def __call__(self, buffers: Sequence[Buffer]) -> Any:
        """Return a launch, which runs when it is given the handlers of the results."""
        run = Run() if self._calls_host else None
        return _Launch(
            self._execute,
            self._name,
            buffers,
            self._lock,
            self._group,
            self._digest,
            run,
            self._runs,
        )


class _Launch(NamedTuple):
    execute: Callable[..., Any]
    name: str
    buffers: Sequence[Buffer]
    lock: _runtime.LaunchLock
    group: tuple[int, ...]
    digest: str
    run: Run | None
    runs: list[Run]

    def consume_with_handlers(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        others = peers()
        assert others is not None
        if is_inside_call():
            raise JaxRuntimeError(
                three_lines(
                    f"running {self.name} in the processes {list(self.group)}, in a callback at "
                    f"{current_source()}",
                    "only this process is in the callback, and the others would not run it",
                    "compute on arrays of this process in callbacks",
                )
            )
        if self.run is None:
            return self.lock.alone(functools.partial(self._run_with, others, handlers))
        # Without the lock: callbacks may run programs on this process.
        outs = self._run_with(others, handlers)
        self._raise_failures(others, self.run)
        return outs

    def _run_with(self, others: Peers, handlers: Sequence[Any]) -> Sequence[Buffer]:
        run = functools.partial(self._noted_run if self.run else self._run_to_end, handlers)
        return others.run(self.group, run, self.name, self.digest)

    def _raise_failures(self, others: Peers, run: Run) -> None:
        """Raise the exceptions of callbacks in any of the processes."""
        failure, asked = run.failure, f"running {self.name}"
        text = "" if failure is None else f"{failure.kind.__name__}: {failure.error()}"
        _calls[self.group] += 1
        topic = f"calls/{_calls[self.group]}"
        said = others.exchange(topic, text, asked, self.group)
        if failure is not None:
            raise_failure(failure, asked)
        wrong = [
            f"process {rank}: {one_line(each):.500}"
            for each, ranks in said.items()
            for rank in ranks
            if each
        ]
        if wrong:
            raise JaxRuntimeError(
                three_lines(
                    asked,
                    f"a callback failed in another process; {'; '.join(wrong)}",
                    "see the traceback there",
                )
            )

    def _noted_run(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        """Run to the end; callbacks record failures even if the caller has abandoned the run."""
        assert self.run is not None
        self.runs.append(self.run)
        try:
            return self._run_to_end(handlers)
        finally:
            self.runs.remove(self.run)

    def _run_to_end(self, handlers: Sequence[Any]) -> Sequence[Buffer]:
        require_all(self.buffers)
        try:
            outs: Sequence[Buffer] = self.execute(self.buffers).consume_with_handlers(handlers)
            for out in outs:
                # This thread receives no signals, and may be abandoned: it can block in jaxlib.
                out.block_until_ready()
        except (XlaError, ValueError) as error:
            failed(error, f"running {self.name}")
        return outs
