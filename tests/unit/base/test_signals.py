"""Ctrl-C held back and remembered."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kiln.base import signals
from kiln.base.signals import Forgotten, HeldBack


@pytest.fixture
def handled() -> Iterator[list[Any]]:
    """Have a handler that notes the signals and raises KeyboardInterrupt."""
    seen: list[Any] = []

    def handler(number: int, frame: Any) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGINT, handler)
    yield seen
    assert signal.signal(signal.SIGINT, previous) is handler


def test_it_strikes_at_the_end(handled: list[Any]) -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):
        with HeldBack():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            steps.append(list(handled))
        steps.append("never")
    assert steps == [[]]
    assert handled == [signal.SIGINT]


def test_contexts_within_each_other_hold_it_back_to_the_outer_end(handled: list[Any]) -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), HeldBack():
        with HeldBack():
            signal.raise_signal(signal.SIGINT)
        steps.append(len(handled))
    assert steps == [0]


def test_without_a_signal_nothing_happens_and_errors_pass(handled: list[Any]) -> None:
    with HeldBack():
        pass
    with pytest.raises(KeyError), HeldBack():
        raise KeyError
    assert handled == []


def test_handlers_that_are_not_pythons_stay() -> None:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with HeldBack():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)


def test_on_other_threads_there_is_nothing_to_hold_back() -> None:
    inside: list[Any] = []
    before = signal.getsignal(signal.SIGINT)

    def work() -> None:
        with HeldBack():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert inside == [before]


def test_what_was_forgotten_is_raised_once() -> None:
    forgotten = Forgotten()
    forgotten.check()
    forgotten.note(TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        forgotten.check()
    forgotten.check()


def test_what_the_second_call_raises_by_itself_is_not_remembered() -> None:
    forgotten = Forgotten()
    forgotten.note(RuntimeError("deleted"))
    forgotten.check()


def test_nothing_is_raised_much_later(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = Forgotten()
    monkeypatch.setattr(signals, "REMEMBERED_S", 0.0)
    forgotten.note(KeyboardInterrupt())
    forgotten.check()
