"""Programs of several processes; `tests/processes` runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kiln import _runtime
from kiln.engines.xla.launches import shared_launches
from kiln.engines.xla.launches.shared_launches import SharedLauncher
from kiln.engines.xla.stablehlo.callbacks import HostCallback


class Result:
    """A result that comes when a test lets it."""

    def __init__(self) -> None:
        self.begun, self.come = threading.Event(), threading.Event()

    def block_until_ready(self) -> None:
        self.begun.set()
        self.come.wait(20)


class Executable:
    """What jaxlib's executables are to a launcher."""

    def __init__(self, result: Result) -> None:
        self.result = result

    def execute_sharded(self, buffers: Sequence[Any]) -> Executable:
        return self

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list[Result]:
        return [self.result]


class Interrupted:
    """The other processes, for a caller that an interrupt strikes while the program runs."""

    def __init__(self, result: Result) -> None:
        self.result = result

    def run(self, group: Sequence[int], call: Callable[[], Any], name: str, digest: str) -> Any:
        self.thread = threading.Thread(target=call)
        self.thread.start()
        assert self.result.begun.wait(20)
        raise KeyboardInterrupt


def test_a_run_that_an_interrupt_leaves_hears_of_failing_callbacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told to XLA instead, the other processes would wait until XLA ends them."""
    result = Result()
    others, callback = Interrupted(result), HostCallback(list, [], token=False)
    monkeypatch.setattr(shared_launches, "peers", lambda: others)
    launch = SharedLauncher(
        Executable(result), "function", [callback], _runtime.LaunchLock(), [0, 1], "digest"
    )
    with pytest.raises(KeyboardInterrupt):
        launch([]).consume_with_handlers([])
    assert callback.runs is not None
    assert [run.failure for run in callback.runs] == [None]
    result.come.set()
    others.thread.join(20)
    assert callback.runs == []
