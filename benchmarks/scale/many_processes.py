"""What many processes cost: start, barriers, broadcasts, trees of many arrays, their checkpoints.

`python -m benchmarks.scale.many_processes` starts 1, 2, 4, 8 and 16 processes of one device each on
this machine, and prints a table: the longest time of a start, the least times of the rest, and the
greatest memory of a process.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np

import kiln
from benchmarks.scale.meeting import answers
from kiln.experimental import multihost_utils
from kiln.sharding import Mesh, NamedSharding
from kiln.sharding import PartitionSpec as P

COUNTS = (1, 2, 4, 8, 16)
LEAVES = 10_000
ROUNDS = 10


@dataclasses.dataclass(frozen=True)
class Costs:
    """Times in seconds, memory in MiB, as one process has measured them."""

    start: float
    """From its creation until all processes have met, and the devices are made."""
    barrier: float
    """`sync_global_devices`."""
    broadcast: float
    """`broadcast_one_to_all` of 1 MiB."""
    put: float
    """`device_put` of a tree of 10,000 arrays, sharded over all processes."""
    save: float
    """`checkpoints.save` of that tree."""
    restore: float
    """`checkpoints.restore` of it."""
    memory: float
    """After the start, of which much is shared with the other processes of the machine."""
    private: float
    """The part of it that is this process's own."""


def least(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the least time of a call."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def _memory() -> tuple[float, float]:
    """Return the resident memory of this process, and what of it is private, in MiB."""
    with open("/proc/self/smaps_rollup", encoding="utf-8") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in list(file)[1:]}
    private = sizes["Private_Clean"] + sizes["Private_Dirty"]
    return sizes["Rss"] / 1024, private / 1024


def measured(created: float) -> Costs:
    """Measure as one of the processes."""
    if "JAX_NUM_PROCESSES" in os.environ:
        kiln.distributed.initialize()
    mesh = Mesh(np.array(kiln.devices()), "d")
    start = time.time() - created
    memory, private = _memory()
    megabyte = np.zeros(1 << 18, np.float32)
    names = iter(range(1000))
    multihost_utils.sync_global_devices("begin")
    barrier = least(lambda: multihost_utils.sync_global_devices(f"{next(names)}"))
    multihost_utils.broadcast_one_to_all(megabyte)
    broadcast = least(lambda: multihost_utils.broadcast_one_to_all(megabyte))
    rows = NamedSharding(mesh, P("d"))
    tree = {f"{i}": np.full((mesh.size, 2), i, np.float32) for i in range(LEAVES)}
    places = dict.fromkeys(tree, rows)
    put = least(lambda: kiln.device_put(tree, places), 2)
    placed = kiln.device_put(tree, places)
    folder = os.path.join(os.environ["KILN_CACHE_DIR"], "checkpoint")
    save = least(lambda: kiln.checkpoints.save(folder, placed), 2)
    restore = least(lambda: kiln.checkpoints.restore(folder, target=placed), 2)
    return Costs(start, barrier, broadcast, put, save, restore, memory, private)


def together(count: int) -> Costs:
    """Run processes, and return the greatest of each number.

    Raises: RuntimeError if one fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        variables = {"KILN_CACHE_DIR": f"{folder}/cache"}
        told = answers("benchmarks.scale.many_processes", [], count, variables)
    found = [Costs(**each) for each in told]
    names = [field.name for field in dataclasses.fields(Costs)]
    return Costs(*(max(getattr(each, name) for each in found) for name in names))


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or measure as one of the processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--created", type=float, help="be one of the processes, created then")
    options = parser.parse_args(argv)
    if options.created is not None:
        print(json.dumps(dataclasses.asdict(measured(options.created))))
        return
    print("| processes | start | barrier | broadcast | put | save | restore | memory | private |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for count in map(int, options.counts.split(",")):
        rounds = [together(count) for _ in range(options.rounds)]
        names = [field.name for field in dataclasses.fields(Costs)]
        best = Costs(*(min(getattr(each, name) for each in rounds) for name in names))
        print(
            f"| {count} | {best.start:.2f} s | {1000 * best.barrier:.2f} ms "
            f"| {1000 * best.broadcast:.2f} ms | {best.put:.2f} s "
            f"| {best.save:.2f} s | {best.restore:.2f} s "
            f"| {best.memory:.0f} MiB | {best.private:.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
