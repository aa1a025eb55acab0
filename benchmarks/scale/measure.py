"""Measures one library over one number of virtual devices, in a process of its own.

`python -m benchmarks.scale.measure kiln 64 4x4` prints JSON: 64 devices, of which 4 stages and 4
parts of each layer make a replica.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from benchmarks.harness import Library, load
from benchmarks.scale.collectives import collectives
from benchmarks.scale.step import (
    AXES,
    LARGE,
    SMALL,
    Sizes,
    batch,
    batch_shape,
    parameters,
    placed,
    shapes,
    step,
)

ROUNDS = 15


def _devices(name: str, number: int) -> Library:
    # Read when the library is imported.
    os.environ["KILN_NUM_CPU_DEVICES"] = str(number)
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={number}"
    return load(name)


def _seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def compiled(lib: Library, mesh: Any, sizes: Sizes) -> dict[str, Any]:
    """Trace, lower and compile the step: seconds, bytes of each device, what it exchanges."""
    weights, rows = placed(lib, mesh)
    jitted = lib.root.jit(
        step(lib, mesh, sizes), in_shardings=(weights, rows, rows), donate_argnums=0
    )

    def struct(shape: tuple[int, ...]) -> Any:
        return lib.root.ShapeDtypeStruct(shape, numpy.float32)

    data = struct(batch_shape(sizes, mesh.shape["data"]))
    operands = ({name: struct(shape) for name, shape in shapes(sizes).items()}, data, data)
    # Again with what the first time loaded and cached: what a large program costs, not imports.
    trace_s, _ = _seconds(lambda: jitted.trace(*operands))
    lib.root.clear_caches()
    again_s, traced = _seconds(lambda: jitted.trace(*operands))
    # By then, late writers have written the text.
    lower_s, lowered = _seconds(lambda: (low := traced.lower(), low.as_text())[0])
    compile_s, executable = _seconds(lowered.compile)
    memory = executable.memory_analysis()
    return {
        "trace_s": again_s,
        "first_trace_s": trace_s,
        "lower_s": lower_s,
        "compile_s": compile_s,
        "text_bytes": len(lowered.as_text()),
        "argument_bytes": memory.argument_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "collectives": [
            dataclasses.asdict(c) for c in collectives(executable.as_text(), dict(mesh.shape))
        ],
    }


def arrays(lib: Library, mesh: Any) -> dict[str, float]:
    """Time what runs for every array of one shard on each device."""
    root, sharding = lib.root, lib.root.sharding
    split = sharding.NamedSharding(mesh, sharding.PartitionSpec(AXES))
    whole = numpy.zeros((mesh.size, 4), numpy.float32)
    x = root.device_put(whole, split)
    add = root.jit(lambda x: x + 1)
    work: dict[str, Callable[[], Any]] = {
        "device_put": lambda: root.device_put(whole, split),
        "call": lambda: add(x),
        "read": lambda: numpy.asarray(add(x)),
    }

    def median(one: Callable[[], Any]) -> float:
        root.block_until_ready(one())
        return statistics.median(
            _seconds(lambda: root.block_until_ready(one()))[0] for _ in range(ROUNDS)
        )

    return {name: median(one) for name, one in work.items()}


def losses(lib: Library, mesh: Any, steps: int) -> list[float]:
    """Train the small model; its batch is that of eight replicas for every mesh."""
    replicas = mesh.shape["data"]
    sizes = dataclasses.replace(SMALL, rows=SMALL.rows * 8 // replicas)
    weights, rows = placed(lib, mesh)
    train = lib.root.jit(step(lib, mesh, sizes), donate_argnums=0)
    params = lib.root.device_put(parameters(sizes), weights)
    operands = lib.root.device_put(batch(sizes, replicas), rows)
    found = []
    for _ in range(steps):
        params, value = train(params, *operands)
        found.append(float(value))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("library")
    parser.add_argument("devices", type=int)
    parser.add_argument("replica", help="stages x parts of a layer, such as 4x4")
    parser.add_argument("--losses", type=int, default=0, help="train the small model so many steps")
    options = parser.parse_args(argv)
    stages, parts = map(int, options.replica.split("x"))
    lib = _devices(options.library, options.devices)
    client_s, devices = _seconds(lib.root.devices)
    mesh = lib.root.sharding.Mesh(
        numpy.array(devices[: options.devices]).reshape(-1, stages, parts), AXES
    )
    if options.losses:
        print(json.dumps(losses(lib, mesh, options.losses)))
        return
    found = {"client_s": client_s, **compiled(lib, mesh, LARGE), "arrays": arrays(lib, mesh)}
    print(json.dumps({"library": lib.name, "mesh": dict(mesh.shape), **found}))


if __name__ == "__main__":
    main()
