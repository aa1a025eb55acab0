"""Training by workers of Dask, which a plugin joins; the losses of the run are written to FOLDER.

`python -m tests.clusters.dask_training KIND FOLDER COUNT`
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, WorkerPlugin

import kiln
from tests.clusters.training import train


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


def main(kind: str, folder: str, count: str) -> None:
    options = {"dashboard_address": None, "threads_per_worker": 1, "processes": True}
    with LocalCluster(n_workers=int(count), **options) as cluster, Client(cluster) as client:
        workers = list(client.scheduler_info(n_workers=-1)["workers"])
        client.register_plugin(Processes(workers))
        results = [
            client.submit(train, kind, Path(folder), workers=[worker], pure=False)
            for worker in workers
        ]
        found = client.gather(results)
        assert all(each == found[0] for each in found)


if __name__ == "__main__":
    main(*sys.argv[1:])
