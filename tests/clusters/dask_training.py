"""Training by workers of Dask, which a plugin joins; the losses of the run are written to FOLDER.

`python -m tests.clusters.dask_training KIND FOLDER COUNT [--lose RANKS] [--steps=N]`: the workers
RANKS, such as 0,1,1, are killed one after another, each after another step that was saved; then a
new cluster continues from there.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, WorkerPlugin

import kiln
from tests.clusters.running import LONGEST_S, saved_steps, until_saved
from tests.clusters.training import asked, train

CHANCE = random.Random(7)


class Processes(WorkerPlugin):
    """Makes each worker one of the processes of a program; its rank is that of its address."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = sorted(addresses)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.place = f"127.0.0.1:{free.getsockname()[1]}"

    def setup(self, worker: Any) -> None:
        """Join the others; all workers do so at the same time."""
        rank = self.addresses.index(worker.address)
        kiln.distributed.initialize(self.place, len(self.addresses), rank)


def trained(kind: str, folder: Path, count: int, steps: int, victim: int | None) -> None:
    """Train by the workers of a new cluster; a victim is killed once a step has been saved."""
    options = {"dashboard_address": None, "threads_per_worker": 1, "processes": True}
    last = max(saved_steps(folder), default=-1)
    with LocalCluster(n_workers=count, **options) as cluster, Client(cluster) as client:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        client.register_plugin(Processes(workers))
        pids = client.run(os.getpid)
        pause = 0.0 if victim is None else 0.3
        results = [
            client.submit(
                train, kind, folder, pause, steps, saves=True, workers=[w], pure=False, retries=0
            )
            for w in workers
        ]
        if victim is None:
            found = client.gather(results)
            assert all(each == found[0] for each in found)
            return
        until_saved(folder, last + 1)
        time.sleep(CHANCE.uniform(0.0, 0.5))
        os.kill(pids[sorted(workers)[victim]], signal.SIGKILL)
        for rank, worker in enumerate(sorted(workers)):
            if rank != victim:
                error = results[workers.index(worker)].exception(timeout=LONGEST_S)
                print(f"worker {rank}: {str(error).splitlines()[1]}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    given = asked(argv)
    for victim in [*(given.lose or ()), None]:
        trained(given.kind, given.folder, given.count, given.steps, victim)


if __name__ == "__main__":
    main()
