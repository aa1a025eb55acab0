"""A program for subprocesses: callbacks that call kiln again, in many kinds of programs.

`python -m tests.reentrant KINDS COUNT [LOAD]` runs about COUNT callbacks of each kind, beside LOAD
threads that keep the processors busy, and prints `fine` at its end.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax, sharding
from kiln.experimental import io_callback

kiln.config.update("jax_num_cpu_devices", 8)

THREADS = 40
"""More than XLA takes programs on a device."""

SIZE = 300
SHAPE = kiln.ShapeDtypeStruct((SIZE, SIZE), np.float32)
SCALAR = kiln.ShapeDtypeStruct((), np.float32)
X = np.full((SIZE, SIZE), 0.01, np.float32)
over = threading.Event()


@kiln.jit
def turn(x: Any) -> Any:
    """Keep the thread pools busy for a moment."""
    return lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ c / SIZE), x)


def again(x: Any) -> Any:
    """Call kiln from the host: a jitted function, an eager operation, a derivative."""
    slope = kiln.grad(lambda y: jnp.sum(jnp.sin(y) ** 2))(x[0])
    return turn(x) + jnp.sort(slope) * 0


def calling(x: Any, host: Callable[[Any], Any] = again) -> Any:
    """Call the host between two products."""
    return kiln.pure_callback(host, SHAPE, x @ x / SIZE)


def by_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Do some work on many threads; raise what one of them raised."""
    raised: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001, raised again below
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def in_threads(count: int) -> None:
    """Many threads, each with programs of its own."""
    fun, want = kiln.jit(lambda x: calling(x) @ x), turn(X @ X / SIZE) @ X

    def work(_: int) -> None:
        for _ in range(max(1, count // THREADS)):
            np.testing.assert_allclose(fun(X), want, rtol=1e-4, atol=1e-6)

    by_threads(work)


def in_scan(count: int) -> None:
    """One program that calls the host in each step."""
    fun = kiln.jit(lambda x: lax.scan(lambda c, _: (calling(c), None), x, None, length=count)[0])
    assert np.isfinite(np.asarray(fun(X))).all()


def in_scans(count: int) -> None:
    """The same on many threads."""
    steps = max(1, count // THREADS)
    fun = kiln.jit(lambda x: lax.scan(lambda c, _: (calling(c), None), x, None, length=steps)[0])
    by_threads(lambda _: np.testing.assert_array_equal(np.isfinite(fun(X)), True))


def under_way(count: int) -> None:
    """Calls whose results nobody waits for before the last."""
    fun = kiln.jit(calling)
    outs = [fun(X) for _ in range(count)]
    for out in outs:
        np.testing.assert_array_equal(out, outs[0])


def side_by_side(count: int) -> None:
    """Callbacks of one program that need not wait for each other."""
    fun = kiln.jit(lambda x: sum(calling(x + i, lambda v, i=i: again(v) * i) for i in range(20)))
    for _ in range(max(1, count // 20)):
        assert np.isfinite(np.asarray(fun(X))).all()


def nested(count: int) -> None:
    """Callbacks that run programs with callbacks, four deep, on many threads."""
    fun = kiln.jit(calling)
    for _ in range(3):
        fun = kiln.jit(lambda x, inner=fun: calling(x, inner))

    def work(_: int) -> None:
        for _ in range(max(1, count // 4 // 8)):
            assert np.isfinite(np.asarray(fun(X))).all()

    by_threads(work, 8)


def ordered(count: int) -> None:
    """Ordered effects whose functions run ordered effects, and wait for all of them."""
    seen: list[int] = []
    inner = kiln.jit(
        lambda i, x: io_callback(lambda i, _: seen.append(-int(i)), None, i, x @ x, ordered=True)
    )

    def host(i: Any, x: Any) -> None:
        inner(i, turn(x))
        kiln.effects_barrier()
        seen.append(int(i))

    outer = kiln.jit(lambda i, x: io_callback(host, None, i, x @ x, ordered=True))
    for i in range(1, count // 2 + 1):
        outer(i, X)
    kiln.effects_barrier()
    assert seen == [n for i in range(1, count // 2 + 1) for n in (-i, i)], seen


def printed(count: int) -> None:
    """Effects without an order."""
    seen: list[float] = []

    def host(x: Any) -> None:
        seen.append(float(turn(x)[0, 0]))

    fun = kiln.jit(lambda x: (kiln.debug.callback(host, x @ x), x @ x)[1])
    for _ in range(count):
        fun(X)
    kiln.effects_barrier()
    assert len(seen) == count


def _mesh() -> Any:
    return sharding.make_mesh((8,), ("d",))


def over_devices(count: int) -> None:
    """Programs over eight devices that call the host on each, on several threads."""
    rows = np.tile(X, (8, 1))
    fun = kiln.jit(
        kiln.shard_map(
            lambda x: lax.psum(calling(x), "d"),
            mesh=_mesh(),
            in_specs=sharding.P("d"),
            out_specs=sharding.P(),
        )
    )
    want = 8 * np.asarray(turn(X @ X / SIZE))

    def work(_: int) -> None:
        for _ in range(max(1, count // 8 // 4)):
            np.testing.assert_allclose(fun(rows), want, rtol=1e-4, atol=1e-5)

    by_threads(work, 4)


def devices_in_devices(count: int) -> None:
    """Programs over eight devices whose callback runs programs over eight devices."""
    spread = sharding.NamedSharding(_mesh(), sharding.P("d"))
    rows = kiln.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), spread)
    inner = kiln.jit(lambda v: jnp.sin(v) @ v.T)

    def host(v: Any) -> Any:
        return inner(kiln.device_put(v, spread))

    shape = kiln.ShapeDtypeStruct((8, 8), np.float32)
    fun = kiln.jit(lambda x: kiln.pure_callback(host, shape, x) * 2)
    for _ in range(count):
        np.testing.assert_allclose(fun(rows), 2 * np.asarray(inner(rows)), rtol=1e-4)


def devices_in_threads(count: int) -> None:
    """Programs on one device, on many threads, whose callbacks run programs over eight."""
    total = kiln.jit(
        kiln.shard_map(
            lambda x: lax.psum(x @ x.T, "d"),
            mesh=_mesh(),
            in_specs=sharding.P("d"),
            out_specs=sharding.P(),
        )
    )
    rows = np.ones((80, 4), np.float32)
    fun = kiln.jit(lambda x: kiln.pure_callback(lambda v: total(rows)[0, 0], SCALAR, (x @ x).sum()))

    def work(_: int) -> None:
        for _ in range(max(1, count // THREADS)):
            assert float(fun(X)) == 32.0

    by_threads(work)


def eigenvalues(count: int) -> None:
    """The program of jax#24255, which hangs there: linalg.eig in a pure_callback."""
    matrix = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    shapes = (
        kiln.ShapeDtypeStruct((40,), np.complex64),
        kiln.ShapeDtypeStruct((40, 40), np.complex64),
    )
    fun = kiln.jit(lambda a: kiln.pure_callback(lambda v: jnp.linalg.eig(v), shapes, a))
    for _ in range(count):
        values, vectors = map(np.asarray, fun(matrix))
        np.testing.assert_allclose(matrix @ vectors, vectors * values, rtol=1e-2, atol=1e-2)


def in_flight(count: int) -> None:
    """The program of jax#25861: callbacks read their operands while programs are queued."""

    @kiln.jit
    def fun(x: Any, y: Any) -> Any:
        return kiln.pure_callback(lambda x, y: np.asarray(x) @ np.asarray(y), SHAPE, x, y) @ y

    x, y = jnp.ones((SIZE, SIZE)), jnp.ones((SIZE, SIZE)) / SIZE
    for _ in range(count):
        x = fun(x, y)
    np.testing.assert_allclose(x, 1.0, rtol=1e-3)


def by_its_own_threads(count: int) -> None:
    """Callbacks that start threads which run programs, and wait for them."""

    def host(v: Any) -> Any:
        found: list[float] = []
        by_threads(lambda _: found.append(float(turn(v)[0, 0])), 4)
        return np.float32(len(found))

    fun = kiln.jit(lambda x: kiln.pure_callback(host, SCALAR, x @ x))
    for _ in range(max(1, count // 4)):
        assert float(fun(X)) == 4.0


def mapped(count: int) -> None:
    """Callbacks under vmap, with a derivative of their own."""

    @kiln.custom_vjp
    def fun(x: Any) -> Any:
        return kiln.pure_callback(lambda v: jnp.sin(v), SCALAR, x, vmap_method="sequential")

    def backward(x: Any, ct: Any) -> tuple[Any]:
        slope = kiln.grad(jnp.sin)
        back = kiln.pure_callback(
            lambda v, c: slope(v) * c, SCALAR, x, ct, vmap_method="sequential"
        )
        return (back,)

    fun.defvjp(lambda x: (fun(x), x), backward)
    xs = np.arange(count // 2, dtype=np.float32)
    for slope in (kiln.jit(kiln.vmap(kiln.grad(fun))), kiln.vmap(kiln.grad(kiln.checkpoint(fun)))):
        np.testing.assert_allclose(slope(xs), np.cos(xs), rtol=1e-4, atol=1e-5)


KINDS: dict[str, Callable[[int], None]] = {
    fun.__name__: fun
    for fun in (
        in_threads,
        in_scan,
        in_scans,
        under_way,
        side_by_side,
        nested,
        ordered,
        printed,
        over_devices,
        devices_in_devices,
        devices_in_threads,
        eigenvalues,
        in_flight,
        by_its_own_threads,
        mapped,
    )
}


def _burn() -> None:
    noise = np.ones((200, 200))
    while not over.is_set():
        noise = np.tanh(noise @ noise / 200)


if __name__ == "__main__":
    names, number = sys.argv[1], int(sys.argv[2])
    load = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    burners = [threading.Thread(target=_burn, daemon=True) for _ in range(load)]
    for burner in burners:
        burner.start()
    try:
        for name in names.split(","):
            KINDS[name](number)
            print(name, flush=True)
    finally:
        over.set()
    print("fine")
