"""Every collective over every dtype, between all processes; a mistake raises in all of them.

`python -m kiln launch -n 8 --devices 1 -m tests.processes.collectives`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental import multihost_utils
from kiln.sharding import Mesh, NamedSharding
from kiln.sharding import PartitionSpec as P

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ORDERED, NUMBERS = (*INTEGERS, *FLOATS), (*INTEGERS, *FLOATS, *COMPLEX)
ANY = ("bool", *NUMBERS)


def values(count: int, dtype: str) -> np.ndarray:
    """Return a row for each process, of numbers whose sums all dtypes hold."""
    rng = np.random.default_rng(count)
    found = rng.integers(0, 6, size=(count, count, 3))
    return found.astype(jnp.dtype(dtype))


Collective = tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray], tuple[str, ...]]


def collectives(count: int) -> dict[str, Collective]:
    """Return each collective of a row, what it is of all rows, and the dtypes that it has.

    A row is an array of shape (1, count, 3).
    """
    ring = [(i, (i + 1) % count) for i in range(count)]

    def spread(rows: np.ndarray) -> np.ndarray:
        return np.broadcast_to(rows[None], (count, *rows.shape)).copy()

    return {
        "psum": (lambda x: lax.psum(x[0], "d")[None], lambda r: spread(r.sum(0)), NUMBERS),
        "pmax": (lambda x: lax.pmax(x[0], "d")[None], lambda r: spread(r.max(0)), ORDERED),
        "pmin": (lambda x: lax.pmin(x[0], "d")[None], lambda r: spread(r.min(0)), ORDERED),
        "all_gather": (lambda x: lax.all_gather(x[0], "d")[None], spread, ANY),
        "psum_scatter": (
            lambda x: lax.psum_scatter(x[0], "d")[None],
            lambda r: r.sum(0).reshape(count, 3),
            NUMBERS,
        ),
        "all_to_all": (
            lambda x: lax.all_to_all(x, "d", 1, 0, tiled=True).reshape(1, count, 3),
            lambda r: r.swapaxes(0, 1),
            ANY,
        ),
        "ppermute": (lambda x: lax.ppermute(x, "d", ring), lambda r: np.roll(r, 1, 0), ANY),
    }


def check_collectives(mesh: Mesh) -> None:
    """Run each collective over all of its dtypes as one program."""
    count, rows = mesh.size, NamedSharding(mesh, P("d"))
    for name, (run, expected, dtypes) in collectives(count).items():
        given = {dtype: values(count, dtype) for dtype in dtypes}
        placed = {dtype: kiln.device_put(each, rows) for dtype, each in given.items()}

        def all_of(xs: dict[str, Any], run: Callable[[Any], Any] = run) -> dict[str, Any]:
            return {dtype: run(x) for dtype, x in xs.items()}

        divided = kiln.shard_map(all_of, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
        found = kiln.jit(divided)(placed)
        for dtype in dtypes:
            whole = multihost_utils.process_allgather(found[dtype], tiled=True)
            exact = given[dtype].astype(np.complex128 if dtype in COMPLEX else np.float64)
            wanted = expected(exact).astype(given[dtype].dtype)
            assert whole.dtype == jnp.dtype(dtype), (name, dtype, whole.dtype)
            np.testing.assert_array_equal(whole, wanted.reshape(whole.shape), f"{name} {dtype}")
        if not kiln.process_index():
            print(f"{name} of {len(dtypes)} dtypes", flush=True)


def check_resharding() -> None:
    """Move an array among meshes of other shapes, orders of devices, and fewer devices."""
    devices = np.array(kiln.devices())
    count = devices.size
    meshes = [
        (Mesh(devices.reshape(count, 1), ("a", "b")), P("a")),
        (Mesh(devices.reshape(count // 2, 2), ("a", "b")), P("b", "a")),
        (Mesh(devices[::-1].reshape(2, count // 2), ("a", "b")), P(("b", "a"))),
        (Mesh(devices.reshape(count // 2, 2), ("a", "b")), P(None, ("a", "b"))),
        (Mesh(devices.reshape(count, 1), ("a", "b")), P()),
    ]
    host = np.arange(4 * count * count, dtype=np.float32).reshape(2 * count, 2 * count)
    x = kiln.device_put(host, NamedSharding(*meshes[0]))
    for mesh, spec in [*meshes[1:], *meshes[-2::-1]]:
        x = kiln.device_put(x, NamedSharding(mesh, spec))
        for shard in x.addressable_shards:
            np.testing.assert_array_equal(shard.data, host[shard.index])
    if not kiln.process_index():
        print("resharded", flush=True)


def check_broadcasts() -> None:
    """Send trees of several dtypes from one process to all."""
    count, here = kiln.process_count(), kiln.process_index()
    for dtype in ANY:
        for source in (0, count - 1):
            own = values(count, dtype) if here == source else np.zeros((count, count, 3))
            got = multihost_utils.broadcast_one_to_all(
                own.astype(jnp.dtype(dtype)), is_source=here == source
            )
            np.testing.assert_array_equal(got, values(count, dtype))
    if not here:
        print("broadcast", flush=True)


def main() -> None:
    kiln.config.update("enable_x64", True)
    kiln.distributed.initialize()
    check_collectives(Mesh(np.array(kiln.devices()), "d"))
    check_resharding()
    check_broadcasts()


if __name__ == "__main__":
    main()
