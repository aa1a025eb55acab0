"""A program that saves a sharded tree in a loop, or restores it; it may be killed at any moment.

`python -m kiln launch -n 4 -m tests.processes.saving save FOLDER FIRST LAST [RANK SECONDS]`
`python -m kiln launch -n 2 -m tests.processes.saving restore FOLDER STEP`
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

import kiln
from kiln.checkpoints import Checkpoint, Checkpoints
from kiln.sharding import NamedSharding, P

ROWS, COLUMNS = 16, 8


def values(step: int) -> dict[str, np.ndarray]:
    """Return the numbers of a step, as they are on the host."""
    rows = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    return {
        "rows": rows + step,
        "columns": rows - step,
        "both": rows * step,
        "whole": rows[0] + step,
    }


def places() -> dict[str, NamedSharding]:
    """Return where they lie, over all devices in two axes."""
    count = kiln.device_count()
    mesh = kiln.make_mesh((count // 2, 2) if count > 1 else (1, 1), ("a", "b"))
    specs = {"rows": P("a"), "columns": P(None, "b"), "both": P("a", "b"), "whole": P()}
    return {name: NamedSharding(mesh, spec) for name, spec in specs.items()}


def tree_of(step: int) -> dict[str, Any]:
    """Return the tree of a step."""
    where, host = places(), values(step)
    return {name: kiln.device_put(host[name], where[name]) for name in host} | {"step": step}


def step_in(checkpoint: Checkpoint) -> int:
    """Return the step that a checkpoint holds; every number is looked at, on the devices here."""
    checkpoint.verify()
    where, step = places(), int(checkpoint["step"])
    for name, wanted in values(step).items():
        found = checkpoint.read(name, where[name])
        for shard in found.addressable_shards:
            np.testing.assert_array_equal(shard.data, wanted[shard.index])
    return step


def save(folder: str, first: str, last: str, rank: str = "-1", seconds: str = "0") -> None:
    """Save steps into a run and into one place, and tell of each that is done."""
    if kiln.process_index() == int(rank):
        kill = threading.Timer(float(seconds), os.kill, (os.getpid(), signal.SIGKILL))
        kill.daemon = True
        kill.start()
    run, one = Checkpoints(Path(folder, "run"), keep=2), Path(folder, "one")
    for step in range(int(first), int(last) + 1):
        tree = tree_of(step)
        run.save(step, tree, wait=step % 2 == 0).wait()
        print("run", step, flush=True)
        kiln.checkpoints.save(one, tree)
        print("one", step, flush=True)


def restore(folder: str, step: str) -> None:
    """Read both."""
    with Checkpoints(Path(folder, "run")).open() as latest, Checkpoint(Path(folder, "one")) as one:
        assert step_in(latest) == step_in(one) == int(step)
    print("restored", flush=True)


if __name__ == "__main__":
    kiln.distributed.initialize()
    {"save": save, "restore": restore}[sys.argv[1]](*sys.argv[2:])
