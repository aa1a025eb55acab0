"""What reading ahead saves, and what the agreement on each batch costs.

`python -m benchmarks.scale.feeding` starts 1, 2, 4 and 8 processes of one device each on this
machine. Each step takes a batch, for which the source sleeps, and trains on it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import kiln
from benchmarks.scale.meeting import answers
from kiln.data import Batches
from kiln.sharding import Mesh, NamedSharding
from kiln.sharding import PartitionSpec as P

COUNTS = (1, 2, 4, 8)
STEPS, ROWS, WIDTH = 30, 64, 256
READING_S = 0.01


def _read(seconds: float) -> Iterator[np.ndarray]:
    """Yield batches; reading each takes a time in which the processor is free, as a disk does."""
    batch = np.ones((ROWS, WIDTH), np.float32)
    while True:
        time.sleep(seconds)
        yield batch


def _step(w: Any, x: Any) -> Any:
    for _ in range(8):
        x = x @ w
    return x.mean()


def measured() -> dict[str, float]:
    """Return the milliseconds of a step, with batches read ahead, and read within the step."""
    if "JAX_NUM_PROCESSES" in os.environ:
        kiln.distributed.initialize()
    mesh = Mesh(np.array(kiln.devices()), "d")
    rows = NamedSharding(mesh, P("d"))
    w = kiln.device_put(np.eye(WIDTH, dtype=np.float32), NamedSharding(mesh, P()))
    step = kiln.jit(_step)

    def timed(batches: Iterator[Any]) -> float:
        float(step(w, next(batches)))
        begin = time.perf_counter()
        for _ in range(STEPS):
            float(step(w, next(batches)))
        return 1000 * (time.perf_counter() - begin) / STEPS

    def inline(seconds: float) -> Iterator[Any]:
        for batch in _read(seconds):
            yield kiln.make_array_from_process_local_data(rows, batch)

    found = {}
    for name, seconds in (("slow", READING_S), ("fast", 0.0)):
        found[f"{name} source, in the step"] = timed(inline(seconds))
        with Batches(_read(seconds), rows) as batches:
            found[f"{name} source, ahead"] = timed(batches)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table, or measure as one of the processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--created", type=float, help="be one of the processes, created then")
    options = parser.parse_args(argv)
    if options.created is not None:
        print(json.dumps(measured()))
        return
    for count in map(int, options.counts.split(",")):
        rounds = [
            answers("benchmarks.scale.feeding", [], count, {"KILN_CACHE_DIR": ""})
            for _ in range(options.rounds)
        ]
        # The slowest process of the best round.
        best = {
            name: min(max(each[name] for each in told) for told in rounds) for name in rounds[0][0]
        }
        if count == int(options.counts.split(",")[0]):
            print(f"| processes | {' | '.join(best)} |\n|---:|{'---:|' * len(best)}")
        print(f"| {count} | {' | '.join(f'{each:.2f} ms' for each in best.values())} |", flush=True)


if __name__ == "__main__":
    main()
