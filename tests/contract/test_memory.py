"""Section 10.4 and the lifetimes of section 10: what is kept, how much of it, and for how long."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.execution import compilation
from kiln.execution.compilation import on_compile
from kiln.execution.eager import ENTRY_BYTES, EVAL
from tests.contract.marks import contract

X = np.ones(3, np.float32)


class Large:
    """Something that must not be kept alive."""


def died(watch: weakref.ref) -> bool:
    gc.collect()
    return watch() is None


@contract("10.2", "10.4")
@pytest.mark.parametrize(
    "use",
    [
        lambda f: kiln.jit(f)(X),
        lambda f: kiln.jit(f).lower(X).compile()(X),
        lambda f: kiln.jit(kiln.grad(lambda x: jnp.sum(f(x))))(X),
        lambda f: kiln.grad(lambda x: jnp.sum(kiln.jit(f)(x)))(X),
        lambda f: kiln.vmap(kiln.jit(f))(np.ones((2, 3), np.float32)),
        lambda f: kiln.jit(lambda x: kiln.jit(f)(x))(X),
        lambda f: kiln.jit(functools.partial(f))(X),
        lambda f: kiln.jit(kiln.checkpoint(f))(X),
        lambda f: kiln.lax.scan(lambda c, x: (c, f(x)), 0.0, np.ones((2, 3), np.float32)),
        lambda f: kiln.jit(lambda x: kiln.lax.cond(True, f, f, x))(X),
        lambda f: kiln.make_jaxpr(f)(X),
    ],
    ids=[
        "call",
        "ahead of time",
        "jit of grad",
        "grad of jit",
        "vmap",
        "inner",
        "partial",
        "checkpoint",
        "scan",
        "cond",
        "make_jaxpr",
    ],
)
def test_traces_die_with_their_function(use) -> None:
    def make():
        large = Large()

        def f(x):
            return x * 2 if large else x

        return f, weakref.ref(large)

    f, large = make()
    use(f)
    watches = [weakref.ref(f), large]
    assert not died(large)
    del f
    assert [died(watch) for watch in watches] == [True, True]


@contract("10.2", "10.4")
def test_rules_of_the_users_die_with_their_function() -> None:
    def make():
        large = Large()

        @kiln.custom_jvp
        def f(x):
            return x * 2

        @f.defjvp
        def rule(primals, tangents):
            return f(primals[0]), tangents[0] * (2 if large else 0)

        return f, [weakref.ref(rule), weakref.ref(large)]

    f, watches = make()
    kiln.jit(kiln.grad(lambda x, f=f: jnp.sum(f(x))))(X)
    kiln.jit(lambda x, f=f: f(x))(X)
    del f
    assert [died(watch) for watch in watches] == [True, True]


@contract("10.2", "10.4")
def test_callbacks_die_with_their_function() -> None:
    def make():
        large = Large()

        def log(x):
            return x if large else -x

        shape = kiln.ShapeDtypeStruct((3,), np.float32)
        return kiln.jit(lambda x: kiln.pure_callback(log, shape, x)), weakref.ref(large)

    f, watch = make()
    f(X).block_until_ready()
    assert not died(watch)
    del f
    assert died(watch)


@contract("10.4")
def test_wrappers_and_static_values_die() -> None:
    wrapper = kiln.jit(lambda x: x)
    wrapper(X)
    static = Large()

    def f(x, s):
        return x

    kiln.jit(f, static_argnums=1)(X, static)
    watches = [weakref.ref(wrapper), weakref.ref(f), weakref.ref(static)]
    del wrapper, f, static
    assert [died(watch) for watch in watches] == [True, True, True]


@contract("10.4")
def test_arrays_that_functions_close_over_die_with_them() -> None:
    def make():
        array = jnp.arange(5.0) + 1
        return kiln.jit(lambda x: x + array), weakref.ref(array)

    f, watch = make()
    f(np.ones(5, np.float32))
    assert not died(watch)
    del f
    assert died(watch)


@contract("10.4")
def test_executables_go_by_bytes_and_come_back() -> None:
    # Those of XLA: a megabyte holds dozens of the native engine's.
    with override(engine="xla"):
        _executables_go_by_bytes_and_come_back()


def _executables_go_by_bytes_and_come_back() -> None:
    f = kiln.jit(lambda x: jnp.sin(x) * 0.28125)
    names: list = []
    stop = on_compile(lambda name, seconds: names.append(name))
    before = kiln.config.executable_cache_mb
    kiln.clear_caches()
    kiln.config.update("executable_cache_mb", 1)
    try:
        for n in range(1, 13):
            f(np.ones(n, np.float32))
        info = f.cache_info()
        assert (info.entries, info.traces) == (12, 12)
        assert 1 <= info.executables < 12
        assert info.bytes <= compilation._cache.size <= 1 << 20
        compiled = len(names)
        last = np.ones(12, np.float32)
        np.testing.assert_allclose(f(last), np.sin(last) * 0.28125, 1e-5)
        assert len(names) == compiled
        first = np.ones(1, np.float32)
        np.testing.assert_allclose(f(first), np.sin(first) * 0.28125, 1e-5)
        assert len(names) == compiled + 1
        assert f.cache_info().traces == 12
    finally:
        kiln.config.update("executable_cache_mb", before)
        stop()


@contract("10.4")
def test_a_program_that_had_to_go_while_it_ran_ends_well() -> None:
    @kiln.jit
    def long(x):
        return kiln.lax.fori_loop(0, 200, lambda i, x: jnp.tanh(x @ x), x)

    x = np.eye(128, dtype=np.float32) * 0.5
    expected = np.asarray(long(x))
    for _ in range(3):
        running = long(x)
        compilation.clear()
        gc.collect()
        np.testing.assert_allclose(running, expected, 1e-6)


@contract("10.4", "12.5")
def test_ahead_of_time_programs_are_never_compiled_again() -> None:
    f = kiln.jit(lambda x: jnp.sin(x) * 0.59375)
    compiled = f.lower(X).compile()
    names: list = []
    stop = on_compile(lambda name, seconds: names.append(name))
    kiln.clear_caches()
    compiled(X)
    stop()
    assert names == []


@contract("10.4")
def test_eager_operations_are_bounded() -> None:
    before = kiln.config.eager_cache_mb
    kiln.config.update("eager_cache_mb", 1)
    try:
        for n in range(1, 400):
            jnp.negative(np.ones(n, np.float32))
    finally:
        kiln.config.update("eager_cache_mb", before)
    assert len(EVAL.programs) * ENTRY_BYTES <= 1 << 20


GIVES_BACK = """
import gc, os, sys
import numpy as np, kiln, kiln.numpy as jnp
from kiln.base.process.memory import give_back

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def program(x):
    for _ in range(20):
        x = jnp.sin(x) * 2 + jnp.cos(x)
    return x

