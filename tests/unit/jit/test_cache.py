"""Programs die with their function; ids are never trusted."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.base.tree import tree_structure
from kiln.core.staging import stage_pure
from kiln.execution import compilation
from kiln.execution.placement import NO_REQUEST
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.jit import cache
from kiln.jit.entry import Recording
from kiln.jit.history import CacheInfo
from kiln.jit.signatures.signature import Signature
from kiln.ops.elements.elementwise import mul

TREE = tree_structure((0,))
AVAL = ShapedArray((3,), np.dtype(np.float32))


def test_recordings_are_of_one_function_and_one_set_of_options() -> None:
    def f():
        pass

    def g():
        pass

    first = cache.recordings_of(f, "a")
    assert cache.recordings_of(f, "a") is first
    assert cache.recordings_of(f, "b") is not first
    assert cache.recordings_of(g, "a") is not first


def test_recordings_die_with_the_function() -> None:
    def f():
        pass

    recording = Recording(program(2.0), [], TREE, "f")
    cache.recordings_of(f, ())["a signature"] = recording
    kept = weakref.ref(recording)
    del recording
    assert kept() is not None
    del f
    gc.collect()
    assert kept() is None


def test_equal_objects_are_not_one_function() -> None:
    class Equal:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    a, b = Equal(), Equal()
    assert cache.recordings_of(a, ()) is not cache.recordings_of(b, ())


def test_functions_without_weak_references() -> None:
    with pytest.raises(TypeError, match="cannot create weak reference"):
        cache.recordings_of((1, 2), ())


def compiled(jaxpr: Jaxpr) -> Recording:
    recording = Recording(jaxpr, [], TREE, "f")
    with override(engine="reference"):
        recording.placer_for(NO_REQUEST, False, ()).compiled(None)
    return recording


def program(factor: float) -> Jaxpr:
    return stage_pure(lambda x: [mul(x, factor)], [AVAL])


def test_forget() -> None:
    def f():
        pass

    recordings = cache.recordings_of(f, ())
    recordings["key"] = compiled(program(2.0))
    recordings.history.traces = 1
    cache.forget(f)
    assert recordings == {}
    assert recordings.history.traces == 0


def test_what_is_held_is_added_up_once() -> None:
    compilation.clear()
    recordings = cache.Recordings()
    assert recordings.info() == CacheInfo(0, 0, 0, 0, 0, 0.0, 0.0)
    recordings["a"], recordings["b"] = (compiled(program(2.0)) for _ in range(2))
    recordings["c"] = compiled(program(3.0))
    recordings["d"] = Recording(program(4.0), [], TREE, "f")
    size = recordings["a"].programs[0].size
    assert recordings.info()[2:5] == (4, 2, 2 * size)
    recordings["c"].programs[0].unload()
    assert recordings.info()[2:5] == (4, 1, size)


def test_what_was_recorded_is_of_the_function_as_it_was() -> None:
    def f():
        pass

    key = Signature(TREE, (AVAL,), (), (), ())
    first, second = compiled(program(2.0)), compiled(program(3.0))
    table = cache.recordings_of(f, ())
    assert table.keep(f, key, first) is first
    assert table.keep(f, key, second) is first
    f.__code__ = (lambda: 1).__code__
    assert table.keep(f, key, second) is second
    assert cache.recordings_of(f, ()) == {}


def test_forgetting_spares_what_others_hold() -> None:
    def f():
        pass

    compilation.clear()
    shared, own = program(5.0), program(6.0)
    recordings = cache.recordings_of(f, ())
    recordings["shared"], recordings["own"] = compiled(shared), compiled(own)
    other = compiled(shared)
    watch = weakref.ref(recordings["own"].programs[0])
    cache.forget(f)
    assert watch() is None
    assert other.programs[0].is_loaded
    assert compiled(shared).programs[0] is other.programs[0]


def _adding(x: Any) -> Any:
    """Return a function that calls one on the host that holds an array."""

    def on_host(y: Any) -> Any:
        return x + y

    return kiln.jit(lambda y: kiln.pure_callback(on_host, kiln.ShapeDtypeStruct((3,), "f4"), y))


def _moving(x: Any) -> Any:
    """Return the gradient of a function with a rule that holds an array."""
    f = kiln.custom_vjp(lambda y: jnp.sum(y))
    f.defvjp(lambda y: (jnp.sum(y), None), lambda _, ct: (ct * x,))
    return kiln.grad(kiln.jit(lambda y: f(y)))


@pytest.mark.parametrize("make", [_adding, _moving])
def test_programs_with_the_users_functions_are_not_those_of_equal_functions(make: Any) -> None:
    """The arrays that such functions hold are not constants of the program."""
    for value in (1.0, 2.0, 1.0):
        found = make(jnp.full(3, value, jnp.float32))(jnp.zeros(3))
        np.testing.assert_array_equal(found, [value] * 3)


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

        recordings = cache.recordings_of(f, ())
        recordings["key"] = Recording(program(2.0), [Dying()], TREE, "f")
        del recordings
        forget(f)
        del f
        gc.collect()
    assert died == [True, True, True]
