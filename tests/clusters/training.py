"""The transformer of `benchmarks/scale` trained by several processes, under any manager.

`python -m tests.clusters.training KIND FOLDER`: process 0 writes the losses to FOLDER/losses.json.
With `--save` each step is saved, and a run continues from the last one; with `--pause` a step takes
at least this many seconds, so that it can be interrupted. With `--until-preempted` only the step at
which all processes stop after SIGTERM is saved, and the exit code is 75. With `--elastic=2` each
step is saved, and the program goes on with two processes at least.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kiln
from benchmarks.harness import load
from benchmarks.scale.step import AXES, Sizes, batch, loss, parameters, placed
from kiln.checkpoints import Checkpoints
from kiln.experimental.multihost_utils import reached_preemption_sync_point
from kiln.sharding import Mesh, NamedSharding
from kiln.sharding import PartitionSpec as P

KINDS = ("data", "fsdp", "pipeline")
"""The batch is divided among the processes; the weights too; or the layers."""
STEPS, RATE = 6, 0.02
SEQUENCES = 8
PREEMPTED = 75
SIZES = Sizes(8, 16, 2, 32, 8, SEQUENCES, 1)


class Run:
    """A training run on devices: all of the processes, or one."""

    def __init__(self, kind: str, devices: Sequence[Any]) -> None:
        lib, count = load("kiln"), len(devices)
        stages = count if kind == "pipeline" else 1
        replicas = count // stages
        shape = (replicas, stages, 1)
        mesh = Mesh(np.array(devices, dtype=object).reshape(shape), AXES)
        sizes = dataclasses.replace(SIZES, microbatches=SEQUENCES // replicas)
        self.weights_at, self.batch_at = placed(lib, mesh)
        if kind == "fsdp":
            # Gathered for a step, whose gradients are scattered.
            self.weights_at = {name: NamedSharding(mesh, P("data")) for name in self.weights_at}
        self.weights = kiln.device_put(parameters(sizes), self.weights_at)
        objective = loss(lib, mesh, sizes)

        def step(weights: Any, inputs: Any, wanted: Any) -> Any:
            value, gradients = kiln.value_and_grad(objective)(weights, inputs, wanted)
            return kiln.tree.map(lambda w, g: w - RATE * g, weights, gradients), value

        whole = NamedSharding(mesh, P())
        self._step: Callable[..., Any] = kiln.jit(
            step, donate_argnums=0, out_shardings=(self.weights_at, whole)
        )
        self._sizes, self._replicas = sizes, replicas

    def step(self, number: int) -> float:
        """Train on the batch of a step, and return the loss."""
        given = [
            kiln.make_array_from_callback(each.shape, self.batch_at, each.__getitem__)
            for each in batch(self._sizes, self._replicas, number + 1)
        ]
        self.weights, value = self._step(self.weights, *given)
        return float(value)


@functools.cache
def alone(steps: int = STEPS) -> list[float]:
    """Return the losses of one device."""
    run = Run("data", kiln.devices()[:1])
    return [run.step(number) for number in range(steps)]


def train(
    kind: str,
    folder: Path,
    pause: float = 0.0,
    steps: int = STEPS,
    *,
    saves: bool = False,
    is_notified: bool = False,
) -> list[float]:
    """Train with all devices of the processes; process 0 writes the losses.

    It ends early, after saving, if it `is_notified` of preemption.
    """
    run, losses = Run(kind, kiln.devices()), list[float]()
    keeps = saves or is_notified
    saved = Checkpoints(folder / "checkpoints", keep=2) if keeps else None
    if saved is not None and saved.latest() is not None:
        run.weights = saved.restore(target={"weights": run.weights})["weights"]
        with saved.open() as checkpoint:
            losses = checkpoint.metadata
    for number in range(len(losses), steps):
        losses.append(run.step(number))
        if kiln.process_index() == 0:
            print(f"step {number}", flush=True)
        time.sleep(pause)
        stops = is_notified and reached_preemption_sync_point(number)
        if saved is not None and (stops or not is_notified):
            saved.save(number, {"weights": run.weights}, metadata=losses)
        if stops:
            print(f"stopped after step {number}", flush=True)
            raise SystemExit(PREEMPTED)
    if kiln.process_index() == 0:
        name = folder / f"losses.{os.getpid()}"
        name.write_text(json.dumps(losses), encoding="utf-8")
        name.replace(folder / "losses.json")
    return losses


def asked(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of a program that starts `count` processes, and kills some of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--lose", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--steps", type=int, default=STEPS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--until-preempted", action="store_true")
    parser.add_argument("--elastic", type=int)
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args(argv)

    def begin() -> None:
        print(f"process {kiln.process_index()} of {kiln.process_count()}", flush=True)
        is_notified = given.until_preempted
        saves = given.save or given.elastic is not None
        kept = {"saves": saves, "is_notified": is_notified}
        train(given.kind, given.folder, given.pause, given.steps, **kept)

    if given.elastic is not None:
        kiln.distributed.run(begin, min_processes=given.elastic, max_restarts=20)
    else:
        kiln.distributed.initialize()
        begin()


if __name__ == "__main__":
    main()
