"""Programs die with their function; ids are never trusted."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from kiln.base.config import override
from kiln.base.tree import tree_structure
from kiln.core.staging import stage_pure
from kiln.execution import compilation
from kiln.execution.placement import PlacementRequest
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.jit import cache
from kiln.jit.explain import Record, only
from kiln.jit.history import CacheInfo
from kiln.ops.elementwise import mul

TREE = tree_structure((0,))
AVAL = ShapedArray((3,), np.dtype(np.float32))


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


def entry_of(jaxpr: Jaxpr) -> cache.Entry:
    entry = cache.Entry(jaxpr, [], TREE, TREE, "f", None)
    with override(engine="reference"):
        entry.placer_for(False).compiled(None)
    return entry


def program(factor: float) -> Jaxpr:
    return stage_pure(lambda x: [mul(x, factor)], [AVAL])


def test_forget() -> None:
    def f():
        pass

    entries = cache.entries_of(f, ())
    entries["key"] = entry_of(program(2.0))
    entries.history.traces = 1
    cache.forget(f)
    assert entries == {}
    assert entries.history.traces == 0


def test_what_is_held_is_added_up_once() -> None:
    compilation.clear()
    entries = cache.Entries()
    assert entries.info() == CacheInfo(0, 0, 0, 0, 0, 0.0, 0.0)
    entries["a"], entries["b"] = (entry_of(program(2.0)) for _ in range(2))
    entries["c"] = entry_of(program(3.0))
    entries["d"] = cache.Entry(program(4.0), [], TREE, TREE, "f", None)
    size = entries["a"].programs[0].size
    assert entries.info()[2:5] == (4, 2, 2 * size)
    entries["c"].programs[0].unload()
    assert entries.info()[2:5] == (4, 1, size)


def test_the_time_of_a_compilation_reaches_history_and_record() -> None:
    entries = cache.Entries()
    entry = cache.Entry(program(2.0), [], TREE, TREE, "f", None)
    record = entry.record = Record("f", "f", only("first call"), "here")
    entries.note_compilation(entry, 0.5)
    entries.note_compilation(entry, 0.25)
    assert entries.history.compile_seconds == 0.75
    assert record.compile_seconds == 0.5
    assert entry.record is None


def test_forgetting_spares_what_others_hold() -> None:
    def f():
        pass

    compilation.clear()
    shared, own = program(5.0), program(6.0)
    entries = cache.entries_of(f, ())
    entries["shared"], entries["own"] = entry_of(shared), entry_of(own)
    other = entry_of(shared)
    watch = weakref.ref(entries["own"].programs[0])
    cache.forget(f)
    assert watch() is None
    assert other.programs[0].is_loaded
    assert entry_of(shared).programs[0] is other.programs[0]


def test_the_users_objects_die_outside_the_lock() -> None:
    class Dying:
        def __del__(self):
            died.append(acquired_elsewhere())

    def acquired_elsewhere() -> bool:
        found: list[bool] = []

        def work():
            found.append(cache._lock.acquire(blocking=False))
            if found[0]:
                cache._lock.release()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]

    died: list[bool] = []
    for forget in (cache.forget, lambda f: cache.clear_caches(), lambda f: None):

        def f():
            pass

        entries = cache.entries_of(f, ())
        entries["key"] = cache.Entry(program(2.0), [Dying()], TREE, TREE, "f", None)
        del entries
        forget(f)
        del f
        gc.collect()
    assert died == [True, True, True]


def test_variants_are_made_once_for_equal_requests() -> None:
    entry = entry_of(program(7.0))
    donating, again = [entry.with_request(PlacementRequest(donated=(0,))) for _ in range(2)]
    assert donating.jaxpr is entry.jaxpr and donating.compiled is None
    placer = donating.placer_for(False)
    assert again.placer_for(False) is placer is not entry.placer_for(False)
    with override(engine="reference"):
        placer.compiled(None)
    assert len(entry.programs) == len(donating.programs) == 2
