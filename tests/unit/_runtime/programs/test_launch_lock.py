"""The launch lock: any number of launches at once, or one program that runs alone, to its end."""

from __future__ import annotations

import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kiln.engines.xla.runtime.apart  # noqa: F401, launches on another thread
from kiln import _runtime

PATIENCE_S = 20.0


class Result:
    """What a program will have computed."""

    def __init__(self) -> None:
        self.come = threading.Event()

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return self.come.is_set()


class Executable:
    """Calls a function while it is launched."""

    def __init__(self, inside: Callable[[], Any], results: list[Any]) -> None:
        self.inside = inside
        self.results = results

    def __call__(self, buffers: list[Any]) -> Executable:
        self.inside()
        return self

    def consume_with_handlers(self, handlers: list[Any]) -> list[Any]:
        return self.results


def launcher(
    lock: _runtime.LaunchLock,
    inside: Callable[[], Any] = lambda: None,
    *,
    results: list[Any] | None = None,
    alone: bool = False,
    slow: bool = False,
) -> Callable[[], Any]:
    made = _runtime.Launcher(Executable(inside, results or []), [], "f")
    made._launch_lock, made._is_slow = lock, slow
    made._launches_alone, made._runs_alone = alone, results is not None
    return lambda: made([])


class Held:
    """A launch on another thread that stays inside until it is let go."""

    def __init__(self, lock: _runtime.LaunchLock, *, alone: bool) -> None:
        self.inside, self.leaves = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=launcher(lock, self.stay, alone=alone))
        self.thread.start()

    def stay(self) -> None:
        self.inside.set()
        assert self.leaves.wait(PATIENCE_S)

    def is_inside(self) -> bool:
        return self.inside.wait(PATIENCE_S)

    def is_kept_out(self) -> bool:
        return not self.inside.wait(0.05)

    def end(self) -> None:
        self.leaves.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@pytest.fixture
def lock() -> _runtime.LaunchLock:
    return _runtime.LaunchLock()


@pytest.fixture
def hold(lock: _runtime.LaunchLock) -> Iterator[Callable[[bool], Held]]:
    made: list[Held] = []

    def start(alone: bool) -> Held:
        made.append(Held(lock, alone=alone))
        return made[-1]

    yield start
    for held in made:
        held.end()


def test_launches_go_at_once(hold: Callable[[bool], Held]) -> None:
    assert all(held.is_inside() for held in [hold(False), hold(False), hold(False)])


@pytest.mark.parametrize("first", [False, True])
def test_a_program_that_runs_alone_waits_and_is_waited_for(
    hold: Callable[[bool], Held], first: bool
) -> None:
    before = hold(first)
    assert before.is_inside()
    after = hold(True)
    assert after.is_kept_out()
    before.end()
    assert after.is_inside()


def test_who_came_first_goes_first(hold: Callable[[bool], Held]) -> None:
    """Launches that come all the time keep none out that runs alone, nor does it keep them out."""
    first = hold(False)
    assert first.is_inside()
    alone = hold(True)
    assert alone.is_kept_out()
    later = [hold(False), hold(False)]
    assert all(held.is_kept_out() for held in later)
    last = hold(True)
    first.end()
    assert alone.is_inside()
    assert all(held.is_kept_out() for held in [*later, last])
    alone.end()
    assert all(held.is_inside() for held in later)
    assert last.is_kept_out()
    for held in later:
        held.end()
    assert last.is_inside()


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_a_launch_within_another_one(
    lock: _runtime.LaunchLock, hold: Callable[[bool], Held], outer: bool, inner: bool
) -> None:
    """A finalizer runs it; the turn around it counts again afterwards."""
    entered: list[int] = []
    waiting: list[Held] = []

    def within() -> None:
        if not inner:
            waiting.append(hold(True))
            assert waiting[0].is_kept_out()
        launcher(lock, lambda: entered.append(1), alone=inner)()
        waiting.append(hold(True))
        assert all(held.is_kept_out() for held in waiting)

    launcher(lock, within, alone=outer)()
    assert entered == [1]
    for held in waiting:
        assert held.is_inside()
        held.end()


