"""Data-parallel and fully sharded training of a small network, in one process or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.sharding import Mesh, NamedSharding
from kiln.sharding import PartitionSpec as P

STEPS = 8
BATCH, WIDTH, HIDDEN = 24, 8, 24
RATE = 0.05

Params = dict[str, Any]


def data(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the whole batch of a step; each process takes its part."""
    rng = np.random.default_rng(step)
    x = rng.normal(size=(BATCH, WIDTH)).astype(np.float32)
    return x, np.sin(x.sum(axis=1, keepdims=True))


def initial() -> Params:
    rng = np.random.default_rng(99)
    return {
        "w1": rng.normal(size=(WIDTH, HIDDEN)).astype(np.float32) / 3,
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": rng.normal(size=(HIDDEN, 1)).astype(np.float32) / 6,
    }


def loss(params: Params, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] - y) ** 2)


def train_step(params: Params, x: Any, y: Any) -> tuple[Params, Any]:
    value, grads = kiln.value_and_grad(loss)(params, x, y)
    return kiln.tree.map(lambda p, g: p - RATE * g, params, grads), value


PLACES: dict[str, dict[str, P]] = {
    # Parameters whole on each device, gradients summed over devices.
    "replicated": {"w1": P(), "b1": P(), "w2": P()},
    # Each device holds a part of the parameters, and gathers what it needs.
    "sharded": {"w1": P(None, "d"), "b1": P("d"), "w2": P("d")},
}


class Run:
    """A training run on a mesh."""

    def __init__(self, kind: str, devices: Sequence[Any]) -> None:
        self.mesh = Mesh(np.array(devices), "d")
        self.by_name = {n: NamedSharding(self.mesh, spec) for n, spec in PLACES[kind].items()}
        self.batches = NamedSharding(self.mesh, P("d"))
        self.params: Params = kiln.device_put(initial(), self.by_name)
        whole = NamedSharding(self.mesh, P())
        self.step_function = kiln.jit(
            train_step, donate_argnums=0, out_shardings=(self.by_name, whole)
        )

    def batch(self, step: int) -> list[Any]:
        """Return the arrays of a step's batch, of which this process gives its rows."""
        count, here = kiln.process_count(), kiln.process_index()
        rows = slice(here * BATCH // count, (here + 1) * BATCH // count)
        return [
            kiln.make_array_from_process_local_data(self.batches, each[rows]) for each in data(step)
        ]

    def step(self, step: int) -> float:
        """Train on one batch and return the loss."""
        self.params, value = self.step_function(self.params, *self.batch(step))
        return float(value)


def losses(kind: str, devices: Sequence[Any]) -> list[float]:
    run = Run(kind, devices)
    return [run.step(step) for step in range(STEPS)]
