"""Programs on virtual devices do not overlap with one whose devices wait for each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, sharding
from kiln.engines.xla.launches.serialized_launches import CallingLauncher, launching_of
from kiln.engines.xla.runtime.client import client
from kiln.engines.xla.stablehlo.callbacks import HostCallback

ROWS = sharding.NamedSharding(sharding.make_mesh((8,), ("d",)), sharding.P("d"))
COLUMNS = sharding.NamedSharding(ROWS.mesh, sharding.P(None, "d"))


def test_programs_that_exchange_data_run_one_by_one() -> None:
    """Several under way at once can starve each other of threads, which ends the process."""
    x = kiln.device_put(np.ones((512, 512), np.float32), ROWS)
    step = kiln.jit(lambda x: x - (x @ x.T).mean() * 1e-3)
    for _ in range(30):
        x = step(x)
        assert x.is_ready()


def over_members(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return kiln.shard_map(body, mesh=ROWS.mesh, in_specs=sharding.P("d"), out_specs=sharding.P("d"))


def ring(x: Any) -> Any:
    return lax.ppermute(x, "d", [(i, (i + 1) % 8) for i in range(8)])


@pytest.mark.parametrize(
    ("function", "exchanges"),
    [
        (lambda x: x + 1, False),
        (lambda x: jnp.sort(x * 2, axis=1).sum(1), False),
        (over_members(lambda x: x @ x.T), False),
        (lambda x: x / x.sum(0), True),
        (lambda x: x @ x.T, True),
        (lambda x: lax.with_sharding_constraint(x + 1, COLUMNS), True),
        (over_members(lambda x: lax.psum(x, "d")), True),
        (over_members(lambda x: lax.psum_scatter(x[0], "d")[None]), True),
        (over_members(lambda x: lax.all_to_all(x, "d", 1, 0)), True),
        (over_members(lambda x: lax.all_gather(x, "d")[0]), True),
        (over_members(ring), True),
        (
            over_members(lambda x: lax.while_loop(lambda x: lax.pmax(x, "d").max() < 9, ring, x)),
            True,
        ),
    ],
)
def test_which_programs_exchange_data(function: Callable[[Any], Any], exchanges: bool) -> None:
    x = kiln.device_put(np.ones((8, 8), np.float32), ROWS)
    raw = kiln.jit(function).lower(x).compile().runtime_executable()
    found = launching_of(client("cpu"), raw, "function", [])
    assert (found.launches_alone, found.runs_alone) == (True, exchanges)


def test_programs_on_one_virtual_device_are_launched_at_once() -> None:
    x = kiln.device_put(np.ones(8, np.float32), kiln.devices()[3])
    raw = kiln.jit(jnp.sin).lower(x).compile().runtime_executable()
    lock = client("cpu").launch_lock
    assert launching_of(client("cpu"), raw, "sin", [])[1:] == (lock, False, False)


def test_a_deleted_argument_of_a_program_that_exchanges_nothing() -> None:
    x = kiln.device_put(np.ones((8, 8), np.float32), ROWS)
    raw = kiln.jit(lambda x: x + 1).lower(x).compile().runtime_executable()
    launch = launching_of(client("cpu"), raw, "function", []).execute
    _, buffer, _ = x._data()
    launch([buffer])
    buffer.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        launch([buffer])


@pytest.mark.parametrize("launched", ["alone", "spread", "exchanging"])
def test_nothing_is_launched_beside_a_run_that_an_interrupt_left(launched: str) -> None:
    def body(x: Any) -> Any:
        return lax.fori_loop(0, 5_000, lambda _, x: lax.pmean(jnp.sin(x), "d"), x)

    spread = kiln.device_put(np.ones((8, 64), np.float32), ROWS)
    alone = kiln.device_put(np.ones(8, np.float32), kiln.devices()[3])
    long, short = kiln.jit(over_members(body)), kiln.jit(lambda x: x + 1)
    exchanging = kiln.jit(lambda x: x / x.sum(0))
    for warm in (long(spread), short(alone), short(spread), exchanging(spread)):
        warm.block_until_ready()
    left = interrupted(lambda: long(spread))
    assert left and not left[0][0].is_ready()
    if launched == "exchanging":
        exchanging(spread)
    else:
        short(alone if launched == "alone" else spread)
    assert left == []


def interrupted(call: Callable[[], Any]) -> list[Any]:
    """Call what runs for long, interrupt it, and return the runs that it left."""
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        signal.signal(signal.SIGALRM, before)
    return client("cpu").launch_lock._left


class Result:
    """A result that comes when a test lets it."""

    has_come = False

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return self.has_come


class Executable:
    """What jaxlib's executables are to a launcher."""

    def __init__(self, results: list[Result]) -> None:
        self.results = results

    def execute_sharded(self, buffers: Sequence[Any]) -> Executable:
        return self

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list[Result]:
        return self.results


def test_a_run_that_a_signal_handler_leaves_hears_of_failing_callbacks() -> None:
    """Told to XLA instead, its other devices would wait until XLA ends the process."""

    def handler(*_: Any) -> None:
        raise TimeoutError

    result, callback = Result(), HostCallback(list, [], token=False)
    launch = CallingLauncher(Executable([result]), "function", [callback])
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError):
            launch([]).consume_with_handlers([])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert callback.runs is not None
    assert [run.failure for run in callback.runs] == [None]
    result.has_come = True
    launch([]).consume_with_handlers([])
    assert callback.runs == []


@pytest.mark.parametrize(
    ("kind", "devices", "threads"),
    [
        ("spread", 8, 3),
        *[
            pytest.param(kind, devices, threads, marks=pytest.mark.full)
            for kind in ("spread", "alone", "mixed")
            for devices, threads in ((8, 3), (8, 6), (64, 3))
            if (kind, devices, threads) != ("spread", 8, 3)
        ],
    ],
)
def test_threads_that_launch_programs_of_all_kinds(kind: str, devices: int, threads: int) -> None:
    """XLA ends the process after 40 seconds if some are launched into one that exchanges data."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.launched_together", kind, str(threads)],
        env={**os.environ, "KILN_NUM_CPU_DEVICES": str(devices), "XLA_FLAGS": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-500:]
