"""What evidence finds is what content would find, and lives as long."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

import kiln
from kiln import numpy as jnp
from kiln.base.options.config import override
from kiln.content import fingerprint
from kiln.jit import recollection, recorder


def inner(x: Any) -> Any:
    """A function that fresh ones call."""
    return x + OFFSET


OFFSET = 1


def fresh() -> Callable[[Any], Any]:
    """Return a new function of the same content."""
    return lambda x: inner(x)


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions whose content is asked for."""
    seen: list[Any] = []

    def content_of(value: Any, **options: Any) -> Any:
        seen.append(value)
        return fingerprint.content_of(value, **options)

    monkeypatch.setattr(recorder, "content_of", content_of)
    kiln.clear_caches()
    return seen


def test_a_function_that_is_known_is_not_read(readings: list[Any]) -> None:
    x = jnp.arange(3.0)
    for _ in range(5):
        assert kiln.jit(fresh())(x).tolist() == [1, 2, 3]
    assert len(readings) == 1


def test_another_kind_of_call_is_another_recording(readings: list[Any]) -> None:
    for _ in range(2):
        assert kiln.jit(fresh())(jnp.arange(3.0)).dtype == jnp.float32
        assert kiln.jit(fresh())(jnp.arange(3)).dtype == jnp.int32
        assert kiln.jit(fresh())(jnp.arange(2)).tolist() == [1, 2]
        assert kiln.jit(fresh(), keep_unused=True)(jnp.arange(2)).tolist() == [1, 2]
    assert len(readings) == 4


def test_changed_globals_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.arange(2.0)
    f = fresh()
    first = kiln.jit(f)
    assert first(x).tolist() == [1, 2]
    monkeypatch.setitem(globals(), "OFFSET", 5)
    assert kiln.jit(fresh())(x).tolist() == [5, 6]
    # As jax does: a function that was called keeps its trace.
    assert first(x).tolist() == [1, 2]
    assert kiln.jit(f)(x).tolist() == [1, 2]


def test_a_recollected_function_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    x = jnp.arange(2.0)
    kiln.jit(fresh())(x)
    f = fresh()
    second = kiln.jit(f)
    assert second(x).tolist() == [1, 2]
    monkeypatch.setitem(globals(), "OFFSET", 5)
    assert second(x).tolist() == [1, 2]
    assert kiln.jit(f)(x).tolist() == [1, 2]
    assert second.is_stale()
    assert second.cache_info().entries == 1


def test_options_are_compared(readings: list[Any]) -> None:
    x = jnp.arange(2.0)
    kiln.jit(fresh())(x)
    with kiln.enable_x64():
        kiln.jit(fresh())(x)
    assert len(readings) == 2


def test_trees_that_equality_does_not_tell_apart() -> None:
    def make() -> Callable[[Any], Any]:
        return lambda tree: [x * len(repr(key)) for key, x in tree.items()]

    for _ in range(2):
        assert kiln.jit(make())({1: 2.0}) == [2.0]
        assert kiln.jit(make())({True: 2.0}) == [8.0]
        assert kiln.jit(make())({1.0: 2.0}) == [6.0]


def test_recordings_are_not_kept_alive() -> None:
    kiln.clear_caches()
    x = jnp.arange(3.0)
    with override(trace_cache_mb=0):
        kiln.jit(fresh())(x)
        kiln.jit(lambda x: x * 3)(x)  # which drives out what is not in use
    gc.collect()
    found = [each.recording() for those in recollection._known.values() for each in those]
    assert len(found) == 2
    assert found.count(None) >= 1


def test_there_are_not_too_many() -> None:
    kiln.clear_caches()
    x = jnp.arange(3.0)
    for number in range(recollection.MOST + 3):
        space: dict[str, Any] = {"inner": lambda x, number=number: x + number}
        for _ in range(2):
            made = type(inner)(fresh().__code__, space, "fresh")
            assert kiln.jit(made)(x).tolist() == [number, 1 + number, 2 + number]
    assert max(map(len, recollection._known.values())) == recollection.MOST


def test_clear_caches_forgets() -> None:
    kiln.jit(fresh())(1)
    kiln.clear_caches()
    assert not recollection._known
