"""Equinox: modules trained with filtered transformations, and the gradients of its loops."""

from __future__ import annotations

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import optax

_random = np.random.RandomState(2)
INPUTS = _random.randn(24, 3).astype(np.float32)
TARGETS = np.stack([INPUTS.sum(1), INPUTS.prod(1)], 1).astype(np.float32)


def flat(tree):
    """All arrays of floats in a tree as one array."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.concatenate([jnp.ravel(x) for x in leaves])


def mlp():
    """Ten steps of AdamW on a perceptron."""
    model = eqx.nn.MLP(3, 2, width_size=16, depth=2, key=jax.random.key(0))
    optimizer = optax.adamw(1e-2)

    @eqx.filter_value_and_grad
    def loss(model):
        return jnp.mean((jax.vmap(model)(INPUTS) - TARGETS) ** 2)

    @eqx.filter_jit
    def step(model, state):
        value, grads = loss(model)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state, value

    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    found = []
    for _ in range(10):
        model, state, value = step(model, state)
        found.append(value)
    return {"losses": jnp.stack(found), "parameters": flat(model)}


class Convolutional(eqx.Module):
    """Layers with a state and with dropout."""

    first: eqx.nn.Conv2d
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        first, last = jax.random.split(key)
        self.first = eqx.nn.Conv2d(1, 4, 3, key=first)
        self.norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="batch")
        self.last = eqx.nn.Linear(4 * 6 * 6, 3, key=last)
        self.dropout = eqx.nn.Dropout(0.2)

    def __call__(self, x, state, key):
        x, state = self.norm(self.first(x), state)
        return self.last(self.dropout(jax.nn.relu(x).ravel(), key=key)), state


def stateful_layers():
    """BatchNorm by a named axis, and what its state becomes."""
    model, state = eqx.nn.make_with_state(Convolutional)(jax.random.key(1))
    images = jnp.asarray(_images())
    keys = jax.random.split(jax.random.key(2), len(images))

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def loss(model, state):
        batched = jax.vmap(model, axis_name="batch", in_axes=(0, None, 0), out_axes=(0, None))
        found, state = batched(images, state, keys)
        return jnp.mean(jax.nn.logsumexp(found, axis=-1)), state

    found = []
    for _ in range(3):
        (value, state), grads = loss(model, state)
        model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads))
        found.append(value)
    return {"losses": jnp.stack(found), "parameters": flat(model), "state": flat(state)}


def _images():
    return np.random.RandomState(3).randn(6, 1, 8, 8).astype(np.float32)


def recurrent():
    """The gradient of a GRU along a sequence."""
    cell = eqx.nn.GRUCell(3, 5, key=jax.random.key(3))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(cell):
        last, _ = jax.lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(5), INPUTS)
        return jnp.sum(last**2)

    value, grads = loss(cell)
    return {"value": value, "gradient": flat(grads)}


def _iterate(kind):
    def loss(x, matrix):
        def body(carry):
            i, x = carry
            return i + 1, jnp.tanh(matrix @ x) + 0.1 * jnp.sin(i + x)

        checkpoints = 4 if kind == "checkpointed" else None
        _, x = eqxi.while_loop(
            lambda carry: (carry[0] < 40) & (jnp.sum(carry[1] ** 2) < 1e3),
            body,
            (jnp.asarray(0), x),
            kind=kind,
            max_steps=64,
            checkpoints=checkpoints,
        )
        return jnp.sum(x * jnp.arange(3.0))

    matrix = jnp.asarray(0.9 * np.linalg.qr(INPUTS[:3])[0])
    value, grads = jax.jit(jax.value_and_grad(loss, (0, 1)))(jnp.asarray(INPUTS[0]), matrix)
    return {"value": value, "of_start": grads[0], "of_matrix": grads[1]}


def checkpointed_while_loop():
    """The gradient through a loop of unknown length that keeps four checkpoints."""
    return _iterate("checkpointed")


def bounded_while_loop():
    """The gradient through a loop of bounded length."""
    return _iterate("bounded")


def checkpointed_scan():
    """The gradient of a scan that keeps checkpoints."""

    def loss(weights, xs):
        def body(carry, x):
            carry = jnp.tanh(weights @ carry + x)
            return carry, carry[0]

        last, firsts = eqxi.scan(body, jnp.ones(3), xs, kind="checkpointed", checkpoints=3)
        return last.sum() + firsts @ firsts

    weights = jnp.asarray(INPUTS[3:6])
    value, grads = jax.jit(jax.value_and_grad(loss, (0, 1)))(weights, jnp.asarray(INPUTS))
    return {"value": value, "of_weights": grads[0], "of_inputs": grads[1]}


def ensemble():
    """Members made and evaluated by filter_vmap; a derivative along one direction."""

    @eqx.filter_vmap
    def make(key):
        return eqx.nn.MLP(3, 2, 4, 1, activation=jax.nn.silu, key=key)

    members = make(jax.random.split(jax.random.key(5), 4))
    evaluate = eqx.filter_vmap(lambda model, x: model(x), in_axes=(eqx.if_array(0), None))
    x = jnp.asarray(INPUTS[0])
    value, tangent = eqx.filter_jvp(lambda x: evaluate(members, x), (x,), (jnp.ones(3),))
    jacobian = eqx.filter_jacrev(lambda x: evaluate(members, x))(x)
    return {"value": value, "tangent": tangent, "jacobian": jacobian}


def attention():
    """Attention with rotated queries and keys, and layers that normalize."""
    keys = jax.random.split(jax.random.key(6), 2)
    layer = eqx.nn.MultiheadAttention(2, 8, key=keys[0])
    rotate = eqx.nn.RotaryPositionalEmbedding(4)
    norm = eqx.nn.LayerNorm(8)
    x = jax.random.normal(keys[1], (5, 8))

    def turned(q, k, v):
        turn = jax.vmap(rotate, in_axes=1, out_axes=1)
        return turn(q), turn(k), v

    @eqx.filter_jit
    def run(layer, x):
        x = jax.vmap(norm)(x)
        return layer(x, x, x, mask=jnp.tril(jnp.ones((5, 5), bool)), process_heads=turned)

    grads = eqx.filter_grad(lambda layer: jnp.sum(run(layer, x) ** 2))(layer)
    return {"value": run(layer, x), "gradient": flat(grads)}


PROGRAMS = {
    program.__name__: program
    for program in (
        mlp,
        stateful_layers,
        recurrent,
        checkpointed_while_loop,
        bounded_while_loop,
        checkpointed_scan,
        ensemble,
        attention,
    )
}
