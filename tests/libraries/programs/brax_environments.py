"""Brax: an environment that is stepped, by its positional and generalized physics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from brax import envs


def _run(name, backend, steps=8):
    env = envs.get_environment(name, backend=backend)

    @jax.jit
    def run(key):
        state = env.reset(key)

        def step(state, action):
            state = env.step(state, action)
            return state, (state.obs, state.reward)

        actions = jnp.sin(jnp.arange(steps * env.action_size, dtype=jnp.float32))
        return jax.lax.scan(step, state, actions.reshape(steps, env.action_size))[1]

    observed, rewards = run(jax.random.PRNGKey(0))
    return {"observed": observed, "rewards": rewards}


def generalized():
    """A pendulum on a cart."""
    return _run("inverted_pendulum", "generalized")


def positional():
    """A reacher."""
    return _run("reacher", "positional")


PROGRAMS = {"generalized": generalized, "positional": positional}
