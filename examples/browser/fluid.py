"""Air in a wind tunnel, by the lattice Boltzmann method on nine velocities.

Each cell holds how much air moves to each of its neighbors. A step lets these amounts approach an
equilibrium, reflects them at obstacles, and moves them on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln import lax

ROWS, COLUMNS = 80, 200
WIND = 0.1
"""The speed of the air that comes in, in cells per step."""
VISCOSITY = 0.005
STEPS = 8
"""Of a call."""
VELOCITIES = np.array(
    [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1)]
)
OPPOSITE = [0, 3, 4, 1, 2, 7, 8, 5, 6]
WEIGHTS = np.array([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4], np.float32)


def equilibrium(density: Any, v: Any, u: Any) -> Any:
    """Return the amounts to which air of a velocity tends."""
    parts = []
    for (row, column), weight in zip(VELOCITIES, WEIGHTS, strict=True):
        along = 3.0 * (int(row) * v + int(column) * u)
        parts.append(weight * density * (1 + along + 0.5 * along**2 - 1.5 * (v**2 + u**2)))
    return jnp.stack(parts)


def moments(flow: Any) -> tuple[Any, Any, Any]:
    """Return the density, and the velocities down and to the right."""
    density = flow.sum(0)
    v = sum(int(row) * part for (row, _), part in zip(VELOCITIES, flow, strict=True))
    u = sum(int(column) * part for (_, column), part in zip(VELOCITIES, flow, strict=True))
    return density, v / density, u / density


def step(flow: Any, solid: Any) -> Any:
    """Return the air after one step; `solid` tells where obstacles are."""
    rate = 1 / (3 * VISCOSITY + 0.5)
    settled = flow + rate * (equilibrium(*moments(flow)) - flow)
    bounced = jnp.where(solid > 0, flow[jnp.array(OPPOSITE)], settled)
    moved = [
        jnp.roll(part, (int(row), int(column)), (0, 1))
        for part, (row, column) in zip(bounced, VELOCITIES, strict=True)
    ]
    moved = jnp.stack(moved)
    return jnp.concatenate([start(1), moved[:, :, 1:-1], moved[:, :, -2:-1]], axis=2)


def picture(flow: Any, solid: Any) -> Any:
    """Return the vorticity as pixels: red, green, blue, opacity."""
    _, v, u = moments(flow)
    curl = (jnp.roll(v, -1, 1) - jnp.roll(v, 1, 1)) - (jnp.roll(u, -1, 0) - jnp.roll(u, 1, 0))
    curl = jnp.pad(jnp.clip(12 * curl[:, 1:-1], -1, 1), ((0, 0), (1, 1)))
    red, blue = 1 + jnp.minimum(curl, 0), 1 - jnp.maximum(curl, 0)
    colors = jnp.stack([red, 1 - 0.8 * abs(curl), blue, jnp.ones_like(curl)], axis=-1)
    shown = jnp.where(solid[:, :, None] > 0, jnp.array([0.2, 0.2, 0.25, 1]), colors)
    return (255 * shown + 0.5).astype(jnp.uint8)


def advance(flow: Any, solid: Any) -> tuple[Any, Any]:
    """Return the air after some steps, and its picture."""
    flow = lax.fori_loop(0, STEPS, lambda _, flow: step(flow, solid), flow)
    return flow, picture(flow, solid)


def start(columns: int = COLUMNS) -> Any:
    """Return air that moves evenly to the right."""
    shape = (ROWS, columns)
    return equilibrium(jnp.ones(shape), jnp.zeros(shape), jnp.full(shape, WIND))
