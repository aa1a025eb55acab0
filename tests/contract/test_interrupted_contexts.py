"""Section 13.1: an interrupt at any moment leaves no context's change behind."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen
from kiln.base.options.config import options
from kiln.base.source import current_scopes
from kiln.control.sharded_regions.shard_map import members_of
from kiln.core import compile_time, trace
from kiln.core.arrays import read_tracking
from kiln.core.trace import state
from kiln.execution import fallbacks
from kiln.extend import source_info_util
from kiln.ir.sizes import assumptions
from kiln.jit.signatures import explain
from kiln.linen.scopes.context import context
from tests.contract.marks import contract

INTERRUPTS = 50
LONGEST_S = 3e-3
AGAIN_S = 0.5
X = np.ones(3, np.float32)

KINDS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "x64": lambda: kiln.enable_x64(True),
    "precision": lambda: kiln.default_matmul_precision("float32"),
    "device": lambda: kiln.default_device(kiln.devices()[0]),
    "log": lambda: kiln.log_compiles(False),
    "leaks": lambda: kiln.checking_leaks(True),
    "mesh": lambda: kiln.make_mesh((1,), ("x",)),
    "scope": lambda: kiln.named_scope("scope"),
    "stack": lambda: source_info_util.extend_name_stack("stack"),
    "no scopes": source_info_util.reset_name_stack,
    "recompiles": kiln.explain_recompiles,
    "fallbacks": kiln.explain_fallbacks,
    "compile time": kiln.ensure_compile_time_eval,
    "root trace": trace.eval_context,
    "trace": lambda: trace.in_force(compile_time.CompileTimeTrace(state.trace)),
    "axis": lambda: trace.axis_bound("i", 3),
    "axes": lambda: members_of(kiln.make_mesh((1,), ("x",)), ("x",), True),
    "lines": trace.in_users_lines,
    "reads": lambda: read_tracking.tracking_reads([X]),
    "assumptions": lambda: assumptions.collecting(["n"]),
    "interceptor": lambda: linen.intercept_methods(lambda call, args, kwargs, _: call(*args)),
    "named calls": lambda: linen.override_named_call(False),
}


def in_force() -> tuple[Any, ...]:
    """Return all that contexts change."""
    return (
        options(),
        state.overrides,
        state.trace,
        state.axes,
        state.tracked,
        state.source,
        current_scopes(),
        list(read_tracking.READ_TRACKERS),
        list(explain._collectors),
        list(fallbacks._collectors),
        assumptions._state.collecting,
        (context.modules, context.capture, context.interceptors, context.named_calls),
    )


@pytest.fixture
def draw() -> Iterator[random.Random]:
    """Let SIGALRM be Ctrl-C."""
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield random.Random(0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


def interrupted(work: Callable[[], Any], draw: random.Random, longest: float) -> bool:
    """Repeat work until an interrupt; tell whether what was in force before is so then."""
    before = in_force()
    try:
        # Again and again: what a handler raises is lost where Python drops exceptions.
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(longest / 15, longest), AGAIN_S)
        while True:
            work()
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # With the traceback alive, and so all frames that the interrupt has left.
        return in_force() == before


@contract("13.1")
@pytest.mark.parametrize("kind", KINDS)
def test_each_context(kind: str, draw: random.Random) -> None:
    made = KINDS[kind]

    def work() -> None:
        for _ in range(100):
            with made():
                pass

    work()
    # The signal is as likely to strike in `with` as in what makes the context.
    assert all(interrupted(work, draw, LONGEST_S) for _ in range(INTERRUPTS))


def _nested(kinds: list[str], work: Callable[[], Any]) -> None:
    if not kinds:
        work()
        return
    with KINDS[kinds[0]]():
        _nested(kinds[1:], work)


class _Layer(linen.Module):
    @linen.compact
    def __call__(self, x: Any) -> Any:
        return linen.Dense(2)(jnp.sin(x))


def _traced() -> None:
    constant = random.random()
    kiln.make_jaxpr(kiln.grad(lambda x: kiln.vmap(jnp.sin)(x * constant).sum()))(X)
    _Layer().init(kiln.random.key(0), X)


def _compiled() -> None:
    constant = random.random()
    kiln.jit(lambda x: x * constant)(X)


@contract("13.1")
def test_all_contexts_within_each_other(draw: random.Random) -> None:
    # Programs are recorded under contexts of kiln's users; others are its own.
    users = ["x64", "precision", "log", "mesh", "scope", "stack", "recompiles", "interceptor"]
    for kinds, work in [(list(KINDS), lambda: None), (users, _traced), (users, _compiled)]:

        def nested(kinds: list[str] = kinds, work: Callable[[], Any] = work) -> None:
            draw.shuffle(kinds)
            _nested(kinds, work)

        nested()
        assert all(interrupted(nested, draw, 0.02) for _ in range(INTERRUPTS))
