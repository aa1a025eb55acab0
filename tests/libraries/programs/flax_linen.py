"""Modules of flax.linen: training with collections and dropout, and its transformations."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state

_random = np.random.RandomState(1)
IMAGES = _random.randn(16, 12, 12, 1).astype(np.float32)
LABELS = _random.randint(0, 4, 16)
SEQUENCES = _random.randn(4, 7, 5).astype(np.float32)


def flat(tree):
    """All numbers of a tree as one array."""
    return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(tree)])


class CNN(nn.Module):
    """A convolutional network."""

    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Conv(8, (3, 3), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = nn.Conv(8, (3, 3), strides=2)(x)
        x = nn.max_pool(nn.gelu(x), (2, 2), (1, 1))
        x = x.reshape(x.shape[0], -1)
        x = nn.Dropout(0.3, deterministic=not train)(nn.relu(nn.Dense(16)(x)))
        return nn.Dense(4)(x)


class State(train_state.TrainState):
    """Parameters and running statistics."""

    batch_stats: Any


def cnn():
    """Six steps of Adam with BatchNorm and Dropout, then the network as it is used."""
    variables = CNN().init(jax.random.key(0), IMAGES, train=False)
    state = State.create(
        apply_fn=CNN().apply,
        params=variables["params"],
        batch_stats=variables["batch_stats"],
        tx=optax.adam(3e-3),
    )

    @jax.jit
    def step(state, key):
        def loss(params):
            logits, updates = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats},
                IMAGES,
                train=True,
                rngs={"dropout": key},
                mutable=["batch_stats"],
            )
            found = optax.softmax_cross_entropy_with_integer_labels(logits, LABELS)
            return found.mean(), updates

        (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        state = state.apply_gradients(grads=grads)
        return state.replace(batch_stats=updates["batch_stats"]), value

    found = []
    for i in range(6):
        state, value = step(state, jax.random.fold_in(jax.random.key(1), i))
        found.append(value)
    trained = {"params": state.params, "batch_stats": state.batch_stats}
    return {
        "losses": jnp.stack(found),
        "parameters": flat(state.params),
        "batch_stats": flat(state.batch_stats),
        "logits": CNN().apply(trained, IMAGES, train=False),
    }


class Recurrent(nn.Module):
    """A cell of LSTM along the second axis by nn.scan."""

    features: int

    @nn.compact
    def __call__(self, x):
        scan = nn.scan(
            nn.OptimizedLSTMCell,
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=1,
            out_axes=1,
        )
        cell = scan(self.features)
        carry = cell.initialize_carry(jax.random.key(0), x[:, 0].shape)
        _, hidden = cell(carry, x)
        return nn.Dense(1)(hidden)


def descend(module, inputs, steps=5, start=None, **rngs):
    """Losses and parameters of plain descent towards the running sum of the inputs' mean."""
    targets = jnp.cumsum(inputs.mean(-1, keepdims=True), axis=1)
    variables = (start or module).init({"params": jax.random.key(2), **rngs}, inputs)

    @jax.jit
    def step(params):
        def loss(params):
            found = module.apply({"params": params}, inputs, rngs=rngs)
            return jnp.mean((found - targets) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    params, found = variables["params"], []
    for _ in range(steps):
        params, value = step(params)
        found.append(value)
    return {"losses": jnp.stack(found), "parameters": flat(params)}


def recurrent_by_scan():
    """An LSTM that nn.scan runs along a sequence."""
    return descend(Recurrent(6), SEQUENCES)


class Bidirectional(nn.Module):
    """Layers of Flax's own RNN."""

    @nn.compact
    def __call__(self, x):
        forward, backward = nn.RNN(nn.GRUCell(4)), nn.RNN(nn.SimpleCell(4))
        x = nn.Bidirectional(forward, backward)(x, seq_lengths=jnp.asarray([7, 5, 3, 6]))
        return nn.Dense(1)(nn.LayerNorm()(x))


def recurrent_in_both_directions():
    """Cells along sequences of several lengths, from both ends."""
    return descend(Bidirectional(), SEQUENCES)


class Block(nn.Module):
    """A residual block."""

    features: int

    @nn.compact
    def __call__(self, x):
        hidden = nn.tanh(nn.Dense(2 * self.features)(nn.RMSNorm()(x)))
        return x + nn.Dense(self.features)(hidden)


class Layers(nn.Module):
    """Blocks under a transformation."""

    block: Any

    @nn.compact
    def __call__(self, x):
        for i in range(3):
            x = self.block(5, name=f"block{i}")(x)
        return nn.Dense(1)(x)


def jitted_modules():
    """Blocks under nn.jit, from the parameters of blocks without it."""
    return descend(Layers(nn.jit(Block)), SEQUENCES, start=Layers(Block))


def jitted_initialization():
    """Blocks under nn.jit, which Flax starts from parameters of their own."""
    return descend(Layers(nn.jit(Block)), SEQUENCES)


def checkpointed_modules():
    """Blocks under nn.remat."""
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return descend(Layers(nn.remat(Block, policy=policy)), SEQUENCES)


class Stacked(nn.Module):
    """The same blocks as one loop over stacked parameters, with dropout."""

    @nn.compact
    def __call__(self, x):
        class Step(nn.Module):
            @nn.compact
            def __call__(self, x, _):
                x = nn.remat(Block)(5)(x)
                return nn.Dropout(0.1, deterministic=False)(x), None

        loop = nn.scan(
            Step,
            variable_axes={"params": 0},
            split_rngs={"params": True, "dropout": True},
            length=3,
        )
        x, _ = loop()(x, None)
        return nn.Dense(1)(x)


def scanned_layers():
    """A loop over layers, each recomputed in the backward pass."""
    return descend(Stacked(), SEQUENCES, dropout=jax.random.key(9))


class Attention(nn.Module):
    """Causal attention with several heads."""

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(8)(x)
        mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
        x = x + nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x), mask=mask)
        return nn.Dense(1)(x)


def attention():
    """Attention in a residual layer."""
    return descend(Attention(), SEQUENCES)


def ensemble_by_vmap():
    """Members with parameters of their own under nn.vmap."""
    members = nn.vmap(
        nn.Dense,
        variable_axes={"params": 0},
        split_rngs={"params": True},
        in_axes=None,
        axis_size=3,
    )
    found, variables = members(2).init_with_output(jax.random.key(4), SEQUENCES[0])
    return {"output": found, "parameters": flat(variables)}


PROGRAMS = {
    program.__name__: program
    for program in (
        cnn,
        recurrent_by_scan,
        recurrent_in_both_directions,
        jitted_modules,
        jitted_initialization,
        checkpointed_modules,
        scanned_layers,
        attention,
        ensemble_by_vmap,
    )
}