def test_launches_of_two_threads_that_each_run_one_alone_within(lock: _runtime.LaunchLock) -> None:
    both, entered = threading.Barrier(2), []

    def within() -> None:
        both.wait(PATIENCE_S)
        launcher(lock, lambda: entered.append(1), alone=True)()

    threads = [threading.Thread(target=launcher(lock, within)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert entered == [1, 1]


def test_programs_of_two_clients_do_not_wait_for_each_other(hold: Callable[[bool], Held]) -> None:
    assert hold(True).is_inside()
    entered: list[int] = []
    launcher(_runtime.LaunchLock(), lambda: entered.append(1), alone=True)()
    assert entered == [1]


def test_a_program_that_runs_alone_is_waited_for(lock: _runtime.LaunchLock) -> None:
    result, returned = Result(), threading.Event()

    def run() -> None:
        assert launcher(lock, results=[result], alone=True)() == [result]
        returned.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert not returned.wait(0.05)
    result.come.set()
    thread.join(PATIENCE_S)
    assert returned.is_set()
    assert lock._left == []


def signaled(handler: Callable[..., Any], call: Callable[[], Any]) -> Any:
    """Call what waits, with a signal in between."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        return call()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_run_is_waited_for_by_the_next_launch(lock: _runtime.LaunchLock) -> None:
    result = Result()
    with pytest.raises(KeyboardInterrupt):
        signaled(signal.default_int_handler, launcher(lock, results=[result], alone=True))
    assert lock._left == [[result]]
    entered = threading.Event()
    thread = threading.Thread(target=launcher(lock, entered.set))
    thread.start()
    assert not entered.wait(0.05)
    result.come.set()
    thread.join(PATIENCE_S)
    assert entered.is_set()
    assert lock._left == []


@pytest.mark.parametrize("alone", [False, True])
def test_who_is_interrupted_gives_its_place_up(
    lock: _runtime.LaunchLock, hold: Callable[[bool], Held], alone: bool
) -> None:
    first = hold(True)
    assert first.is_inside()
    with pytest.raises(KeyboardInterrupt):
        signaled(signal.default_int_handler, launcher(lock, alone=alone))
    first.end()
    last = hold(True)
    assert last.is_inside()


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_a_signal_handler_launches_while_its_thread_waits(
    lock: _runtime.LaunchLock, hold: Callable[[bool], Held], outer: bool, inner: bool
) -> None:
    first = hold(True)
    assert first.is_inside()
    entered: list[str] = []

    def handler(*_: Any) -> None:
        first.leaves.set()
        launcher(lock, lambda: entered.append("handler"), alone=inner)()

    signaled(handler, launcher(lock, lambda: entered.append("call"), alone=outer))
    assert entered == ["handler", "call"]


@pytest.mark.parametrize("waits_for", ["its turn", "its end"])
def test_a_signal_handler_launches_what_would_go_to_another_thread(
    lock: _runtime.LaunchLock, hold: Callable[[bool], Held], waits_for: str
) -> None:
    """That one would wait for the turn of the thread that the handler keeps."""
    threads: list[int] = []
    launcher(lock, lambda: threads.append(threading.get_ident()), slow=True)()
    result = Result()
    first = hold(True) if waits_for == "its turn" else None

    def handler(*_: Any) -> None:
        if first is not None:
            assert first.is_inside()
            first.leaves.set()
            first.thread.join(PATIENCE_S)
        result.come.set()
        launcher(lock, lambda: threads.append(threading.get_ident()), slow=True)()

    assert first is None or first.is_inside()
    signaled(handler, launcher(lock, results=[result], alone=True))
    assert [thread == threading.get_ident() for thread in threads] == [False, True]


def test_a_function_is_called_alone(
    lock: _runtime.LaunchLock, hold: Callable[[bool], Held]
) -> None:
    held: list[Held] = []

    def body() -> str:
        held.append(hold(False))
        assert held[0].is_kept_out()
        return "answer"

    assert lock.alone(body) == "answer"
    assert held[0].is_inside()
    held[0].end()
    with pytest.raises(ZeroDivisionError):
        lock.alone(lambda: 1 // 0)
    assert hold(True).is_inside()


def test_threads_of_all_kinds(lock: _runtime.LaunchLock) -> None:
    beside: list[int] = []
    alone: list[int] = []
    wrong: list[tuple[int, int]] = []

    def enter(mine: list[int]) -> None:
        mine.append(1)
        if len(alone) > 1 or (alone and beside):
            wrong.append((len(alone), len(beside)))
        time.sleep(0)
        mine.pop()

    def run(number: int) -> None:
        for i in range(300):
            mine = alone if (i + number) % 3 == 0 else beside
            inside = functools.partial(enter, mine)
            launcher(lock, inside, alone=mine is alone)()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
