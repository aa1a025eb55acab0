"""The thread that makes items ahead."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any

import pytest

from kiln.data.feed import End, Feed
from tests.emulated.marks import forks_beside_threads


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def counting(made: list[int], closed: list[bool], last: int = 100) -> Generator[Any, None, None]:
    try:
        yield None
        for i in range(last):
            made.append(i)
            yield i
    except GeneratorExit:
        closed.append(True)
        raise


def nothing() -> None:
    pass


def test_items_are_made_ahead_and_no_further() -> None:
    made: list[int] = []
    feed = Feed(counting(made, []), 3)
    until(lambda: len(made) == 3)
    time.sleep(0.05)
    assert made == [0, 1, 2]
    assert [feed.take(nothing) for _ in range(2)] == [0, 1]
    until(lambda: len(made) == 5)
    feed.close()


def test_the_end() -> None:
    feed = Feed(counting([], [], 2), 1)
    assert [feed.take(nothing) for _ in range(3)] == [0, 1, End(None)]
    feed.thread.join(20)
    assert not feed.thread.is_alive()


def test_an_error_is_an_item() -> None:
    def failing() -> Generator[Any, None, None]:
        yield None
        yield 1
        raise KeyError("x")

    feed = Feed(failing(), 5)
    assert feed.take(nothing) == 1
    end = feed.take(nothing)
    assert isinstance(end.error, KeyError)


@pytest.mark.parametrize("depth", [1, 4])
def test_the_thread_ends_when_the_feed_is_closed(depth: int) -> None:
    closed: list[bool] = []
    feed = Feed(counting([], closed), depth)
    feed.take(nothing)
    feed.close()
    feed.thread.join(20)
    assert (closed, feed.thread.is_alive()) == ([True], False)


def test_a_thread_that_waits_polls() -> None:
    def slow() -> Generator[Any, None, None]:
        yield None
        time.sleep(0.5)
        yield 1

    polled: list[bool] = []
    assert Feed(slow(), 1).take(lambda: polled.append(True)) == 1
    assert polled

    def fail() -> None:
        raise ValueError("a failure")

    with pytest.raises(ValueError, match="a failure"):
        Feed(slow(), 1).take(fail)


@forks_beside_threads
def test_a_forked_child_does_not_wait() -> None:
    feed = Feed(counting([], []), 2)
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if isinstance(feed.take(nothing).error, RuntimeError) else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert feed.take(nothing) == 0
    feed.close()
