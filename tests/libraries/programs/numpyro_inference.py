"""NumPyro: models sampled by NUTS and HMC, and fitted by variational inference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import HMC, MCMC, NUTS, SVI, Predictive, Trace_ELBO, autoguide, init_to_median
from numpyro.infer.reparam import LocScaleReparam

numpyro.enable_x64()

EFFECTS = np.asarray([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.asarray([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
_random = np.random.RandomState(8)
INPUTS = _random.randn(40, 3)
LABELS = (INPUTS @ np.asarray([1.0, -1.5, 0.5]) + 0.5 * _random.randn(40) > 0).astype(int)
SUMMARY_FROM = 10
"""Draws are returned one by one up to here; of all of them, means and deviations."""


def eight_schools(errors, effects=None):
    """Rubin's model of schools, with the parameters that center it."""
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    deviation = numpyro.sample("deviation", dist.HalfCauchy(5))
    with (
        numpyro.plate("schools", 8),
        numpyro.handlers.reparam(config={"school": LocScaleReparam(0)}),
    ):
        school = numpyro.sample("school", dist.Normal(mean, deviation))
        numpyro.sample("effect", dist.Normal(school, errors), obs=effects)


def regression(inputs, labels=None):
    """Logistic regression."""
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(3), 1).to_event(1))
    bias = numpyro.sample("bias", dist.Normal(0, 1))
    with numpyro.plate("data", len(inputs)):
        numpyro.sample("label", dist.Bernoulli(logits=inputs @ weights + bias), obs=labels)


def drawn(kernel, warmup, samples, *data, chains=1):
    """The first draws, and means and deviations of all."""
    method = "vectorized" if chains > 1 else "parallel"
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=samples,
        num_chains=chains,
        chain_method=method,
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(0), *data, extra_fields=("num_steps", "accept_prob"))
    found = {}
    for name, draws in mcmc.get_samples().items():
        found[f"{name}_first"] = draws[:SUMMARY_FROM]
        found[f"{name}_mean"], found[f"{name}_deviation"] = draws.mean(0), draws.std(0)
    fields = mcmc.get_extra_fields()
    found["steps_first"] = fields["num_steps"][:SUMMARY_FROM]
    found["acceptance_mean"] = fields["accept_prob"].mean()
    return found


def nuts_from_the_start():
    """The first draws of NUTS without adaptation."""
    kernel = NUTS(eight_schools, step_size=0.2, adapt_step_size=False, adapt_mass_matrix=False)
    return drawn(kernel, 0, 10, ERRORS, EFFECTS)


def nuts_after_a_short_adaptation():
    """NUTS after a few steps that adapt its step and its masses."""
    return drawn(NUTS(eight_schools, target_accept_prob=0.95), 40, 20, ERRORS, EFFECTS)


def nuts_on_eight_schools():
    """NUTS after a full adaptation, of which means and deviations are compared."""
    found = drawn(NUTS(eight_schools, target_accept_prob=0.9), 500, 2000, ERRORS, EFFECTS)
    return {name: value for name, value in found.items() if not name.endswith("_first")}


def nuts_in_chains():
    """Two chains of NUTS at once, with dense masses."""
    return drawn(NUTS(regression, dense_mass=True), 60, 60, INPUTS, LABELS, chains=2)


def hmc():
    """Hamiltonian Monte Carlo with a fixed length."""
    return drawn(HMC(regression, trajectory_length=1.0), 60, 60, INPUTS, LABELS)


def variational():
    """Fifty steps of Adam on a normal guide, and draws from it."""
    guide = autoguide.AutoNormal(eight_schools, init_loc_fn=init_to_median)
    svi = SVI(eight_schools, guide, numpyro.optim.Adam(2e-2), Trace_ELBO(num_particles=4))
    found = svi.run(jax.random.PRNGKey(1), 50, ERRORS, EFFECTS, progress_bar=False)
    draws = guide.sample_posterior(
        jax.random.PRNGKey(2), found.params, ERRORS, EFFECTS, sample_shape=(5,)
    )
    predicted = Predictive(eight_schools, guide=guide, params=found.params, num_samples=5)(
        jax.random.PRNGKey(3), ERRORS
    )
    return {
        "losses": found.losses,
        "school": draws["school"],
        "effect": predicted["effect"],
        **found.params,
    }


def variational_multivariate():
    """A multivariate normal guide and one by Laplace's approximation."""
    found = {}
    for kind in (autoguide.AutoMultivariateNormal, autoguide.AutoLaplaceApproximation):
        guide = kind(regression)
        svi = SVI(regression, guide, numpyro.optim.ClippedAdam(2e-2), Trace_ELBO())
        result = svi.run(jax.random.PRNGKey(4), 40, INPUTS, LABELS, progress_bar=False)
        name = kind.__name__
        found[f"{name}_losses"] = result.losses
        found[f"{name}_median"] = guide.median(result.params)["weights"]
    return found


PROGRAMS = {
    program.__name__: program
    for program in (
        nuts_from_the_start,
        nuts_after_a_short_adaptation,
        nuts_on_eight_schools,
        nuts_in_chains,
        hmc,
        variational,
        variational_multivariate,
    )
}
