"""Values live as long as the objects they are kept for, and are found by identity."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from kiln._runtime import WeakTable


class Equal:
    """All are equal, with one hash."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Value:
    """Something that can be referred to weakly."""


def test_the_first_value_is_kept() -> None:
    table, key = WeakTable(), Equal()
    assert table.get(key) is None
    assert table.put(key, "a") == "a"
    assert table.put(key, "b") == "a"
    assert table.get(key) == "a"
    assert table.values() == ["a"]


def test_equal_objects_have_values_of_their_own() -> None:
    table, a, b = WeakTable(), Equal(), Equal()
    table.put(a, 1)
    assert table.get(b) is None
    table.put(b, 2)
    assert (table.get(a), table.get(b), len(table)) == (1, 2, 2)


def test_values_go_with_their_objects() -> None:
    table, key, value = WeakTable(), Equal(), Value()
    gone = weakref.ref(value)
    table.put(key, value)
    del value
    assert gone() is not None
    del key
    assert gone() is None
    assert len(table) == 0


def test_objects_in_a_cycle() -> None:
    table, key = WeakTable(), Equal()
    key.itself = key  # type: ignore[attr-defined]
    table.put(key, 1)
    del key
    gc.collect()
    assert len(table) == 0


def test_addresses_of_the_dead_are_not_trusted() -> None:
    table = WeakTable()
    for number in range(10000):
        key = Equal()
        assert table.get(key) is None
        table.put(key, number)
    del key
    assert len(table) == 0


def test_values_that_use_the_table_when_they_go() -> None:
    table, found = WeakTable(), []

    class Last:
        def __del__(self) -> None:
            found.append(table.put(held, "late"))

    held, key = Equal(), Equal()
    table.put(key, Last())
    del key
    assert found == ["late"]
    assert table.get(held) == "late"


def test_a_table_goes_with_what_it_keeps() -> None:
    table, key, value = WeakTable(), Equal(), Value()
    gone = weakref.ref(value)
    table.put(key, (value, table))
    del table, value
    gc.collect()
    assert gone() is None
    del key


def test_what_cannot_be_referred_to_weakly() -> None:
    table = WeakTable()
    with pytest.raises(TypeError, match="weak reference"):
        table.put(3, "a")
    with pytest.raises(TypeError, match="an object and a value"):
        table.put(Equal())  # type: ignore[call-arg]
    assert table.get(3) is None


def test_many_threads() -> None:
    table, keys = WeakTable(), [Equal() for _ in range(50)]
    found: list[list[Any]] = []

    def work(number: int) -> None:
        for _ in range(200):
            table.put(Equal(), number)
        found.append([table.put(key, (number, i)) for i, key in enumerate(keys)])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(values == found[0] for values in found)
    assert len(table) == 50
