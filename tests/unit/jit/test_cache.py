"""Programs die with their function; ids are never trusted."""

from __future__ import annotations

import gc

import pytest

from kiln.jit import cache


def test_entries_are_of_one_function_and_one_set_of_options() -> None:
    def f():
        pass

    def g():
        pass

    first = cache.entries_of(f, "a")
    assert cache.entries_of(f, "a") is first
    assert cache.entries_of(f, "b") is not first
    assert cache.entries_of(g, "a") is not first


def test_entries_die_with_the_function() -> None:
    def f():
        pass

    key = id(f)
    cache.entries_of(f, ())
    assert key in cache._by_identity
    del f
    gc.collect()
    assert key not in cache._by_identity


def test_equal_objects_are_not_one_function() -> None:
    class Equal:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    a, b = Equal(), Equal()
    assert cache.entries_of(a, ()) is not cache.entries_of(b, ())


def test_functions_without_weak_references() -> None:
    with pytest.raises(TypeError, match="cannot create weak reference"):
        cache.entries_of((1, 2), ())


def test_forget() -> None:
    def f():
        pass

    entries = cache.entries_of(f, ())
    entries["key"] = None  # type: ignore[assignment]
    cache.forget(f)
    assert entries == {}
