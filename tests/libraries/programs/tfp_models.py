"""TensorFlow Probability on JAX: distributions, bijectors, chains of NUTS and HMC."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from tensorflow_probability.substrates import jax as tfp

tfd, tfb, mcmc = tfp.distributions, tfp.bijectors, tfp.mcmc
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12], np.float32)
DEVIATIONS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18], np.float32)


def distributions():
    """Samples and densities."""
    key = jax.random.PRNGKey(0)
    location, scale = jnp.asarray([0.0, 1.0, -2.0]), jnp.asarray([1.0, 0.5, 2.0])
    made = {
        "normal": tfd.Normal(location, scale),
        "student": tfd.StudentT(4.0, location, scale),
        "gamma": tfd.Gamma(scale, 1.5),
        "beta": tfd.Beta(scale, 1.5),
        "poisson": tfd.Poisson(scale),
        "categorical": tfd.Categorical(logits=location),
        "dirichlet": tfd.Dirichlet(scale),
        "von_mises": tfd.VonMises(location, scale),
        "multivariate": tfd.MultivariateNormalTriL(
            location, jnp.tril(jnp.outer(scale, scale)) + jnp.eye(3)
        ),
        "wishart": tfd.WishartTriL(5.0, jnp.eye(3)),
        "mixture": tfd.MixtureSameFamily(
            tfd.Categorical(logits=location), tfd.Normal(location, scale)
        ),
    }
    found = {}
    for name, distribution in made.items():
        sample = distribution.sample(4, seed=key)
        found[f"{name}_sample"] = sample
        found[f"{name}_density"] = distribution.log_prob(sample)
    found["divergence"] = tfd.kl_divergence(made["normal"], tfd.Normal(0.0, 1.0))
    return found


def bijectors():
    """Forth, back, and the volumes."""
    x = jnp.linspace(-1.5, 2.0, 6)
    made = {
        "softplus": tfb.Softplus(),
        "sinh": tfb.SinhArcsinh(0.3, 1.2),
        "chain": tfb.Chain([tfb.Shift(0.5), tfb.Scale(2.0), tfb.Tanh()]),
        "simplex": tfb.SoftmaxCentered(),
        "cholesky": tfb.CorrelationCholesky(),
    }
    found = {}
    for name, bijector in made.items():
        y = bijector.forward(x)
        found[f"{name}_forward"], found[f"{name}_back"] = y, bijector.inverse(y)
        found[f"{name}_volume"] = bijector.forward_log_det_jacobian(x, event_ndims=1)
    return found


def _schools():
    return tfd.JointDistributionSequential(
        [
            tfd.Normal(0.0, 5.0),
            tfd.LogNormal(1.0, 0.5),
            tfd.Sample(tfd.Normal(0.0, 1.0), 8),
            lambda z, tau, mu: tfd.Independent(
                tfd.Normal(mu[..., None] + tau[..., None] * z, DEVIATIONS), 1
            ),
        ]
    )


def _chain(kernel, steps):
    start = [jnp.zeros(()), jnp.ones(()), jnp.zeros(8)]
    draws, traced = mcmc.sample_chain(
        steps,
        current_state=start,
        kernel=kernel,
        num_burnin_steps=0,
        trace_fn=lambda _, results: results,
        seed=jax.random.PRNGKey(4),
    )
    return draws, traced


def _target(mu, tau, z):
    return _schools().log_prob((mu, tau, z, EFFECTS))


BIJECTORS = [tfb.Identity(), tfb.Exp(), tfb.Identity()]


def nuts():
    """The first draws of NUTS on eight schools."""
    kernel = mcmc.TransformedTransitionKernel(
        mcmc.NoUTurnSampler(_target, step_size=0.2, max_tree_depth=5), BIJECTORS
    )
    draws, traced = jax.jit(lambda: _chain(kernel, 12))()
    inner = traced.inner_results
    return {
        "mu": draws[0],
        "tau": draws[1],
        "z": draws[2],
        "leapfrogs": inner.leapfrogs_taken,
        "density": inner.target_log_prob,
    }


def hmc():
    """HMC whose steps adapt."""
    kernel = mcmc.SimpleStepSizeAdaptation(
        mcmc.TransformedTransitionKernel(
            mcmc.HamiltonianMonteCarlo(_target, step_size=0.1, num_leapfrog_steps=4), BIJECTORS
        ),
        num_adaptation_steps=8,
    )
    draws, traced = jax.jit(lambda: _chain(kernel, 12))()
    return {"mu": draws[0], "tau": draws[1], "step": traced.new_step_size}


def process():
    """A Gaussian process: density, gradient, and what it predicts."""
    x = np.linspace(-1, 1, 12)[:, None].astype(np.float32)
    y = np.sin(3 * x[:, 0])

    def loss(parameters):
        kernel = tfp.math.psd_kernels.ExponentiatedQuadratic(*jnp.exp(parameters[:2]))
        prior = tfd.GaussianProcess(kernel, x, observation_noise_variance=jnp.exp(parameters[2]))
        return -prior.log_prob(y)

    start = jnp.asarray([0.0, -0.5, -2.0])
    value, gradient = jax.jit(jax.value_and_grad(loss))(start)
    kernel = tfp.math.psd_kernels.MaternFiveHalves(1.0, 0.5)
    after = tfd.GaussianProcessRegressionModel(
        kernel,
        x + 0.05,
        observation_index_points=x,
        observations=y,
        observation_noise_variance=0.01,
    )
    return {"value": value, "gradient": gradient, "mean": after.mean(), "spread": after.stddev()}


PROGRAMS = {
    "distributions": distributions,
    "bijectors": bijectors,
    "nuts": nuts,
    "hmc": hmc,
    "process": process,
}
