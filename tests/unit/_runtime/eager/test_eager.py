"""Eager functions look like the functions that they wrap."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln._runtime import BufferSource, Container, Outcome
from kiln.core.arrays.array import from_host
from kiln.ops.indexing.dimension_numbers import GatherScatterMode


def plain(x: Any, y: Any = 2, *, z: Any = 3) -> Any:
    """Add."""
    return x + y + z


FUNCTION = _runtime.EagerFunction(plain)


def test_it_looks_like_the_function() -> None:
    f: Any = FUNCTION
    assert f.__name__ == "plain" and f.__doc__ == "Add." and f.__module__ == __name__
    assert inspect.signature(f) == inspect.signature(plain)
    assert f.__wrapped__ is plain and f.__code__ is plain.__code__ and f.__defaults__ == (2,)
    f.note = 1
    assert f.note == 1
    with pytest.raises(AttributeError, match="missing"):
        f.missing
    assert repr(jnp.sin).startswith("<function sin")
    assert pickle.loads(pickle.dumps(jnp.sin)) is jnp.sin
    assert copy.deepcopy(jnp.sin) is jnp.sin
    assert jnp.add.reduce(jnp.arange(4)).item() == 6

    class Layer:
        act = FUNCTION

    assert Layer().act.__self__.__class__ is Layer  # type: ignore[attr-defined]
    assert Layer.act is FUNCTION


def test_calls_of_all_kinds() -> None:
    for _ in range(5):
        assert FUNCTION(1) == 6 and FUNCTION(1, y=1) == 5 and FUNCTION(x=1, z=0) == 3
        assert FUNCTION(jnp.float32(1), 1, z=1).item() == 3
        assert FUNCTION(np.float32(1), 1, z=1) == 3
        assert FUNCTION(jnp.ones(2), np.float32(0.5), z=-1).tolist() == [0.5, 0.5]
        assert FUNCTION(jnp.ones(2), 1 << 80, z=-(1 << 80) + 0.0).shape == (2,)
        assert FUNCTION("a", "b", z="c") == "abc"
        assert FUNCTION([1], [2], z=[3]) == [1, 2, 3]
        with pytest.raises(TypeError):
            FUNCTION()
        with pytest.raises(TypeError):
            FUNCTION(1, w=1)
    many: Any = _runtime.EagerFunction(lambda *xs: sum(xs))
    for _ in range(5):
        assert many(*[jnp.ones(2)] * 40).tolist() == [40, 40]
        assert many(*range(200)) == sum(range(200))


def test_arguments_of_different_structure_are_told_apart() -> None:
    seen: Any = _runtime.EagerFunction(lambda *args, **kwargs: jnp.ones(len(str((args, kwargs)))))
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1,), {}),
        ((1.0,), {}),
        ((True,), {}),
        (((1,),), {}),
        (([1],), {}),
        ((1, 1), {}),
        ((), {"a": 1}),
        ((), {"bcd": 1}),
        ((slice(1, None),), {}),
        ((slice(None, 1),), {}),
        ((None,), {}),
        ((...,), {}),
        (("float32",), {}),
        ((np.dtype("float32"),), {}),
        ((np.float32,), {}),
        ((np.float32(1.5),), {}),
        ((np.int8(1),), {}),
        ((-0.0,), {}),
        ((GatherScatterMode.CLIP,), {}),
        ((GatherScatterMode.FILL_OR_DROP,), {}),
    ]
    for _ in range(5):
        for args, kwargs in calls:
            assert seen(*args, **kwargs).size == len(str((args, kwargs)))


def test_members_of_an_enumeration_are_known_like_names() -> None:
    x, index = jnp.arange(8.0), jnp.array([1, 9])
    wanted = {"clip": [0, 5, 2, 3, 4, 5, 6, 5], "drop": [0, 5, 2, 3, 4, 5, 6, 7]}
    modes: list[Any] = ["clip", "drop", GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP]
    for _ in range(4):
        before = _runtime.plan_statistics()["runs"]
        for mode, name in zip(modes, ("clip", "drop") * 2, strict=True):
            assert x.at[index].set(5.0, mode=mode).tolist() == wanted[name]
    assert _runtime.plan_statistics()["runs"] - before >= len(modes)


def test_nothing_leaks() -> None:
    x, y = jnp.arange(8.0), jnp.arange(64.0).reshape(8, 8)

    def work() -> None:
        jnp.exp(x)
        jnp.where(x > 1, x, 0.0)
        y[1:3, 2].sum()
        jnp.split(x, 2)
        y @ x
        jnp.sort(x)

    for _ in range(10):
        work()
    gc.collect()
    before = (
        sys.getrefcount(x),
        sys.getrefcount(x.aval),
        len(gc.get_objects()),
        len(kiln.live_arrays()),
    )
    in_use = _runtime.memory_statistics()["in_use"]
    for _ in range(2000):
        work()
    gc.collect()
    after = (
        sys.getrefcount(x),
        sys.getrefcount(x.aval),
        len(gc.get_objects()),
        len(kiln.live_arrays()),
    )
    assert after[:2] == before[:2] and after[3] == before[3] and after[2] - before[2] < 50
    assert _runtime.memory_statistics()["in_use"] == in_use


def test_forgetting_while_others_run() -> None:
    stop = threading.Event()
    wrong: list[Any] = []

    def use() -> None:
        x = jnp.arange(6.0)
        while not stop.is_set():
            for n in range(1, 6):
                if jnp.sort(x[:n]).sum().item() != n * (n - 1) / 2:
                    wrong.append(n)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        _runtime.forget_plans()
        jnp.exp(jnp.ones(3))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_unsound_plans_are_refused() -> None:
    f32 = np.dtype(np.float32)
    loop = _runtime.loop_of_ufunc(np.negative, "ff")
    buffers = [(BufferSource.INPUT, 0), (BufferSource.RESULT, 8)]
    good: list[Any] = [[(f32, 8)], buffers, [(loop, (2,), [(0, 0, (4,)), (1, 0, (4,))])]]
    aval = jnp.ones(2).aval
    plan = _runtime.Plan(*good, [(Outcome.FRESH, 1, aval)], Container.SINGLE)
    assert plan(jnp.ones(2)).tolist() == [-1, -1]
    for wrong in (
        (*good, [(0, 2, aval)], 0),
        (*good, [], 0),
        (good[0], [(0, 1), (3, 8)], good[2], [(0, 1, aval)], 0),
        (*good[:2], [(loop, (2,), [(0, 0, (4,)), (7, 0, (4,))])], [(0, 1, aval)], 0),
        (*good[:2], [(loop, (2,), [(0, 0, ()), (1, 0, (4,))])], [(0, 1, aval)], 0),
        (*good[:2], [(loop, (), [])], [(0, 1, aval)], 0),
        (*good[:2], [(len, [], [])], [(0, 1, aval)], 0),
    ):
        with pytest.raises((ValueError, TypeError)):
            _runtime.Plan(*wrong)
    for args in ((), (1,), (jnp.ones(2), jnp.ones(2))):
        with pytest.raises(TypeError):
            plan(*args)
    with pytest.raises(ValueError, match="no values"):
        plan(from_host(np.ones(2)))
