"""Interrupts that strike where Python, or kiln's own questions, drop exceptions."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

import pytest

import kiln
from kiln import _runtime


class Thing:
    """An object that can be forgotten."""


def _interrupting(count: int, calls: list[Any]) -> Any:
    def call(*args: Any) -> str:
        calls.append(args)
        if len(calls) <= count:
            raise KeyboardInterrupt(len(calls))
        return "done"

    return call


def _let_python_run() -> None:
    for _ in range(100):
        time.sleep(0)


def test_what_is_called_as_an_object_dies_loses_no_interrupt() -> None:
    """It is done to its end, and the interrupt raised once, with what it says."""
    calls: list[Any] = []
    thing = Thing()
    watch = weakref.ref(thing, _runtime.to_its_end(_interrupting(1, calls)))
    with pytest.raises(KeyboardInterrupt, match="1"):
        del thing
        _let_python_run()
    assert calls == [(watch,), (watch,)]
    _let_python_run()


def test_two_interrupts_at_once_are_one() -> None:
    """What is interrupted a second time is left."""
    calls: list[Any] = []
    call = _runtime.to_its_end(_interrupting(2, calls))
    with pytest.raises(KeyboardInterrupt, match="1"):
        call()
        _let_python_run()
    assert len(calls) == 2
    _let_python_run()


def test_results_and_exceptions_go_through() -> None:
    """An ordinary exception is the caller's."""
    assert _runtime.to_its_end(lambda a, b: a + b)(1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        _runtime.to_its_end(lambda: 1 / 0)()


def test_in_another_thread() -> None:
    """It is raised there, and nowhere else."""
    found: list[Any] = []

    def work() -> None:
        try:
            _runtime.to_its_end(_interrupting(1, []))()
            _let_python_run()
        except KeyboardInterrupt:
            found.append("there")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    _let_python_run()
    assert found == ["there"]


class Chosen:
    """A static argument whose comparison may be interrupted."""

    is_armed = False

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        if Chosen.is_armed:
            Chosen.is_armed = False
            raise KeyboardInterrupt
        return isinstance(other, Chosen)


def test_a_comparison_that_is_interrupted_is_no_answer() -> None:
    """The call would go the long way, and forget the interrupt."""
    f = kiln.jit(lambda x, _: x + 1, static_argnums=1)
    for _ in range(3):
        assert float(f(1.0, Chosen())) == 2.0
    Chosen.is_armed = True
    with pytest.raises(KeyboardInterrupt):
        f(1.0, Chosen())
        _let_python_run()
    assert not Chosen.is_armed
    assert float(f(1.0, Chosen())) == 2.0
