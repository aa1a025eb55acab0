"""How long a step would take on machines that nobody here has: a stated model.

Each device computes its part of the operations; the stages of a pipeline wait for each other while
it fills and empties; every collective operation takes the time of a ring, and nothing overlaps.
What is exchanged is what compiled programs exchange (`collectives.py`); `expected` says the same as
a formula, for meshes that are not compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from benchmarks.scale.collectives import Collective
from benchmarks.scale.step import Sizes

FLOAT = 4


@dataclasses.dataclass(frozen=True)
class Machine:
    """What the model is told of a machine: per device, in operations, bytes and seconds."""

    flops: float = 2e14
    near: float = 3e11
    far: float = 5e10
    latency_s: float = 1e-5

    def bandwidth(self, axes: Iterable[str]) -> float:
        """Return the bytes a second of a link; parts of one layer are neighbors."""
        return self.near if tuple(axes) == ("tensor",) else self.far


def expected(sizes: Sizes, mesh: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes that one device hands over in a step, along each axis.

    Every layer adds up its activations along `tensor` five times for each microbatch that passes:
    twice forward, once more of those when they are recomputed, and twice backward. A pipeline
    of P stages has P - 1 passes more than microbatches.
    """
    stages, parts = mesh["stage"], mesh["tensor"]
    passes = sizes.microbatches + stages - 1
    activations = FLOAT * sizes.rows * sizes.sequence * sizes.width
    found = {
        "data": FLOAT * sizes.parameters // (stages * parts),
        "stage": 2 * passes * activations,
        "tensor": 5 * passes * (sizes.layers // stages) * activations,
    }
    return {axis: nbytes if mesh[axis] > 1 else 0 for axis, nbytes in found.items()}


def by_axis(found: Iterable[Collective], mesh: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes of a compiled program along each axis; single numbers are left out.

    Those are the loss and its cotangent, the only ones that are added along several axes.
    """
    total = dict.fromkeys(mesh, 0)
    for one in found:
        if one.nbytes > 2 * FLOAT:
            (axis,) = one.axes
            total[axis] += one.total
    return total


def calls(sizes: Sizes, mesh: Mapping[str, int]) -> dict[str, int]:
    """Return how many collective operations a step has along each axis."""
    passes = sizes.microbatches + mesh["stage"] - 1
    found = {"data": 1, "stage": 2 * passes, "tensor": 5 * passes * sizes.layers // mesh["stage"]}
    return {axis: number if mesh[axis] > 1 else 0 for axis, number in found.items()}


def seconds(sizes: Sizes, mesh: Mapping[str, int], machine: Machine) -> dict[str, float]:
    """Return the parts of the time of a step: computing, waiting in the pipeline, each axis."""
    stages, parts = mesh["stage"], mesh["tensor"]
    computing = sizes.flops / (stages * parts * machine.flops)
    found = {
        "compute": computing,
        "pipeline": computing * (stages - 1) / sizes.microbatches,
    }
    nbytes, times = expected(sizes, mesh), calls(sizes, mesh)
    for axis, size in mesh.items():
        # A permutation is one message; a sum goes around the ring twice.
        steps, share = (1, 1.0) if axis == "stage" else (2 * (size - 1), 2 * (size - 1) / size)
        found[axis] = times[axis] * steps * machine.latency_s + share * nbytes[
            axis
        ] / machine.bandwidth((axis,))
    return found


def efficiency(sizes: Sizes, mesh: Mapping[str, int], machine: Machine) -> float:
    """Return the time of one replica alone over the time on the mesh: weak scaling."""
    alone = sum(seconds(sizes, {**mesh, "data": 1}, machine).values())
    return alone / sum(seconds(sizes, mesh, machine).values())
