"""BlackJAX: samplers with and without adaptation on a regression."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import jax.scipy.stats as stats
import numpy as np

jax.config.update("jax_enable_x64", True)

_random = np.random.RandomState(9)
INPUTS = _random.randn(50)
TARGETS = 1.5 * INPUTS - 0.4 + 0.8 * _random.randn(50)
FIRST = 10
"""Draws are returned one by one up to here; of all of them, means and deviations."""


def log_density(position):
    """Linear regression with an unknown deviation."""
    scale = jnp.exp(position["log_scale"])
    mean = position["slope"] * INPUTS + position["offset"]
    prior = sum(stats.norm.logpdf(x, 0.0, 3.0) for x in position.values())
    return prior + stats.norm.logpdf(TARGETS, mean, scale).sum()


START = {"slope": jnp.asarray(0.5), "offset": jnp.asarray(0.0), "log_scale": jnp.asarray(0.3)}


def drawn(algorithm, samples=100, state=None):
    """The first draws, and means and deviations of all."""
    state = algorithm.init(START) if state is None else state

    def step(state, key):
        state, info = algorithm.step(key, state)
        return state, (state.position, info)

    keys = jax.random.split(jax.random.key(1), samples)
    _, (positions, info) = jax.jit(lambda state: jax.lax.scan(step, state, keys))(state)
    draws = jnp.stack([positions[name] for name in sorted(positions)], -1)
    found = {"first": draws[:FIRST], "mean": draws.mean(0), "deviation": draws.std(0)}
    for name in ("num_integration_steps", "is_accepted"):
        if hasattr(info, name):
            found[f"{name}_first"] = getattr(info, name)[:FIRST]
    return found


def window_adaptation():
    """NUTS after Stan's adaptation in windows: parameters, and draws with them."""
    warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = warmup.run(jax.random.key(0), START, num_steps=150)
    found = drawn(blackjax.nuts(log_density, **parameters), state=state)
    found["step_size"] = parameters["step_size"]
    found["masses"] = parameters["inverse_mass_matrix"]
    return found


def nuts():
    """NUTS with given masses."""
    return drawn(blackjax.nuts(log_density, 0.1, jnp.asarray([0.5, 0.5, 0.2])))


def hmc():
    """Hamiltonian Monte Carlo with a fixed number of steps."""
    return drawn(blackjax.hmc(log_density, 0.05, jnp.ones(3), 8))


def mala():
    """Langevin's algorithm with Metropolis's correction."""
    return drawn(blackjax.mala(log_density, 5e-3))


def random_walk():
    """Metropolis's algorithm with normal steps."""
    return drawn(
        blackjax.additive_step_random_walk.normal_random_walk(log_density, 0.1 * jnp.ones(3))
    )


def elliptical():
    """Slice sampling on ellipses."""

    def likelihood(position):
        mean = position[0] * INPUTS + position[1]
        return stats.norm.logpdf(TARGETS, mean, 0.8).sum()

    algorithm = blackjax.elliptical_slice(likelihood, mean=jnp.zeros(2), cov=9.0 * jnp.eye(2))
    state = algorithm.init(jnp.zeros(2))
    keys = jax.random.split(jax.random.key(2), 30)
    step = jax.jit(lambda state, key: algorithm.step(key, state)[0])
    draws = []
    for key in keys:
        state = step(state, key)
        draws.append(state.position)
    return {"draws": jnp.stack(draws)}


def tempered():
    """Sequential Monte Carlo along tempered densities, with adaptive temperatures."""
    algorithm = blackjax.adaptive_tempered_smc(
        lambda x: stats.norm.logpdf(x, 0.0, 3.0).sum(),
        lambda x: stats.norm.logpdf(TARGETS, x[0] * INPUTS + x[1], 0.8).sum(),
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        {
            "step_size": jnp.full((1,), 0.05),
            "inverse_mass_matrix": jnp.eye(2)[None],
            "num_integration_steps": jnp.full((1,), 5),
        },
        blackjax.smc.resampling.systematic,
        target_ess=0.5,
        num_mcmc_steps=2,
    )
    particles = 3 * jax.random.normal(jax.random.key(3), (40, 2))
    state = algorithm.init(particles)
    step = jax.jit(lambda key, state: algorithm.step(key, state)[0])
    temperatures = []
    for i in range(4):
        state = step(jax.random.key(i), state)
        temperatures.append(state.tempering_param)
    return {"temperatures": jnp.stack(temperatures), "particles": state.particles}


PROGRAMS = {
    program.__name__: program
    for program in (window_adaptation, nuts, hmc, mala, random_walk, elliptical, tempered)
}
