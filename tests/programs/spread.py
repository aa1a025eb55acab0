"""Run a whole program over all devices of a mesh, unchanged: only where its arguments lie differs.

`Spread` is the library (kiln) with a `jit` that places the arguments of each call by
`in_shardings`: the leaves it is told of are sharded along one axis over as many devices as divide
that axis, all others lie whole on every device.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import kiln
from kiln.core.trace import Tracer
from kiln.sharding import NamedSharding, PartitionSpec, make_mesh

# From all devices to some of them.
PARTS: dict[int, str | tuple[str, ...]] = {8: ("a", "b"), 4: "a", 2: "b"}

Axes = Mapping[str, int]
"""The axis to shard, by the beginning of a leaf's path: `x`, `p['w']`."""

MODELS: dict[str, Axes] = {
    # Those with a batch: examples, a series in time, chains, tokens.
    "tied_autoencoder": {"x": 0},
    "recurrent_network": {"xs": 1},
    "kalman_filter": {"y": 0},
    "attention_block": {"x": 0},
    "convolutional_network": {"x": 0},
    "markov_chain": {"key": 0},
    "clipped_gradient": {"x": 0},
    "per_example_gradients": {"x": 0},
    "mixture_of_experts": {"xs": 0},
    # Those without: whatever they have is sharded, weights between the devices of a layer.
    "scan_over_layers": {"p['w']": 2, "p['b']": 1},
    "newton": {"x": 0},
    "ode_sensitivity": {"p": 0},
    "implicit_differentiation": {"p": 0},
    "adam_training": {"s": 1},
    "mixed_precision": {"p['w']": 1, "p['b']": 0},
    "conjugate_gradients": {"b": 0},
}


class Spread:
    """A library whose `jit` spreads arguments over the mesh; `sharded` counts sharded leaves."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.mesh = make_mesh((4, 2), ("a", "b"))
        self.sharded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(kiln, name)

    def jit(self, fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Return the jitted function of arguments spread over the mesh."""
        names = list(inspect.signature(fun).parameters)

        @functools.wraps(fun)
        def run(*args: Any) -> Any:
            leaves, tree = kiln.tree.flatten_with_path(args)
            shardings = [
                self._sharding(names[path[0].idx] + kiln.tree_util.keystr(path[1:]), leaf)
                for path, leaf in leaves
            ]
            # The results of an earlier call lie where that call left them.
            placed = [
                leaf if isinstance(leaf, Tracer) else kiln.device_put(leaf, sharding)
                for (_, leaf), sharding in zip(leaves, shardings, strict=True)
            ]
            spread = kiln.jit(fun, in_shardings=kiln.tree.unflatten(tree, shardings), **options)
            return spread(*kiln.tree.unflatten(tree, placed))

        return run

    def _sharding(self, path: str, leaf: Any) -> NamedSharding:
        shape = np.shape(leaf)
        for start, axis in self.axes.items():
            if path.startswith(start) and axis < len(shape):
                for count, names in PARTS.items():
                    if shape[axis] % count == 0:
                        self.sharded += 1
                        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, names))
        return NamedSharding(self.mesh, PartitionSpec())
