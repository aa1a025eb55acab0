"""Penzai: named axes, a transformer, and its training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from penzai import pz
from penzai.models import simple_mlp
from penzai.toolshed import basic_training

_random = np.random.RandomState(1)
X = _random.randn(16, 3).astype(np.float32)


def names():
    """Arithmetic over named axes."""
    x = pz.nx.wrap(jnp.asarray(X), "batch", "features")
    y = pz.nx.wrap(jnp.arange(3.0), "features")
    z = pz.nx.nmap(jnp.tanh)(x * y + 1.0)
    total = z.untag("features")
    summed = pz.nx.nmap(jnp.sum)(total)
    return {"all": z.unwrap("batch", "features"), "sums": summed.unwrap("batch")}


def perceptron():
    """Trained by Adam, parameters bound and unbound."""
    model = simple_mlp.MLP.from_config(
        name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[3, 16, 1]
    )
    x = pz.nx.wrap(jnp.asarray(X)).tag("batch", "features")

    def loss(model, rng, state, **_):
        found = model(x).unwrap("batch", "features")
        value = jnp.mean((found[:, 0] - X.sum(1)) ** 2)
        return value, state, {"loss": value}

    trainer = basic_training.StatefulTrainer.build(
        root_rng=jax.random.key(2),
        model=model,
        optimizer_def=optax.adam(1e-2),
        loss_fn=loss,
        initial_loss_fn_state=None,
    )
    losses = [trainer.step()["loss"] for _ in range(5)]
    return {"losses": jnp.stack(losses)}


PROGRAMS = {"names": names, "perceptron": perceptron}
