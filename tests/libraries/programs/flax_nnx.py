"""Modules of flax.nnx: training with state and dropout, and the transformations of modules."""

from __future__ import annotations

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

_random = np.random.RandomState(3)
IMAGES = _random.randn(16, 12, 12, 1).astype(np.float32)
LABELS = _random.randint(0, 4, 16)
SEQUENCES = _random.randn(4, 7, 6).astype(np.float32)
TOKENS = _random.randint(0, 11, (4, 7))


def flat(tree):
    """All numbers of a tree as one array; keys of random numbers are not among them."""
    leaves = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.concatenate([jnp.ravel(x) for x in leaves])


class CNN(nnx.Module):
    """A convolutional network that counts its calls."""

    def __init__(self, rngs: nnx.Rngs):
        self.conv1 = nnx.Conv(1, 8, (3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(8, momentum=0.9, rngs=rngs)
        self.conv2 = nnx.Conv(8, 8, (3, 3), strides=2, rngs=rngs)
        self.hidden = nnx.Linear(32, 16, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.out = nnx.Linear(16, 4, rngs=rngs)
        self.calls = nnx.Variable(jnp.array(0))

    def __call__(self, x):
        self.calls[...] += 1
        x = nnx.relu(self.norm(self.conv1(x)))
        x = nnx.avg_pool(x, (2, 2), strides=(2, 2))
        x = nnx.max_pool(nnx.gelu(self.conv2(x)), (2, 2), strides=(1, 1))
        x = self.dropout(nnx.relu(self.hidden(x.reshape(x.shape[0], -1))))
        return self.out(x)


def cnn():
    """Six steps of Adam with BatchNorm, Dropout and metrics, then the network as it is used."""
    model = CNN(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(3e-3), wrt=nnx.Param)
    metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())

    @nnx.jit
    def step(model, optimizer, metrics):
        def loss(model):
            logits = model(IMAGES)
            found = optax.softmax_cross_entropy_with_integer_labels(logits, LABELS)
            return found.mean(), logits

        (value, logits), grads = nnx.value_and_grad(loss, has_aux=True)(model)
        optimizer.update(model, grads)
        metrics.update(loss=value, logits=logits, labels=LABELS)
        return value

    model.train()
    losses = jnp.stack([step(model, optimizer, metrics) for _ in range(6)])
    model.eval()
    return {
        "losses": losses,
        "parameters": flat(nnx.state(model, nnx.Param)),
        "batch_stats": flat(nnx.state(model, nnx.BatchStat)),
        "logits": model(IMAGES),
        "calls": model.calls[...],
        "loss": metrics.compute()["loss"],
        "accuracy": metrics.compute()["accuracy"],
        "steps": optimizer.step[...],
    }


class Attention(nnx.Module):
    """A block of a transformer."""

    def __init__(self, rngs: nnx.Rngs):
        self.embed = nnx.Embed(11, 8, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 8, 16, decode=False, rngs=rngs)
        self.scale = nnx.RMSNorm(8, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        mask = nnx.make_causal_mask(tokens)
        return self.embed.attend(self.scale(x + self.attention(self.norm(x), mask=mask)))


def attention():
    """Five steps of descent of a causal language model."""
    model = Attention(nnx.Rngs(1))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        def loss(model):
            found = model(TOKENS)[:, :-1]
            return optax.softmax_cross_entropy_with_integer_labels(found, TOKENS[:, 1:]).mean()

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return value

    losses = jnp.stack([step(model, optimizer) for _ in range(5)])
    return {"losses": losses, "parameters": flat(nnx.state(model)), "logits": model(TOKENS)}


def recurrent():
    """Cells along sequences, one way and both; losses and gradients."""
    found = {}
    cells = [nnx.LSTMCell, nnx.OptimizedLSTMCell, nnx.GRUCell, nnx.SimpleCell]
    for number, cell in enumerate(cells):
        rnn = nnx.RNN(cell(6, 5, rngs=nnx.Rngs(number)))
        value, grads = nnx.value_and_grad(lambda rnn: (rnn(SEQUENCES) ** 2).mean())(rnn)
        found[cell.__name__] = jnp.append(flat(grads), value)
    both = nnx.Bidirectional(
        nnx.RNN(nnx.GRUCell(6, 5, rngs=nnx.Rngs(7))), nnx.RNN(nnx.GRUCell(6, 5, rngs=nnx.Rngs(8)))
    )
    return {**found, "both": both(SEQUENCES)}


class Block(nnx.Module):
    """One of many layers."""

    def __init__(self, rngs: nnx.Rngs):
        self.linear = nnx.Linear(6, 6, rngs=rngs)
        self.norm = nnx.GroupNorm(6, num_groups=2, rngs=rngs)

    def __call__(self, x):
        return x + nnx.tanh(self.norm(self.linear(x)))


@nnx.vmap(in_axes=0, out_axes=0)
def blocks(rngs):
    """Layers as one, with a leading axis."""
    return Block(rngs)


def layers():
    """Four layers made by vmap and applied by scan; an ensemble applied by vmap."""
    stack = nnx.split_rngs(splits=4)(blocks)(nnx.Rngs(2))

    @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    def through(block, x):
        return block(x)

    @nnx.vmap(in_axes=(0, None), out_axes=1)
    def each(block, x):
        return block(x)

    value, grads = nnx.jit(nnx.value_and_grad(lambda stack, x: (through(stack, x) ** 2).mean()))(
        stack, SEQUENCES
    )
    last, kept = nnx.remat(lambda stack, x: (through(stack, x), stack.norm.scale[...]))(
        stack, SEQUENCES
    )
    return {
        "loss": value,
        "gradients": flat(grads),
        "through": last,
        "scales": kept,
        "each": each(stack, SEQUENCES[0]),
    }


def state():
    """A module split, saved as bytes, restored and merged; parts of it replaced."""
    model = CNN(nnx.Rngs(4))
    graph, params, stats, rest = nnx.split(model, nnx.Param, nnx.BatchStat, ...)
    stored = flax.serialization.to_bytes(nnx.to_pure_dict(params))
    blank = nnx.to_pure_dict(jax.tree.map(jnp.zeros_like, params))
    nnx.replace_by_pure_dict(params, flax.serialization.from_bytes(blank, stored))
    again = nnx.merge(graph, params, stats, rest)
    again.eval()
    before = again(IMAGES)
    nnx.update(again, jax.tree.map(lambda x: x * 0.5, nnx.state(again, nnx.Param)))
    abstract = nnx.eval_shape(lambda: CNN(nnx.Rngs(4)))
    sizes = [x.size for x in jax.tree.leaves(nnx.state(abstract, nnx.Param))]
    return {
        "before": before,
        "after": again(IMAGES),
        "sizes": np.array(sizes),
        "stored": len(stored),
        "paths": np.array(["/".join(map(str, path)) for path, _ in nnx.to_flat_state(params)]),
    }


def control():
    """Branches and loops over modules, whose state they change; drawn numbers."""
    model = CNN(nnx.Rngs(5))

    def count(by):
        def branch(model):
            model.calls[...] += by

        return branch

    @nnx.jit
    def run(model, which):
        nnx.cond(which > 0, count(10), count(20), model)
        nnx.switch(which, [count(1), count(2), count(3)], model)
        nnx.fori_loop(0, 3, lambda i, model: (count(i + 100)(model), model)[1], model)

    run(model, 2)
    linear = nnx.Linear(6, 6, rngs=nnx.Rngs(6))
    _, moved, steps = nnx.while_loop(
        lambda carry: (carry[2] < 9) & (jnp.abs(carry[1]).max() < 50.0),
        lambda carry: (carry[0], 2 * carry[0](carry[1]) + carry[1], carry[2] + 1),
        (linear, jnp.asarray(SEQUENCES[0]), 0),
    )
    rngs = nnx.Rngs(0, noise=1)
    return {
        "calls": model.calls[...],
        "loop": moved,
        "steps": steps,
        "default": jax.random.key_data(rngs()),
        "noise": rngs.noise.normal((3,)),
        "again": rngs.noise.uniform((3,)),
        "forked": jax.random.key_data(rngs.fork(split=2).noise.key[...]),
    }


PROGRAMS = {f.__name__: f for f in (cnn, attention, recurrent, layers, state, control)}