f = kiln.jit(program)
# What a compiler keeps for itself is there after its first programs, of one vector and of several.
for n in range(100, 140):
    f(np.ones(n, np.float32))
f.clear_cache()
give_back()
start = resident_mb()
for n in range(2, 202):
    f(np.ones(n, np.float32))
give_back()
grown = resident_mb() - start
{clear}
left = resident_mb() - start
print(grown, left)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's /proc")
@pytest.mark.parametrize(
    "clear",
    [
        pytest.param("f.clear_cache()", marks=pytest.mark.full),
        pytest.param("kiln.clear_caches()", marks=pytest.mark.full),
        "del f; gc.collect(); kiln.clear_caches()",
    ],
)
@contract("10.4")
def test_clearing_gives_memory_back_to_the_system(clear) -> None:
    program = GIVES_BACK.replace("{clear}", clear)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
        # A single object would keep a whole arena of Python's own allocator.
        env={**os.environ, "PYTHONMALLOC": "malloc"},
    )
    grown, left = map(float, done.stdout.split())
    assert grown > 10
    assert left < grown / 2


TOO_LARGE = 1 << 46
"""More elements than any machine has memory for."""


@pytest.mark.parametrize("engine", ["native", "xla", "reference", None])
def test_a_lack_of_memory_is_one_error_on_all_engines(engine) -> None:
    f = kiln.jit(lambda x, y: (jnp.zeros(TOO_LARGE, np.float32) + x, y * 2))
    y = jnp.ones(4) + 1
    with override(engine=engine):
        for kind in (kiln.errors.OutOfMemoryError, kiln.errors.JaxRuntimeError, MemoryError):
            with pytest.raises(kind, match="RESOURCE_EXHAUSTED: Out of memory") as caught:
                kiln.block_until_ready(f(1.0, y))
        assert "running <lambda>" in str(caught.value)
        # Nothing is broken by it, and operands are as they were.
        np.testing.assert_array_equal(kiln.jit(lambda y: y + 1)(y), np.full(4, 3.0))
    np.testing.assert_array_equal(y, np.full(4, 2.0))


def test_a_lack_of_memory_for_temporaries() -> None:
    f = kiln.jit(lambda x: jnp.sort(jnp.zeros(TOO_LARGE, np.float32) + x)[0])
    with pytest.raises(kiln.errors.OutOfMemoryError, match="Out of memory allocating"):
        f(1.0)


def test_eager_operations_lack_memory_too() -> None:
    with pytest.raises(kiln.errors.OutOfMemoryError, match="RESOURCE_EXHAUSTED"):
        jnp.broadcast_to(jnp.ones(1), (TOO_LARGE,)) + 1


def test_donated_operands_survive_a_lack_of_memory() -> None:
    f = kiln.jit(lambda x, y: (x + 1, jnp.zeros(TOO_LARGE, np.float32) + y), donate_argnums=0)
    x = jnp.ones(3)
    view = np.asarray(x)
    with pytest.raises(kiln.errors.OutOfMemoryError):
        f(x, 1.0)
    np.testing.assert_array_equal(view, np.ones(3))
