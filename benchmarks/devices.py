"""Arrays over many virtual devices: placing them, calling with them, moving them.

`python -m benchmarks.devices` measures kiln beside JAX in one process for each number of devices,
and prints medians, minima and ratios. Every sample waits for its results. With `--processor` times
are those of the process's threads on processors, which a loaded machine changes less.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from benchmarks import harness
from benchmarks.harness import Case, Library, Sampler, load, measure, repeated

COUNTS = (8, 64)
MANY = 100
ROWS, COLUMNS = 128, 64


def sharded(lib: Library, spec: Sequence[str | None]) -> Any:
    """Return a sharding over all devices."""
    sharding, devices = lib.root.sharding, numpy.array(lib.root.devices())
    return sharding.NamedSharding(sharding.Mesh(devices, ("d",)), sharding.PartitionSpec(*spec))


def values(seed: int = 0) -> Any:
    """Return the rows that are spread."""
    return numpy.random.default_rng(seed).random((ROWS, COLUMNS), numpy.float32)


def put_many(lib: Library) -> Callable[[], Any]:
    """Return a `device_put` of 100 NumPy arrays."""
    rows, arrays = sharded(lib, ("d",)), [values(i) for i in range(MANY)]
    return lambda: lib.root.device_put(arrays, rows)


def put_many_copies(lib: Library) -> Callable[[], Any]:
    """Return the same with a copy of each array on each device."""
    whole, arrays = sharded(lib, ()), [values(i) for i in range(MANY)]
    return lambda: lib.root.device_put(arrays, whole)


def put_on_mesh(lib: Library) -> Callable[[], Any]:
    """Return a `device_put` of 100 arrays on the first device."""
    rows = sharded(lib, ("d",))
    arrays = [lib.np.asarray(values(i)) for i in range(MANY)]
    return lambda: lib.root.device_put(arrays, rows)


def call(lib: Library) -> Callable[[], Any]:
    """Return a call with one sharded array in and out."""
    f, x = lib.root.jit(lambda x: x + 1), lib.root.device_put(values(), sharded(lib, ("d",)))
    return lambda: f(x)


def call_with_sum(lib: Library) -> Callable[[], Any]:
    """Return a call with a sum over all devices."""
    f = lib.root.jit(lambda x: x / x.sum(0))
    x = lib.root.device_put(values(), sharded(lib, ("d",)))
    return lambda: f(x)


def call_of_members(lib: Library) -> Callable[[], Any]:
    """Return a call of a `shard_map` with a sum over the members."""
    rows = sharded(lib, ("d",))
    spec = lib.root.sharding.PartitionSpec("d")
    f = lib.root.jit(
        lib.root.shard_map(
            lambda x: x - lib.root.lax.psum(x, "d"), mesh=rows.mesh, in_specs=spec, out_specs=spec
        )
    )
    x = lib.root.device_put(values(), rows)
    return lambda: f(x)


def reshard(lib: Library) -> Callable[[], Any]:
    """Return a `device_put` of rows as columns."""
    x, columns = lib.root.device_put(values(), sharded(lib, ("d",))), sharded(lib, (None, "d"))
    return lambda: lib.root.device_put(x, columns)


def gathered(lib: Library) -> Callable[[], Any]:
    """Return a `device_put` of rows as copies of the whole."""
    x, whole = lib.root.device_put(values(), sharded(lib, ("d",))), sharded(lib, ())
    return lambda: lib.root.device_put(x, whole)


def resharded_inside(lib: Library) -> Callable[[], Any]:
    """Return a call whose result is sharded by columns."""
    columns = sharded(lib, (None, "d"))
    f = lib.root.jit(lambda x: x + 1, out_shardings=columns)
    x = lib.root.device_put(values(), sharded(lib, ("d",)))
    return lambda: f(x)


def read(lib: Library) -> Callable[[], Any]:
    """Return a sum and its reading as a NumPy array."""
    f, x = lib.root.jit(lambda x: x + 1), lib.root.device_put(values(), sharded(lib, ("d",)))
    return lambda: numpy.asarray(f(x))


KINDS: dict[str, Callable[[Library], Callable[[], Any]]] = {
    "device_put of 100 NumPy arrays, by rows": put_many,
    "device_put of 100 NumPy arrays, copies": put_many_copies,
    "device_put of 100 arrays of one device, by rows": put_on_mesh,
    "call, shards in and out": call,
    "call, a sum over the devices": call_with_sum,
    "call of a shard_map with psum": call_of_members,
    "device_put, rows to columns": reshard,
    "device_put, rows to copies": gathered,
    "call, rows to columns": resharded_inside,
    "call, result read": read,
}


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases, for the devices of this process."""
    for name, make in KINDS.items():
        yield Case(name, {lib.name: _sampler(lib, make(lib)) for lib in libraries})


def _sampler(lib: Library, run: Callable[[], Any]) -> Sampler:
    wait = lib.root.block_until_ready
    return repeated(lambda: wait(run()), lambda last: None)


def _measure(names: Sequence[str], rounds: int, only: str) -> None:
    libraries = [load(name) for name in names]
    for case in cases(libraries):
        if only not in case.name:
            continue
        row = measure(case, at_most=rounds)
        first, second = (row.columns[lib.name] for lib in libraries)
        print(
            f"| {case.name} | {len(libraries[0].root.devices())} "
            f"| {1e6 * first.median_s:.0f} | {1e6 * second.median_s:.0f} "
            f"| {first.median_s / second.median_s:.2f} | {first.min_s / second.min_s:.2f} |",
            flush=True,
        )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--libraries", default="kiln,jax")
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--processor", action="store_true", help="time on processors")
    parser.add_argument("--here", action="store_true", help="with the devices of this process")
    options = parser.parse_args(argv)
    names = options.libraries.split(",")
    if options.processor:
        harness.clock = time.process_time
    if options.here:
        _measure(names, options.rounds, options.only)
        return
    print(f"| case | devices | {names[0]} us | {names[1]} us | ratio | of minima |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for count in options.counts.split(","):
        flags = f"--xla_force_host_platform_device_count={count}"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.devices", "--here", "--only", options.only]
            + ["--libraries", options.libraries, "--rounds", str(options.rounds)]
            + ["--processor"] * options.processor,
            env={**os.environ, "XLA_FLAGS": flags},
            check=True,
        )


if __name__ == "__main__":
    main()
