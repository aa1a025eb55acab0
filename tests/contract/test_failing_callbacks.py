"""Section 13.3: callbacks that fail: what is raised, when, and that nothing of theirs is kept."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, sharding
from kiln.experimental import io_callback
from tests.contract.marks import contract

SCALAR = kiln.ShapeDtypeStruct((), np.float32)


def failing(error: Callable[[np.ndarray], BaseException]) -> Any:
    def callback(x: np.ndarray) -> None:
        raise error(x)

    return kiln.jit(lambda x: kiln.pure_callback(callback, SCALAR, x))


class Mine(ValueError):
    """An exception of the user's with attributes."""

    def __init__(self, number: int, array: Any) -> None:
        super().__init__(number, array)
        self.number = number
        self.array = array


@contract("13.3")
def test_the_cause_is_what_was_raised() -> None:
    with pytest.raises(kiln.errors.JaxRuntimeError, match="no such key") as caught:
        failing(lambda x: KeyError("no such key", 3))(1.0)
    cause = caught.value.__cause__
    assert type(cause) is KeyError
    assert cause.args == ("no such key", 3)
    with pytest.raises(kiln.errors.JaxRuntimeError) as caught:
        failing(lambda x: FileNotFoundError(2, "not there", "name"))(1.0)
    assert caught.value.__cause__.filename == "name"
    with pytest.raises(kiln.errors.JaxRuntimeError) as caught:
        failing(lambda x: UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"))(1.0)
    assert caught.value.__cause__.args[4] == "bad"


@contract("13.3")
def test_the_cause_keeps_small_attributes_and_no_arrays() -> None:
    with pytest.raises(kiln.errors.JaxRuntimeError, match="Mine") as caught:
        failing(lambda x: Mine(7, x))(1.0)
    cause = caught.value.__cause__
    assert type(cause) is Mine
    assert cause.number == 7
    assert not hasattr(cause, "array")
    assert all(type(x) is str for x in cause.args)


@contract("13.3")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError])
def test_what_ends_programs_is_raised_as_itself(error: type[BaseException]) -> None:
    with pytest.raises(error):
        failing(lambda x: error())(1.0)
    shown = kiln.jit(lambda x: (kiln.debug.callback(raiser(error), x), x)[1])
    with pytest.raises(error):
        shown(1.0), kiln.effects_barrier()
    kiln.effects_barrier()
    assert float(kiln.jit(lambda x: x + 1)(1.0)) == 2.0


def raiser(error: type[BaseException]) -> Callable[[Any], None]:
    def callback(x: Any) -> None:
        raise error

    return callback


@contract("13.3")
def test_nothing_of_the_users_is_kept() -> None:
    alive: list[weakref.ref[Any]] = []

    def callback(x: Any) -> None:
        mine = np.zeros(10)
        alive.append(weakref.ref(mine))
        alive.append(weakref.ref(x))
        try:
            raise KeyError(mine)
        except KeyError as error:
            raise ValueError(mine) from error

    pure = kiln.jit(lambda x: kiln.pure_callback(callback, SCALAR, x))
    shown = kiln.jit(lambda x: (kiln.debug.callback(callback, x), jnp.sin(x))[1])
    ordered = kiln.jit(lambda x: (io_callback(callback, None, x, ordered=True), x)[1])
    for fun in (pure, shown, ordered):
        for _ in range(2):
            with pytest.raises(kiln.errors.JaxRuntimeError):
                fun(np.ones(100, np.float32)), kiln.effects_barrier()
    gc.collect()
    assert len(alive) == 12
    assert [ref() for ref in alive] == [None] * 12


MEMORY = """
import gc, sys
import numpy as np
import kiln
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
def callback(x):
    raise ValueError("no", x)
fun = kiln.jit(lambda x: kiln.pure_callback(callback, kiln.ShapeDtypeStruct((), "float32"), x))
shown = kiln.jit(lambda x: (kiln.debug.callback(callback, x), x[0])[1])
x = np.ones(2_500_000, np.float32)
def fail(f):
    try:
        f(x), kiln.effects_barrier()
    except kiln.errors.JaxRuntimeError:
        return
    raise AssertionError
fail(fun), fail(shown)
before = resident()
for n in range(int(sys.argv[1])):
    fail(fun if n % 2 else shown)
gc.collect()
assert resident() < before + 50, resident() - before
"""


@contract("13.3")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.full)])
def test_memory_is_back_after_failures_with_large_arguments(count: int) -> None:
    subprocess.run([sys.executable, "-c", MEMORY, str(count)], check=True, timeout=250)


@contract("13.3")
def test_a_failure_on_one_of_eight_devices_releases_the_others() -> None:
    mesh = sharding.make_mesh((8,), ("d",))
    part = kiln.ShapeDtypeStruct((1,), np.float32)

    def callback(x: Any) -> Any:
        if x[0] == 3:
            raise KeyError("the third")
        return x

    def with_result(x: Any) -> Any:
        return lax.psum(kiln.pure_callback(callback, part, x), "d")

    def with_effect(x: Any) -> Any:
        kiln.debug.callback(callback, x)
        return lax.psum(x, "d")

    x = np.arange(8, dtype=np.float32)
    for fun in (with_result, with_effect):
        spread = kiln.jit(
            kiln.shard_map(fun, mesh=mesh, in_specs=sharding.P("d"), out_specs=sharding.P())
        )
        for _ in range(2):
            start = time.monotonic()
            with pytest.raises(kiln.errors.JaxRuntimeError, match="the third") as caught:
                np.asarray(spread(x)), kiln.effects_barrier()
            # XLA would end the process after 40 seconds.
            assert time.monotonic() - start < 30
            assert type(caught.value.__cause__) is KeyError
            assert float(spread(x + 10)[0]) == 108.0
            kiln.effects_barrier()


RECURSION = """
import numpy as np
import kiln
import kiln.numpy as jnp
from kiln import lax
depth = 0
def endless(x):
    global depth
    depth += 1
    return np.asarray(fun(x))
def caught(x):
    try:
        np.asarray(fun(x))
    except RecursionError as error:
        assert len(str(error)) < 2000 and str(error).count(chr(10)) == 2, str(error)
    else:
        raise AssertionError("not raised")
# On the thread of the call, and on XLA's threads.
fun = kiln.jit(lambda x: kiln.pure_callback(endless, kiln.ShapeDtypeStruct((), "float32"), x) + 1)
caught(1.0)
assert depth > 10
matrix = kiln.ShapeDtypeStruct((300, 300), "float32")
turn = kiln.jit(lambda x: lax.fori_loop(0, 20, lambda i, c: jnp.sin(c @ c), x))
fun = kiln.jit(lambda x: kiln.pure_callback(endless, matrix, turn(x)) + 1)
caught(turn(np.ones((300, 300), np.float32)))
# Finite ones work.
def some(x):
    return x if x > 5 else np.asarray(fun(x + 1))
fun = kiln.jit(lambda x: kiln.pure_callback(some, kiln.ShapeDtypeStruct((), "float32"), x))
assert float(fun(0.0)) == 6.0
print("fine")
"""


@contract("13.3")
def test_endless_recursion_through_callbacks_raises() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECURSION], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "fine\n", done.stdout + done.stderr[-3000:]
