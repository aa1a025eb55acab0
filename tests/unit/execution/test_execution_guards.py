"""Guards of execution: programs are traced, compiled and refused; threads are told apart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import config, options
from kiln.execution import execution_guards
from kiln.execution.execution_guards import check_execution

X = jnp.arange(3.0)
jitted = kiln.jit(lambda x: x * 2 + 1)
compiled = jitted.lower(X).compile()
REFUSED: dict[str, Callable[[], Any]] = {
    "jit": lambda: jitted(X),
    "compiled": lambda: compiled(X),
    "operator": lambda: X + 1,
    "function": lambda: jnp.sin(X),
    "creation": lambda: jnp.zeros(3),
    "index": lambda: X[1],
    "scan": lambda: lax.scan(lambda c, a: (c + a, a), 0.0, X),
    "gradient": lambda: kiln.grad(jnp.sin)(1.0),
    "without compilation": lambda: kiln.disable_jit()(jitted)(X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_programs_are_refused_and_run_afterwards(name: str) -> None:
    REFUSED[name]()
    with kiln.no_execution(), pytest.raises(RuntimeError, match="'no_execution' option is set"):
        REFUSED[name]()
    REFUSED[name]()


def test_what_runs_no_program_is_allowed() -> None:
    f = kiln.jit(lambda x: jnp.cos(x) - 1)
    with kiln.no_execution():
        assert kiln.device_put(np.ones(3)).tolist() == [1.0, 1.0, 1.0]
        assert "cos" in str(kiln.make_jaxpr(f)(X))
        f.lower(X).compile()
        assert kiln.eval_shape(f, X).shape == (3,)
        with pytest.raises(RuntimeError, match=r"<lambda>[\s\S]*test_execution_guards\.py:"):
            f(X)
        assert f.cache_info().traces == 1
    assert f(jnp.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_a_guard_changes_what_is_plain() -> None:
    assert options().plain_places and not options().guards_execution
    with kiln.no_execution():
        opts = options()
        assert opts.guards_execution and opts.checks_calls
        assert not (opts.plain or opts.plain_eager or opts.remembers_calls)


def on_a_thread(run: Callable[[], Any]) -> list[str]:
    """Return the error that a function raises on another thread."""
    found: list[str] = []

    def caught() -> None:
        try:
            run()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()
    return found


def test_other_threads_run_no_programs_of_several_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution_guards, "process_count", lambda: 2)
    here, there = SimpleNamespace(process_index=0), SimpleNamespace(process_index=1)
    with kiln.thread_guard():
        assert config.jax_thread_guard
        check_execution("f", [here, there])
        (error,) = on_a_thread(lambda: check_execution("f", [here, there]))
        assert "a thread other than the one that set 'thread_guard'" in error
        assert error.count("\n") == 2
        assert on_a_thread(lambda: check_execution("f", [here])) == []
        assert on_a_thread(lambda: jitted(X)) == []
        with kiln.thread_guard(False):
            assert on_a_thread(lambda: check_execution("f", [here, there])) == []
    assert not config.jax_thread_guard
    assert on_a_thread(lambda: check_execution("f", [here, there])) == []
