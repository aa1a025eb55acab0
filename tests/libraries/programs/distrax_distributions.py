"""Distrax: samples, densities, bijectors, and a flow that is trained."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import optax

_random = np.random.RandomState(7)
POINTS = (_random.randn(32, 2) @ np.asarray([[1.0, 0.6], [0.0, 0.5]]) + 1).astype(np.float32)


def distributions():
    """Samples with their densities, entropies and divergences."""
    key = jax.random.PRNGKey(0)
    location, scale = jnp.asarray([0.0, 1.0, -2.0]), jnp.asarray([1.0, 0.5, 2.0])
    logits = jnp.asarray([[0.1, -1.0, 2.0], [1.0, 0.0, -1.0]])
    made = {
        "normal": distrax.Normal(location, scale),
        "laplace": distrax.Laplace(location, scale),
        "logistic": distrax.Logistic(location, scale),
        "gumbel": distrax.Gumbel(location, scale),
        "gamma": distrax.Gamma(scale, 1.5),
        "beta": distrax.Beta(scale, 1.5),
        "uniform": distrax.Uniform(location, location + scale),
        "categorical": distrax.Categorical(logits=logits),
        "bernoulli": distrax.Bernoulli(logits=logits),
        "dirichlet": distrax.Dirichlet(scale),
        "multivariate": distrax.MultivariateNormalTri(location, jnp.tril(jnp.outer(scale, scale))),
        "mixture": distrax.MixtureSameFamily(
            distrax.Categorical(logits=location), distrax.Normal(location, scale)
        ),
        "log_normal": distrax.Transformed(distrax.Normal(location, scale), lambda x: jnp.exp(x)),
    }
    found = {}
    for name, distribution in made.items():
        sample, density = distribution.sample_and_log_prob(seed=key, sample_shape=(5,))
        found[f"{name}_sample"], found[f"{name}_density"] = sample, density
    for name in ("normal", "gamma", "categorical", "multivariate"):
        found[f"{name}_entropy"] = made[name].entropy()
    found["divergence"] = made["normal"].kl_divergence(distrax.Normal(0.0, 1.0))
    return found


def bijectors():
    """Bijectors forth and back, with their volumes."""
    x = jnp.linspace(-1.5, 2.0, 8).reshape(2, 4)
    knots = jax.random.normal(jax.random.PRNGKey(1), (3 * 5 + 1,))
    made = {
        "chain": distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.3, 0.7)]),
        "spline": distrax.RationalQuadraticSpline(knots, -3.0, 3.0),
        "affine": distrax.Block(distrax.ScalarAffine(1.0, 2.0), 1),
        "triangular": distrax.LowerUpperTriangularAffine(
            jnp.ones((4, 4)) + 2 * jnp.eye(4), jnp.arange(4.0)
        ),
    }
    found = {}
    for name, bijector in made.items():
        y, volume = bijector.forward_and_log_det(x)
        found |= {name: y, f"{name}_volume": volume, f"{name}_inverse": bijector.inverse(y)}
    return found


def hidden_markov_model():
    """The posterior and most probable path of a hidden Markov model."""
    model = distrax.HMM(
        distrax.Categorical(probs=jnp.asarray([0.6, 0.4])),
        distrax.Categorical(probs=jnp.asarray([[0.8, 0.2], [0.3, 0.7]])),
        distrax.Normal(jnp.asarray([-1.0, 1.0]), jnp.ones(2)),
    )
    states, observed = model.sample(seed=jax.random.PRNGKey(2), seq_len=12)
    _, _, posterior, evidence = model.forward_backward(observed)
    return {
        "states": states,
        "observed": observed,
        "posterior": posterior,
        "evidence": evidence,
        "path": model.viterbi(observed),
    }


def flow():
    """Ten steps of Adam on a flow of coupling layers."""

    def made(params):
        def conditioner(params):
            return lambda x: jnp.tanh(x @ params["in"]) @ params["out"]

        def bijector(values):
            shift, scale = jnp.split(values, 2, axis=-1)
            return distrax.ScalarAffine(shift, log_scale=scale)

        layers = [
            distrax.MaskedCoupling(jnp.asarray([i % 2, 1 - i % 2], bool), conditioner(p), bijector)
            for i, p in enumerate(params)
        ]
        base = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
        return distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))

    def loss(params):
        return -made(params).log_prob(POINTS).mean()

    keys = jax.random.split(jax.random.PRNGKey(3), 4)
    params = [
        {"in": jax.random.normal(key, (2, 8)), "out": 0.1 * jax.random.normal(key, (8, 4))}
        for key in keys
    ]
    optimizer = optax.adam(1e-2)

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    state, found = optimizer.init(params), []
    for _ in range(10):
        params, state, value = step(params, state)
        found.append(value)
    sample = made(params).sample(seed=jax.random.PRNGKey(4), sample_shape=4)
    return {"losses": jnp.stack(found), "sample": sample}


PROGRAMS = {
    program.__name__: program for program in (distributions, bijectors, hidden_markov_model, flow)
}
