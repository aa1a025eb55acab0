"""Haiku: transformed functions with parameters, state and keys."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

_random = np.random.RandomState(4)
IMAGES = _random.randn(8, 10, 10, 2).astype(np.float32)
LABELS = _random.randint(0, 3, 8)
SEQUENCES = _random.randn(7, 4, 5).astype(np.float32)


def flat(tree):
    """All numbers of a tree as one array."""
    return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(tree)])


def train(function, *inputs, optimizer=None, steps=5):
    """Losses, parameters and state after a few steps, of Adam if nothing else is said."""
    transformed = hk.transform_with_state(function)
    params, state = transformed.init(jax.random.PRNGKey(0), *inputs)
    optimizer = optimizer or optax.adam(1e-2)

    @jax.jit
    def step(params, state, memory, key):
        def loss(params):
            return transformed.apply(params, state, key, *inputs)

        (value, found), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, memory = optimizer.update(grads, memory)
        return optax.apply_updates(params, updates), found, memory, value

    memory, found = optimizer.init(params), []
    for i in range(steps):
        params, state, memory, value = step(params, state, memory, jax.random.PRNGKey(i))
        found.append(value)
    answer = {"losses": jnp.stack(found), "parameters": flat(params)}
    return answer | ({"state": flat(state)} if jax.tree.leaves(state) else {})


def perceptron():
    """hk.nets.MLP with dropout."""

    def loss(x):
        net = hk.nets.MLP([16, 8, 3])
        logits = net(x.reshape(8, -1), dropout_rate=0.2, rng=hk.next_rng_key())
        return optax.softmax_cross_entropy_with_integer_labels(logits, LABELS).mean()

    return train(loss, IMAGES)


def convolutional():
    """Convolutions with BatchNorm, whose averages are state."""

    def loss(x):
        x = hk.Conv2D(6, 3, with_bias=False)(x)
        x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training=True))
        x = hk.avg_pool(x, 2, 2, "SAME")
        x = hk.dropout(hk.next_rng_key(), 0.3, hk.Flatten()(x))
        logits = hk.Linear(3)(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, LABELS).mean()

    return train(loss, IMAGES)


def recurrent():
    """An LSTM over a GRU along a sequence."""

    def loss(x):
        core = hk.DeepRNN([hk.LSTM(6), jax.nn.tanh, hk.GRU(5)])
        found, _ = hk.dynamic_unroll(core, x, core.initial_state(4))
        return jnp.mean((hk.BatchApply(hk.Linear(1))(found) - x.mean(-1, keepdims=True)) ** 2)

    return train(loss, SEQUENCES)


def scanned_layers():
    """Layers with stacked parameters, each recomputed in the backward pass."""

    def layer(x):
        norm = hk.LayerNorm(-1, create_scale=True, create_offset=True)
        return x + jax.nn.gelu(hk.Linear(5)(norm(x)))

    def loss(x):
        x = hk.experimental.layer_stack(3)(hk.remat(layer))(x)
        return jnp.mean(x**2)

    return train(loss, SEQUENCES)


def attention():
    """Attention of a learnt table over a sequence."""

    def loss(x):
        table = hk.Embed(4, 5)(jnp.arange(4))
        attend = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling(1.0))
        found = attend(jnp.broadcast_to(table, (7, 4, 5)), x, x)
        return jnp.mean(found**2)

    # A bias of the keys changes nothing: Adam would make its rounding errors large.
    return train(loss, SEQUENCES, optimizer=optax.sgd(1e-1, momentum=0.9))


PROGRAMS = {
    program.__name__: program
    for program in (perceptron, convolutional, recurrent, scanned_layers, attention)
}
