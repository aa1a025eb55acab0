"""Executables may go away at any moment: every program runs on, and every result can be read.

Threads clear all caches and let executables be evicted at once while programs of every kind run.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
import kiln.checkpoints
import kiln.experimental
import kiln.export
import kiln.numpy as jnp
from kiln import lax, linen
from kiln.base.options.config import override
from kiln.execution import compilation

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def others_stay() -> Iterator[None]:
    """Keep the executables of other tests, which may tell users of evictions."""
    others = [program for program in list(compilation._alive.values()) if not program.pinned]
    for program in others:
        program.pinned = True
    yield
    for program in others:
        program.pinned = False


class Running(NamedTuple):
    """What is called again and again, and what it returns each time."""

    call: Callable[[], Any]
    expected: Any


def _numbered(i: int) -> tuple[Callable[[Any], Any], Any]:
    """Return a function that is equal to no other, and its value of X."""
    factor = np.float32(1 + i / 8)
    return (lambda x: jnp.tanh(x) * factor + i), np.tanh(X) * factor + np.float32(i)


def _plain(i: int) -> Running:
    f, value = _numbered(i)
    g = kiln.jit(f)
    return Running(lambda: g(X), value)


def _wrapped_anew(i: int) -> Running:
    f, value = _numbered(i)
    return Running(lambda: kiln.jit(f)(X), value)


def _fresh_lambda(i: int) -> Running:
    return Running(lambda: kiln.jit(lambda x: x * 2 + i)(X), X * 2 + i)


def _on_default_device(i: int) -> Running:
    f, value = _numbered(i)
    g = kiln.jit(f)

    def call() -> Any:
        with kiln.default_device(kiln.devices()[0]):
            return g(X)

    return Running(call, value)


def _committed(i: int) -> Running:
    f, value = _numbered(i)
    g, x = kiln.jit(f), kiln.device_put(X, kiln.devices()[0])
    return Running(lambda: g(x), value)


def _donated(i: int) -> Running:
    f, value = _numbered(i)
    g = kiln.jit(f, donate_argnums=0)
    return Running(lambda: g(jnp.array(X)), value)


def _donated_and_committed(i: int) -> Running:
    f, value = _numbered(i)
    g = kiln.jit(f, donate_argnums=0)
    return Running(lambda: g(kiln.device_put(X, kiln.devices()[0])), value)


def _static(i: int) -> Running:
    g = kiln.jit(lambda x, n: x + n, static_argnums=1)
    return Running(lambda: g(X, i), X + i)


def _compiled_ahead(i: int) -> Running:
    f, value = _numbered(i)
    compiled = kiln.jit(f).lower(X).compile()
    return Running(lambda: compiled(X), value)


def _all_sizes(i: int) -> Running:
    g = kiln.jit(lambda x: jnp.cumsum(x * 2 + i), abstracted_axes=("n",))
    sizes = iter(range(1, 1 << 30))

    def call() -> Any:
        n = 1 + next(sizes) % 11
        return g(X.ravel()[:n])[:1]

    return Running(call, X.ravel()[:1] * 2 + np.float32(i))


def _gradient(i: int) -> Running:
    g = kiln.jit(kiln.grad(lambda x: (jnp.sin(x) * (i + 1)).sum()))
    return Running(lambda: g(X), np.cos(X) * (i + 1))


def _mapped(i: int) -> Running:
    g = kiln.jit(kiln.vmap(lambda v: v.sum() + i))
    return Running(lambda: g(X), X.sum(1) + i)


def _loop(i: int) -> Running:
    g = kiln.jit(lambda x: lax.fori_loop(0, 3, lambda _, v: v * 0.5 + i, x))
    return Running(lambda: g(X), ((X * 0.5 + i) * 0.5 + i) * 0.5 + i)


def _branches(i: int) -> Running:
    g = kiln.jit(lambda x: lax.cond(x.sum() > 9, lambda v: v + 1, lambda v: v - i, x))
    return Running(lambda: g(X), X - i)


def _callback(i: int) -> Running:
    kind = kiln.ShapeDtypeStruct(X.shape, X.dtype)
    g = kiln.jit(lambda x: kiln.pure_callback(lambda v: np.asarray(v) + i, kind, x) * 2)
    return Running(lambda: g(X), (X + i) * 2)


def _clearing_itself(i: int) -> Running:
    """Clear all caches from within the program that runs."""

    def clear(v: Any) -> Any:
        kiln.clear_caches()
        return np.asarray(v) + i

    kind = kiln.ShapeDtypeStruct(X.shape, X.dtype)
    g = kiln.jit(lambda x: kiln.pure_callback(clear, kind, x) * 2)
    return Running(lambda: g(X), (X + i) * 2)


def _eager(i: int) -> Running:
    x = jnp.asarray(X)
    return Running(lambda: jnp.cumsum(x * i + 1.0, axis=1)[:, :1], X[:, :1] * i + 1)


def _product(i: int) -> Running:
    w = np.ones((4, 2), np.float32) * i
    g = kiln.jit(lambda x: x @ w)
    return Running(lambda: g(X), X @ w)


def _constants(i: int) -> Running:
    held = jnp.asarray(X) + i
    g = kiln.jit(lambda x: x + held)
    return Running(lambda: g(X), X + X + i)


def _inside_another(i: int) -> Running:
    inner = kiln.jit(lambda x: x * 3 + i)
    outer = kiln.jit(lambda x: inner(inner(x)))
    return Running(lambda: outer(X), (X * 3 + i) * 3 + i)


def _on_xla(i: int) -> Running:
    g = kiln.jit(lambda x: x * 3 - i, compiler_options={"xla_backend_optimization_level": 1})
    return Running(lambda: g(X), X * 3 - i)


def _over_devices(i: int) -> Running:
    mesh = kiln.sharding.Mesh(np.array(kiln.devices()[:1]), ("d",))
    there = kiln.sharding.NamedSharding(mesh, kiln.sharding.PartitionSpec("d"))
    g, x = kiln.jit(lambda x: x * 3 - i), kiln.device_put(X[:2], there)
    return Running(lambda: g(x), X[:2] * 3 - i)


def _module(i: int) -> Running:
    class Shift(linen.Module):
        @linen.jit
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return x + self.param("shift", lambda _: jnp.full((), float(i)))

    module = Shift()
    variables = module.init(kiln.random.key(0), X)
    return Running(lambda: module.apply(variables, X), X + i)


def _variants(i: int) -> Running:
    """Call a function that compares sizes: each answer has a program of its own."""
    g = kiln.jit(
        lambda x: x * i if x.shape[0] == 3 else x[1:].max() + x * i, abstracted_axes=("n",)
    )
    sizes = iter(range(1, 1 << 30))

    def call() -> Any:
        x = X.ravel()[: 2 + next(sizes) % 4]
        return g(x) - (0 if len(x) == 3 else x[1:].max()) - x * i + X[0, 0]

    return Running(lambda: call()[:1], X[0, :1])


def _exported(i: int) -> Running:
    f, value = _numbered(i)
    blob = kiln.export.export(kiln.jit(f))(X).serialize()
    loaded = kiln.export.deserialize(blob)
    g = kiln.jit(lambda x: loaded.call(x) * 1.0)
    return Running(lambda: g(X), value)


def _checkpointed(i: int) -> Running:
    """Restore a checkpoint, and compute with its arrays."""
    home = tempfile.TemporaryDirectory()
    place = Path(home.name) / "state"
    kiln.checkpoints.save(place, {"x": jnp.asarray(X) + i, "home": i})
    g = kiln.jit(lambda x: x * 2)

    def call() -> Any:
        assert home is not None
        return g(kiln.checkpoints.restore(place)["x"])

    return Running(call, (X + i) * 2)


def _mapped_inside_out(i: int) -> Running:
    g = kiln.vmap(kiln.jit(lambda v: jnp.cumsum(v * i)))
    return Running(lambda: g(X), np.cumsum(X * i, 1))


def _own_derivative(i: int) -> Running:
    @kiln.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x) * i

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (jnp.cos(x) * i * ct,))
    g = kiln.jit(lambda x: kiln.vjp(f, x)[1](jnp.ones_like(x))[0])
    return Running(lambda: g(X), np.cos(X) * i)


def _computed_again(i: int) -> Running:
    g = kiln.jit(kiln.grad(lambda x: kiln.checkpoint(lambda y: jnp.sin(y) * i)(x).sum()))
    return Running(lambda: g(X), np.cos(X) * i)


def _scanned(i: int) -> Running:
    g = kiln.jit(lambda x: lax.scan(lambda c, r: (c + r, c * i), jnp.zeros(4), x))

    def call() -> Any:
        last, stack = g(X)
        return stack + last * 0

    before = np.cumsum(X, 0) - X
    return Running(call, before * i)


def _callback_with_effects(i: int) -> Running:
    seen: list[Any] = []
    kind = kiln.ShapeDtypeStruct(X.shape, X.dtype)

    def note(v: Any) -> Any:
        seen[:] = [np.asarray(v) + i]
        return seen[0]

    def f(x: Any) -> Any:
        kiln.debug.callback(lambda v: None, x)
        return kiln.experimental.io_callback(note, kind, x, ordered=True)

    g = kiln.jit(f)
    return Running(lambda: g(X), X + i)


def _checked(i: int) -> Running:
    g = kiln.jit(lambda x: jnp.log(x + 2) + x[i % 3] * 0, check="nan,index")
    return Running(lambda: g(X), np.log(X + 2))


def _threaded(i: int) -> Running:
    w = np.full((64, 64), i / 64, np.float32)
    g = kiln.jit(lambda x: jnp.tanh(x @ w).sum(1)[:3])

    def call() -> Any:
        with override(num_threads=2):
            return g(np.ones((300, 64), np.float32))

    return Running(call, np.full(3, 64 * np.tanh(i)))


def _random(i: int) -> Running:
    key = kiln.random.key(i)
    g = kiln.jit(lambda k: kiln.random.uniform(k, (3,)))
    with override(engine="reference"):
        value = np.asarray(kiln.random.uniform(key, (3,)))
    return Running(lambda: g(key), value)


def _sharded(i: int) -> Running:
    """Run on all devices; `shard_map` adds over them."""
    devices = kiln.devices()
    mesh = kiln.sharding.Mesh(np.array(devices), ("d",))
    spec = kiln.sharding.PartitionSpec("d")
    g = kiln.jit(
        kiln.shard_map(
            lambda x: lax.psum(x * i, "d"),
            mesh=mesh,
            in_specs=spec,
            out_specs=kiln.sharding.PartitionSpec(),
        )
    )
    x = np.repeat(X[:1], len(devices), 0)
    there = kiln.device_put(x, kiln.sharding.NamedSharding(mesh, spec))
    h = kiln.jit(lambda x: x * 2)
    return Running(lambda: g(h(there)), X[:1] * 2 * i * len(devices))


def _held(i: int) -> Running:
    """Read results of all earlier calls, and views of them."""
    f, value = _numbered(i)
    g = kiln.jit(lambda x: [f(x), x[1:] * 2])
    kept: list[Any] = []

    def call() -> Any:
        kept.append(g(X))
        for made, part in kept:
            np.testing.assert_allclose(np.asarray(made), value, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(np.from_dlpack(part), X[1:] * 2)
        return kept[0][0]

    return Running(call, value)


def _differentiated_later(i: int) -> Running:
    """Keep the derivative of an earlier call, and apply it now."""
    g = kiln.jit(lambda x: jnp.sin(x) * i)
    _, pull = kiln.vjp(g, X)
    _, push = kiln.linearize(g, X)
    ones = np.ones_like(X)
    return Running(lambda: (pull(ones)[0] + push(ones)) / 2, np.cos(X) * i)


KINDS = [
    _plain,
    _wrapped_anew,
    _fresh_lambda,
    _on_default_device,
    _committed,
    _donated,
    _donated_and_committed,
    _static,
    _compiled_ahead,
    _all_sizes,
    _gradient,
    _mapped,
    _loop,
    _branches,
    _callback,
    _clearing_itself,
    _eager,
    _product,
    _constants,
    _inside_another,
    _on_xla,
    _over_devices,
    _module,
    _variants,
    _exported,
    _checkpointed,
    _mapped_inside_out,
    _own_derivative,
    _computed_again,
    _scanned,
    _callback_with_effects,
    _checked,
    _threaded,
    _random,
    _sharded,
    _held,
    _differentiated_later,
]


@contextlib.contextmanager
def _disturbed(threads: int) -> Iterator[list[int]]:
    """Clear caches and change their limit from other threads until the context ends."""
    ended, turns = threading.Event(), [0] * threads
    usual = kiln.config.executable_cache_mb
    raised: list[BaseException] = []

    def disturb(number: int) -> None:
        try:
            while not ended.is_set():
                if (turns[number] + number) % 2:
                    kiln.clear_caches()
                else:
                    kiln.config.update("executable_cache_mb", (0, usual)[turns[number] // 2 % 2])
                turns[number] += 1
                ended.wait(0.0005)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            raised.append(error)

    workers = [threading.Thread(target=disturb, args=(n,)) for n in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield turns
    finally:
        ended.set()
        for worker in workers:
            worker.join()
        kiln.config.update("executable_cache_mb", usual)
    assert raised == []


def _run(programs: list[Running], rounds: int) -> None:
    for _ in range(rounds):
        for program in programs:
            made = program.call()
            np.testing.assert_allclose(np.asarray(made), program.expected, rtol=1e-5, atol=1e-5)
            assert str(made)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_read_when_nothing_is_kept(kind: Callable[[int], Running]) -> None:
    programs = [kind(i) for i in range(2)]
    usual = kiln.config.executable_cache_mb
    kiln.config.update("executable_cache_mb", 0)
    try:
        for _ in range(2):
            _run(programs, 2)
            kiln.clear_caches()
    finally:
        kiln.config.update("executable_cache_mb", usual)


def test_threads_that_clear_while_programs_run() -> None:
    with _disturbed(1) as turns:
        for kind in KINDS:
            _run([kind(7)], 3)
    assert turns[0] > 10


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_two_hundred_programs_of_every_kind() -> None:
    programs = [kind(i) for i in range(200 // len(KINDS) + 1) for kind in KINDS]
    assert len(programs) >= 200
    with _disturbed(2) as turns:
        halves = [programs[::2], programs[1::2]]
        failed: list[BaseException] = []

        def work(half: list[Running]) -> None:
            try:
                _run(half, 3)
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                failed.append(error)

        workers = [threading.Thread(target=work, args=(half,)) for half in halves]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert failed == []
    assert sum(turns) > 100
