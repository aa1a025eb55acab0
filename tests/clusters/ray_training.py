"""Training by actors of Ray, one process each; the losses of the run are written to FOLDER.

`python -m tests.clusters.ray_training KIND FOLDER COUNT [--lose RANKS] [--steps=N]`: the actors
RANKS, such as 0,1,1, are killed one after another, each after another step that was saved; then
other actors continue from there.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import kiln
from tests.clusters.running import saved_steps, until_saved
from tests.clusters.training import asked, train

MEMORY = 80 * 2**20
LONGEST_S = 200.0


class Trainer:
    """One of the processes."""

    def address(self) -> str:
        """Return an address on the machine of this actor."""
        with socket.create_server(("", 0)) as free:
            return f"{ray.util.get_node_ip_address()}:{free.getsockname()[1]}"

    def train(
        self, place: tuple[str, int, int], kind: str, folder: str, pause: float, steps: int
    ) -> Any:
        kiln.distributed.initialize(*place)
        losses = train(kind, Path(folder), pause, steps, saves=True)
        kiln.distributed.shutdown()
        return losses


def started(
    count: int, kind: str, folder: Path, pause: float, steps: int
) -> tuple[list[Any], list[Any], Any]:
    """Return actors, their results to come, and their placement group."""
    group = placement_group([{"CPU": 1}] * count)
    ray.get(group.ready(), timeout=LONGEST_S)
    make = ray.remote(num_cpus=1)(Trainer)
    where = PlacementGroupSchedulingStrategy(placement_group=group)
    actors = [make.options(scheduling_strategy=where).remote() for _ in range(count)]
    address = ray.get(actors[0].address.remote(), timeout=LONGEST_S)
    return (
        actors,
        [
            actor.train.remote((address, count, rank), kind, str(folder), pause, steps)
            for rank, actor in enumerate(actors)
        ],
        group,
    )


def main(argv: Sequence[str] | None = None) -> None:
    given = asked(argv)
    ray.init(
        address="local",
        num_cpus=given.count,
        include_dashboard=False,
        object_store_memory=MEMORY,
        configure_logging=False,
        log_to_driver=False,
    )
    chance = random.Random(7)
    for victim in given.lose or ():
        last = max(saved_steps(given.folder), default=-1)
        actors, results, group = started(given.count, given.kind, given.folder, 0.3, given.steps)
        until_saved(given.folder, last + 1)
        time.sleep(chance.uniform(0.0, 0.5))
        ray.kill(actors[victim])
        for rank, result in enumerate(results):
            try:
                ray.get(result, timeout=LONGEST_S)
            except ray.exceptions.RayError as error:
                cause = str(getattr(error, "cause", None) or type(error).__name__).splitlines()
                print(f"actor {rank}: {' '.join(cause[-2:-1] or cause)}", flush=True)
        for actor in actors:
            ray.kill(actor)
        remove_placement_group(group)
    _, results, _ = started(given.count, given.kind, given.folder, 0.0, given.steps)
    found = ray.get(results, timeout=LONGEST_S)
    assert all(each == found[0] for each in found)
    ray.shutdown()


if __name__ == "__main__":
    main()
