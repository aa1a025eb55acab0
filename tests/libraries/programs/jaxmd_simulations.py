"""JAX MD: particles that attract and repel."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax_md import energy, minimize, simulate, space

_random = np.random.RandomState(8)
BOX = 6.0
R = (_random.rand(32, 2) * BOX).astype(np.float32)


def minimum():
    """Soft spheres come to rest."""
    displacement, shift = space.periodic(BOX)
    of = energy.soft_sphere_pair(displacement)
    start, apply = minimize.fire_descent(of, shift)
    state = start(jnp.asarray(R))
    energies = []
    for _ in range(20):
        state = jax.jit(apply)(state)
        energies.append(of(state.position))
    return {"energies": jnp.stack(energies), "position": state.position}


def constant_energy():
    """Lennard-Jones particles from a lattice, with velocities."""
    displacement, shift = space.periodic(BOX)
    of = energy.lennard_jones_pair(displacement, sigma=0.8)
    grid = np.stack(np.meshgrid(*[np.arange(5) * BOX / 5] * 2), -1).reshape(-1, 2)
    start, apply = simulate.nve(of, shift, 1e-3)
    state = start(jax.random.PRNGKey(0), jnp.asarray(grid, jnp.float32), kT=0.1)

    @jax.jit
    def run(state):
        return jax.lax.fori_loop(0, 50, lambda i, s: apply(s), state)

    state = run(state)
    return {"position": state.position, "energy": of(state.position), "momentum": state.momentum}


def neighbors():
    """A list of neighbors, and forces by it."""
    displacement, _ = space.periodic(BOX)
    made, of = energy.soft_sphere_neighbor_list(displacement, BOX, sigma=1.0)
    found = made.allocate(jnp.asarray(R))
    forces = jax.jit(lambda r, n: -jax.grad(of)(r, neighbor=n))(jnp.asarray(R), found)
    return {"forces": forces, "energy": of(jnp.asarray(R), neighbor=found)}


PROGRAMS = {
    "minimum": minimum,
    "constant_energy": constant_energy,
    "neighbors": neighbors,
}
