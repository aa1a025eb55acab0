"""A mapping bounded by bytes."""

from __future__ import annotations

import gc
import threading
from typing import Any

from kiln.base.caches.bounded import CLOCK, SLACK, Bounded


def test_what_was_used_longest_ago_goes_first() -> None:
    cache: Bounded[str, str] = Bounded(lambda: 3)
    for key in "abc":
        cache.put(key, key.upper(), 1)
    assert cache.get("a") == "A"
    cache.put("d", "D", 1)
    assert [key for key, _ in cache.items()] == ["a", "c", "d"]
    assert cache.peek("c") == "C"
    cache.put("e", "E", 1)
    assert [key for key, _ in cache.items()] == ["a", "d", "e"]
    assert cache.get("c") is None


def test_sizes_count_and_the_newest_always_stays() -> None:
    cache: Bounded[str, str] = Bounded(lambda: 10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert (len(cache), cache.size) == (2, 8)
    cache.put("large", "L", 50)
    assert (len(cache), cache.size) == (1, 50)
    cache.put("c", "C", 1)
    assert (len(cache), cache.size) == (1, 1)


def test_values_may_say_themselves_when_they_were_used() -> None:
    class Value:
        used = 0

    a, b, c = Value(), Value(), Value()
    cache: Bounded[str, Value] = Bounded(lambda: 2, used=lambda value: value.used)
    cache.put("a", a, 1)
    cache.put("b", b, 1)
    a.used = CLOCK.now
    cache.put("c", c, 1)
    assert [value for _, value in cache.items()] == [a, c]


def test_leaving_is_announced_without_a_lock() -> None:
    left: list[str] = []

    def leaving(value: str) -> None:
        left.append(value)
        cache.put("from inside", "I", 1)

    cache: Bounded[str, str] = Bounded(lambda: 2, on_leaving=leaving)
    cache.put("a", "A", 1)
    cache.put("b", "B", 1)
    cache.put("c", "C", 1)
    assert left == ["A", "B"]
    assert cache.take("c") == "C"
    cache.remove("nothing")
    assert left == ["A", "B"]
    cache.clear()
    assert left == ["A", "B", "I"]


def test_an_overflow_frees_some_room() -> None:
    cache: Bounded[int, int] = Bounded(lambda: 16 * SLACK)
    for i in range(16 * SLACK + 1):
        cache.put(i, i, 1)
    assert cache.size == 15 * SLACK


def test_the_first_of_two_values_stays() -> None:
    cache: Bounded[str, Any] = Bounded(lambda: 10)
    assert cache.put("a", "first", 4) == "first"
    assert cache.put("a", "second", 4) == "first"
    assert cache.size == 4


def test_threads_leave_the_count_right() -> None:
    cache: Bounded[int, int] = Bounded(lambda: 64)

    def work(n: int) -> None:
        for i in range(2000):
            cache.put((n * 7919 + i * 31) % 500, i, 1)
            cache.get(i % 500)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.size == len(cache) <= 64
    cache.clear()
    assert cache.size == len(cache) == 0


def test_a_collection_while_items_are_listed_may_change_them() -> None:
    cache: Bounded[int, object] = Bounded(lambda: 10**6)
    for i in range(500):
        cache.put(i, object(), 1)

    def changed(phase: str, info: dict[str, int]) -> None:
        cache.put(10**6 + len(cache), object(), 1)

    before = gc.get_threshold()
    gc.callbacks.append(changed)
    try:
        gc.set_threshold(1)
        found = cache.items()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(changed)
    assert len(found) >= 500
    assert [key for key, _ in found[:500]] == list(range(500))
