"""A training step of a transformer on a mesh of three axes: data, stage and tensor.

The text is the same for kiln and JAX. Layers are split into stages, one after the other along
`stage`, and microbatches travel through them (GPipe, Huang et al. 2019); heads and hidden units are
split along `tensor` with one sum after each half of a layer (Shoeybi et al. 2019, section 3); the
batch along `data`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy

from benchmarks.harness import Library

AXES = ("data", "stage", "tensor")
RATE = 0.1


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The model, and the batch of one replica: `rows` sequences in each microbatch."""

    layers: int
    width: int
    heads: int
    hidden: int
    sequence: int
    microbatches: int
    rows: int

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return self.layers * self.width * (4 * self.width + 2 * self.hidden)

    @property
    def flops(self) -> float:
        """The operations of a step of one replica: 8 for each weight and token.

        Two forward, four backward and two for the activations that are recomputed; those of
        attention scores not counted.
        """
        return 8.0 * self.parameters * self.microbatches * self.rows * self.sequence


SMALL = Sizes(8, 128, 8, 512, 32, 4, 2)
"""One that runs on a laptop."""

LARGE = Sizes(32, 4096, 32, 16384, 2048, 16, 1)
"""One of 6.4 billion weights, which is compiled only."""


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of all layers, stacked along their first axis."""
    layers, width, one = sizes.layers, sizes.width, sizes.width // sizes.heads
    return {
        "qkv": (layers, 3, sizes.heads, width, one),
        "out": (layers, sizes.heads, one, width),
        "up": (layers, width, sizes.hidden),
        "down": (layers, sizes.hidden, width),
    }


def parameters(sizes: Sizes, seed: int = 0) -> dict[str, Any]:
    """Return weights as NumPy arrays."""
    random = numpy.random.default_rng(seed)
    units = {"qkv": sizes.width, "out": sizes.width, "up": sizes.width, "down": sizes.hidden}
    return {
        name: (random.standard_normal(shape) / math.sqrt(units[name])).astype(numpy.float32)
        for name, shape in shapes(sizes).items()
    }


def specs(lib: Library) -> dict[str, Any]:
    """Return how each weight is split."""
    spec = lib.root.sharding.PartitionSpec
    return {
        "qkv": spec("stage", None, "tensor"),
        "out": spec("stage", "tensor"),
        "up": spec("stage", None, "tensor"),
        "down": spec("stage", "tensor"),
    }


def batch_shape(sizes: Sizes, replicas: int) -> tuple[int, int, int]:
    """Return the shape of the inputs and of the wanted outputs."""
    return replicas * sizes.microbatches * sizes.rows, sizes.sequence, sizes.width


def batch(sizes: Sizes, replicas: int, seed: int = 1) -> tuple[Any, Any]:
    """Return inputs and wanted outputs as NumPy arrays."""
    random = numpy.random.default_rng(seed)
    shape = batch_shape(sizes, replicas)
    first, second = (random.standard_normal(shape).astype(numpy.float32) for _ in range(2))
    return first, second


def _layer(lib: Library, weights: dict[str, Any], x: Any) -> Any:
    root, np = lib.root, lib.np

    def normal(x: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        return centered * root.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)

    q, k, v = np.einsum("bsw,khwd->kbhsd", normal(x), weights["qkv"])
    scores = np.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
    seen = np.einsum("bhst,bhtd->bhsd", root.nn.softmax(scores), v)
    x = x + root.lax.psum(np.einsum("bhsd,hdw->bsw", seen, weights["out"]), "tensor")
    hidden = root.nn.gelu(normal(x) @ weights["up"])
    return x + root.lax.psum(hidden @ weights["down"], "tensor")


def loss(lib: Library, mesh: Any, sizes: Sizes) -> Any:
    """Return the function of weights, inputs and wanted outputs."""
    root, np = lib.root, lib.np
    spec = root.sharding.PartitionSpec
    stages, replicas = mesh.shape["stage"], mesh.shape["data"]
    onward = [(i, (i + 1) % stages) for i in range(stages)]
    # Activations of a layer are recomputed, and only its input is kept.
    layer = root.checkpoint(lambda weights, x: _layer(lib, weights, x))

    def body(weights: Any, inputs: Any, wanted: Any) -> Any:
        stage = root.lax.axis_index("stage")
        micro = (sizes.microbatches, sizes.rows, sizes.sequence, sizes.width)
        inputs, wanted = inputs.reshape(micro), wanted.reshape(micro)

        def tick(carry: Any, number: Any) -> Any:
            arrived, total = carry
            entering = inputs[np.clip(number, 0, sizes.microbatches - 1)]
            x = np.where(stage == 0, entering, arrived)
            y, _ = root.lax.scan(lambda x, w: (layer(w, x), None), x, weights)
            leaving = number - (stages - 1)
            error = y - wanted[np.clip(leaving, 0, sizes.microbatches - 1)]
            counts = (stage == stages - 1) & (leaving >= 0)
            total = total + np.where(counts, (error * error).mean(), 0.0)
            return (root.lax.ppermute(y, "stage", onward), total), None

        start = (np.zeros(micro[1:], np.float32), np.zeros((), np.float32))
        ticks = np.arange(sizes.microbatches + stages - 1)
        (_, total), _ = root.lax.scan(tick, start, ticks)
        return root.lax.psum(total, ("data", "stage")) / (sizes.microbatches * replicas)

    return root.shard_map(
        body,
        mesh=mesh,
        in_specs=(specs(lib), spec("data"), spec("data")),
        out_specs=spec(),
        check_vma=False,
    )


def step(lib: Library, mesh: Any, sizes: Sizes) -> Any:
    """Return the step of gradient descent, not yet jitted."""
    objective = loss(lib, mesh, sizes)

    def train(weights: Any, inputs: Any, wanted: Any) -> Any:
        value, gradients = lib.root.value_and_grad(objective)(weights, inputs, wanted)
        descended = lib.root.tree.map(lambda w, g: w - RATE * g, weights, gradients)
        return descended, value

    return train


def placed(lib: Library, mesh: Any) -> tuple[Any, Any]:
    """Return the shardings of the weights and of the batch."""
    sharding = lib.root.sharding
    split = {k: sharding.NamedSharding(mesh, s) for k, s in specs(lib).items()}
    return split, sharding.NamedSharding(mesh, sharding.PartitionSpec("data"))
