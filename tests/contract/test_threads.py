"""Section 13.2: eight threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.execution.compilation import on_compile
from tests.contract.marks import contract

THREADS = 8


def together(work: Callable[[int], object], count: int = THREADS) -> list:
    """Run `work(0)`, `work(1)`, ... at once; return the results, raise the first failure."""
    barrier = threading.Barrier(count)
    results: list = [None] * count
    failures: list = []

    def run(n: int) -> None:
        try:
            barrier.wait(60)
            results[n] = work(n)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]
    return results


@pytest.fixture
def compiled():
    names: list[str] = []
    stop = on_compile(lambda name, seconds: names.append(name))
    yield names
    stop()


@contract("13.2")
def test_a_cold_function_is_compiled_once(compiled) -> None:
    @kiln.jit
    def cold(x):
        return jnp.sin(x) * 0.71875

    x = np.arange(5, dtype=np.float32)
    for found in together(lambda n: np.asarray(cold(x))):
        np.testing.assert_allclose(found, np.sin(x) * 0.71875, 1e-6)
    assert compiled.count("cold") == 1
    assert cold._cache_size() == 1
    assert cold.cache_info().entries == 1


@contract("13.2")
def test_equal_functions_of_many_threads_are_compiled_once(compiled) -> None:
    def work(n):
        def equal(x):
            return jnp.cos(x) * 0.84375

        return float(kiln.jit(equal)(1.0))

    assert len(set(together(work))) == 1
    assert compiled.count("equal") == 1


@contract("13.2")
def test_a_cold_function_is_compiled_once_while_others_have_to_go(compiled) -> None:
    """Eviction runs beside it all the time, and takes executables in use."""

    @kiln.jit
    def shared(x):
        return jnp.tanh(x) * 0.15625

    @kiln.jit
    def noise(x):
        return x + 0.15625

    def work(n):
        for k in range(4):
            noise(np.ones(1 + 4 * n + k, np.float32))
            got = shared(np.full(2, n, np.float32))
            np.testing.assert_allclose(got, np.tanh(np.full(2, n)) * 0.15625, 1e-5)

    before = kiln.config.executable_cache_mb
    kiln.config.update("executable_cache_mb", 1)
    try:
        together(work)
        compiled.clear()
        kiln.clear_caches()
        cold = kiln.jit(lambda x: jnp.sin(x) * 0.15625)
        kiln.config.update("executable_cache_mb", 0)
        together(lambda n: cold(X))
    finally:
        kiln.config.update("executable_cache_mb", before)
    assert compiled == ["<lambda>"]


X = np.ones(3, np.float32)


@contract("13.2")
def test_first_and_steady_calls_with_different_shapes_and_statics() -> None:
    @kiln.jit
    def f(x):
        return jnp.sum(jnp.sin(x))

    power = kiln.jit(lambda x, n: x**n, static_argnums=1)

    def work(n):
        for k in range(1, 5):
            x = np.full(n + k, 0.5, np.float32)
            for _ in range(20):
                assert float(f(x)) == pytest.approx((n + k) * np.sin(0.5), rel=1e-4)
                assert float(power(2.0, k)) == 2.0**k

    together(work)
    assert f._cache_size() == THREADS + 3
    assert power._cache_size() == 4


@contract("13.2")
def test_nested_transformations() -> None:
    @kiln.jit
    def f(x, y):
        return jnp.sum(jnp.sin(x * y) ** 2)

    x = np.linspace(0.1, 1, 6).astype(np.float32).reshape(2, 3)

    def all_of_them():
        return [
            kiln.grad(f)(x, 0.5),
            kiln.jit(kiln.vmap(kiln.grad(f), (0, None)))(x, 0.5),
            kiln.jacfwd(kiln.jit(lambda v: jnp.tanh(v)))(x[0]),
            kiln.hessian(f)(x[0], 0.5),
            kiln.jvp(f, (x, 0.5), (x, 1.0))[1],
            kiln.lax.scan(lambda c, v: (c + f(v, c), c), 0.5, x)[0],
            kiln.jit(lambda p, v: kiln.lax.cond(p, jnp.sin, jnp.cos, v))(True, x),
        ]

    expected = [np.asarray(v) for v in all_of_them()]
    kiln.clear_caches()
    for found in together(lambda n: [np.asarray(v) for v in all_of_them()]):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@contract("13.2")
def test_options_are_of_their_thread() -> None:
    f = kiln.jit(lambda x: x * 2)
    inside = threading.Barrier(THREADS)

    def work(n):
        with kiln.enable_x64(n % 2 == 0), kiln.debug_nans(n % 4 == 1):
            inside.wait(60)
            assert f(1.0).dtype == (np.float64 if n % 2 == 0 else np.float32)
            if n % 4 == 1:
                with pytest.raises(FloatingPointError):
                    kiln.jit(lambda x: jnp.log(x))(-1.0)
            else:
                assert np.isnan(float(kiln.jit(lambda x: jnp.log(x))(-1.0)))
            with kiln.disable_jit(n == 3):
                seen = []
                kiln.jit(lambda x: seen.append(isinstance(x, kiln.core.Tracer)) or x)(1.0)
                assert seen == [n != 3]
            inside.wait(60)
        assert f(1.0).dtype == np.float32

    together(work)


@contract("13.2")
def test_a_trace_is_of_its_thread() -> None:
    """While one thread traces, another computes."""
    tracing, computed = threading.Event(), threading.Event()

    @kiln.jit
    def f(x):
        tracing.set()
        assert computed.wait(60)
        return x + 1

    def work(n):
        if n == 0:
            return float(f(1.0))
        assert tracing.wait(60)
        try:
            return float(jnp.sin(np.float32(0)) + kiln.jit(lambda x: x * 3)(2.0))
        finally:
            computed.set()

    assert together(work, 2) == [2.0, 6.0]


@contract("13.2")
def test_no_lock_is_held_while_user_code_runs() -> None:
    """User code of each kind waits for another thread that compiles, looks up and clears."""

    def elsewhere() -> None:
        def work():
            kiln.jit(lambda x: jnp.sin(x) + 0.34375)(np.ones(2, np.float32))
            kiln.clear_caches()
            jnp.cos(np.ones(3, np.float32))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    class Static:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            elsewhere()
            return self is other

    @kiln.jit
    def traced(x):
        elsewhere()
        return x

    def on_host(x):
        elsewhere()
        return x

    traced(1.0)
    with_static = kiln.jit(lambda x, s: x + 1, static_argnums=1)
    with_static(1.0, Static())
    with_static(1.0, Static())
    shape = kiln.ShapeDtypeStruct((), np.float32)
    kiln.jit(lambda x: kiln.pure_callback(on_host, shape, x))(1.0).block_until_ready()
    kiln.tree_util.register_pytree_node(
        Static, lambda s: ((1.0,), Static()), lambda aux, children: Static()
    )
    kiln.jit(lambda s: 1.0)(Static())
    kiln.jit(lambda s: 1.0)(Static())
    stop = on_compile(lambda name, seconds: name == "listened" and elsewhere())

    def listened(x):
        return x - 0.34375

    kiln.jit(listened)(1.0)
    stop()


@contract("13.2")
def test_threads_get_the_same_numbers_every_time() -> None:
    @kiln.jit
    def f(x):
        return jnp.sum(jnp.tanh(x @ x) * jnp.exp(-x))

    x = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    first = np.asarray(f(x))
    for _ in range(2):
        assert all(np.array_equal(first, found) for found in together(lambda n: np.asarray(f(x))))
        kiln.clear_caches()


@contract("13.2")
def test_a_failure_reaches_every_thread_and_is_not_kept() -> None:
    broken = [True]

    @kiln.jit
    def f(x):
        if broken:
            raise KeyError("not yet")
        return x + 1

    def work(n):
        with pytest.raises(KeyError, match="not yet"):
            f(1.0)

    together(work)
    broken.clear()
    assert set(map(float, together(lambda n: f(1.0)))) == {2.0}
