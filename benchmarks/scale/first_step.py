"""The first training step of processes that start together, kiln beside JAX.

`python -m benchmarks.scale.first_step` starts 1, 2, 4 and 8 processes of one device each, without a
cache on disk, and prints when the last of them has its first loss. The step is that of `step.py`,
data-parallel; the libraries take turns.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Sequence

import numpy

from benchmarks.harness import load
from benchmarks.scale.meeting import answers
from benchmarks.scale.step import AXES, SMALL, batch, parameters, placed, step

COUNTS = (1, 2, 4, 8)
LIBRARIES = ("kiln", "jax")


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of one process, or the longest of several."""

    started: float
    """From its creation until all processes have met, and the devices are made."""
    first_step: float
    """Of the first step: traced, lowered, compiled or received, and run."""
    second_step: float
    total: float
    """From its creation until it has the first loss."""
    losses: tuple[float, ...] = ()


def run(library: str, created: float) -> Times:
    """Take two steps in one of the processes."""
    lib = load(library)
    if "JAX_NUM_PROCESSES" in os.environ:
        # JAX finds only the address in variables.
        lib.root.distributed.initialize(
            os.environ["JAX_COORDINATOR_ADDRESS"],
            int(os.environ["JAX_NUM_PROCESSES"]),
            int(os.environ["JAX_PROCESS_ID"]),
        )
    count = lib.root.process_count()
    devices = numpy.array(lib.root.devices()).reshape(count, 1, 1)
    mesh = lib.root.sharding.Mesh(devices, AXES)
    started = time.time()
    weights_at, batch_at = placed(lib, mesh)
    weights = lib.root.device_put(parameters(SMALL), weights_at)
    here, rows = lib.root.process_index(), SMALL.microbatches * SMALL.rows
    given = [
        lib.root.make_array_from_process_local_data(
            batch_at, numpy.ascontiguousarray(each[here * rows : (here + 1) * rows])
        )
        for each in batch(SMALL, count)
    ]
    whole = lib.root.sharding.NamedSharding(mesh, lib.root.sharding.PartitionSpec())
    train = lib.root.jit(step(lib, mesh, SMALL), out_shardings=(weights_at, whole))
    begin, losses, ends = time.time(), [], []
    for _ in range(2):
        weights, loss = train(weights, *given)
        losses.append(float(loss))
        ends.append(time.time())
    return Times(
        started - created, ends[0] - begin, ends[1] - ends[0], ends[0] - created, tuple(losses)
    )


def together(library: str, count: int, folder: str = "") -> Times:
    """Run processes, and return the longest times; `folder` is that of kiln's cache on disk.

    Raises: AssertionError unless all have the same losses; RuntimeError if one fails.
    """
    variables = {
        "KILN_CACHE_DIR": folder,
        "JAX_PLATFORMS": "cpu",
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }
    told = answers("benchmarks.scale.first_step", ["--process", library], count, variables)
    found = [Times(**each) for each in told]
    assert len({tuple(each.losses) for each in found}) == 1, found
    return Times(
        *(max(getattr(each, f.name) for each in found) for f in dataclasses.fields(Times)[:-1]),
        found[0].losses,
    )


def least(samples: Sequence[Times]) -> Times:
    """Return the minimum of each time over rounds."""
    names = [field.name for field in dataclasses.fields(Times)[:-1]]
    return Times(*(min(getattr(each, name) for each in samples) for name in names))


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or take the steps of one process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--process", help="a library: be one of the processes")
    parser.add_argument("--created", type=float, help="when this process was created")
    options = parser.parse_args(argv)
    if options.process:
        print(json.dumps(dataclasses.asdict(run(options.process, options.created))))
        return
    print("| processes | | start | first step | second step | until the first loss |")
    print("|---:|---|---:|---:|---:|---:|")
    for count in map(int, options.counts.split(",")):
        samples: dict[str, list[Times]] = {name: [] for name in options.libraries.split(",")}
        for _ in range(options.rounds):
            for name, found in samples.items():
                found.append(together(name, count))
        for name, found in samples.items():
            best = least(found)
            print(
                f"| {count} | {name} | {best.started:.2f} s | {best.first_step:.2f} s "
                f"| {best.second_step:.3f} s | {best.total:.2f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()
