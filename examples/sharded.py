"""Train one network on eight devices in two ways, and on one device, with equal numbers.

The devices are virtual: eight parts of this machine's processor. Data parallel: each device has all
weights and an eighth of the batch. Tensor parallel: each device has all images and an eighth of the
hidden layers. The program is the same every time, only where its arguments lie differs: XLA adds
the exchange between devices. The data are scikit-learn's handwritten digits.

    python examples/sharded.py [--steps 100]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import kiln
import kiln.numpy as jnp
from kiln import nn, random
from kiln.sharding import NamedSharding, PartitionSpec, make_mesh

DEVICES = 8
SIZES = (64, 256, 128, 10)
BATCH = 512
RATE = 0.1

kiln.config.update("num_cpu_devices", DEVICES)

Params = list[dict[str, Any]]


def init() -> Params:
    """Return the weights and biases of each layer."""
    keys = random.split(random.key(0), len(SIZES) - 1)
    he = nn.initializers.he_normal()
    return [
        {"w": he(k, (a, b), jnp.float32), "b": jnp.zeros(b)}
        for k, a, b in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]


def loss(params: Params, images: Any, labels: Any) -> Any:
    """Return the mean cross entropy."""
    x = images
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    logp = nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"])
    return -jnp.mean(jnp.sum(logp * nn.one_hot(labels, 10), axis=-1))


@kiln.jit
def step(params: Params, images: Any, labels: Any) -> tuple[Params, Any]:
    """Return the weights after one step of gradient descent, and the loss before it."""
    value, grads = kiln.value_and_grad(loss)(params, images, labels)
    return kiln.tree.map(lambda p, g: p - RATE * g, params, grads), value


def train(params: Params, batch: Any, steps: int) -> tuple[Params, list[float], float]:
    """Return the trained weights, the losses, and the seconds a step took."""
    params, value = step(params, *batch)
    losses = [value]
    start = time.perf_counter()
    for _ in range(steps - 1):
        params, value = step(params, *batch)
        losses.append(value)
    kiln.block_until_ready(params)
    seconds = (time.perf_counter() - start) / max(steps - 1, 1)
    return params, [float(x) for x in losses], seconds


def main() -> None:
    """Train three times and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps

    digits = load_digits()
    images = (digits.data[:BATCH] / 16).astype(np.float32)
    labels = digits.target[:BATCH].astype(np.int32)
    mesh = make_mesh((DEVICES,), ("d",))

    def placed(*spec: str | None) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*spec))

    whole, rows = placed(), placed("d")
    # Columns of the first layer and rows of the second: one exchange for the two of them.
    halves = [
        {"w": placed(None, "d"), "b": placed("d")},
        {"w": placed("d", None), "b": whole},
        {"w": whole, "b": whole},
    ]
    ways = {
        "one device": (None, None),
        "data parallel": (whole, rows),
        "tensor parallel": (halves, whole),
    }
    results = {}
    for name, (for_params, for_batch) in ways.items():
        params, batch = init(), (images, labels)
        if for_params is not None:
            params = kiln.device_put(params, for_params)
            batch = kiln.device_put(batch, for_batch)
        results[name] = train(params, batch, steps)
        trained, losses, seconds = results[name]
        print(f"{name}: loss {losses[0]:.5f} -> {losses[-1]:.5f}, {seconds * 1e3:.2f} ms a step")
        if for_params is not None:
            print("  where the first layer's weights lie:")
            kiln.debug.visualize_array_sharding(trained[0]["w"])

    reference = kiln.tree.leaves(results["one device"][0])
    for name in list(ways)[1:]:
        differences = [
            float(np.max(np.abs(np.asarray(a) - np.asarray(b))))
            for a, b in zip(reference, kiln.tree.leaves(results[name][0]), strict=True)
        ]
        print(f"{name}: weights differ from those of one device by at most {max(differences):.1e}")
        assert max(differences) < 1e-4, "the numbers of eight devices are not those of one"


if __name__ == "__main__":
    main()
