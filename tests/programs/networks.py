"""Programs that train or apply networks, as functions of the library."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.registry import data, model


@model
def tied_autoencoder(jax: Any) -> Any:
    """One matrix encodes and, transposed, decodes: its gradient has two parts."""
    jnp = jax.numpy
    x = data(0, 8, 5)
    params = {"w": data(1, 5, 3, scale=0.5), "in": np.zeros(3, "f4"), "out": np.zeros(5, "f4")}

    def loss(p: Any, x: Any) -> Any:
        code = jnp.tanh(x @ p["w"] + p["in"])
        return jnp.mean((code @ p["w"].T + p["out"] - x) ** 2)

    @jax.jit
    def step(p: Any, x: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, x)
        return jax.tree.map(lambda a, b: a - 0.2 * b, p, g), value

    values = []
    for _ in range(10):
        params, value = step(params, x)
        values.append(value)
    return {"values": jnp.stack(values), "params": params}


@model
def recurrent_network(jax: Any) -> Any:
    """A recurrent network by scan; the gradient is a scan in reverse."""
    jnp, lax = jax.numpy, jax.lax
    params = {"h": data(2, 4, 4, scale=0.4), "x": data(3, 3, 4, scale=0.4), "b": np.zeros(4, "f4")}
    xs, targets = data(4, 6, 2, 3), data(5, 6, 2, 4)

    def loss(p: Any, xs: Any) -> Any:
        def cell(h: Any, inputs: Any) -> Any:
            x, target = inputs
            h = jnp.tanh(h @ p["h"] + x @ p["x"] + p["b"])
            return h, jnp.mean((h - target) ** 2)

        h, errors = lax.scan(cell, jnp.zeros((2, 4)), (xs, targets))
        return jnp.sum(errors) + 0.1 * jnp.sum(h**2)

    value, gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params, xs)
    return {"value": value, "gradient": gradient, "eager": jax.grad(loss)(params, xs)}


@model
def scan_over_layers(jax: Any) -> Any:
    """Equal layers as one scan over stacked weights, recomputed in the backward pass."""
    jnp, lax = jax.numpy, jax.lax
    depth = 5
    params = {"w": data(6, depth, 4, 4, scale=0.5), "b": data(7, depth, 4, scale=0.1)}
    x = data(8, 3, 4)

    def layer(x: Any, p: Any) -> Any:
        return x + jax.nn.gelu(x @ p["w"] + p["b"])

    def scanned(p: Any, x: Any, block: Any) -> Any:
        return jnp.sum(lax.scan(lambda c, q: (block(c, q), None), x, p)[0] ** 2)

    def unrolled(p: Any, x: Any) -> Any:
        for i in range(depth):
            x = layer(x, jax.tree.map(lambda a, i=i: a[i], p))
        return jnp.sum(x**2)

    dots = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_saveable)
    return {
        "plain": jax.jit(jax.grad(lambda p: scanned(p, x, layer)))(params),
        "remat": jax.jit(jax.grad(lambda p: scanned(p, x, jax.checkpoint(layer))))(params),
        "dots": jax.jit(jax.grad(lambda p: scanned(p, x, dots)))(params),
        "unrolled": jax.jit(jax.grad(unrolled))(params, x),
        "value": scanned(params, x, layer),
    }


@model
def attention_block(jax: Any) -> Any:
    """A transformer block: layer norm, causal attention of two heads, a gated network."""
    jnp = jax.numpy
    width, heads, length = 8, 2, 5
    names = ("q", "k", "v", "o", "up", "gate")
    params: dict[str, Any] = {
        name: data(10 + i, width, width, scale=0.4) for i, name in enumerate(names)
    }
    params["scale"] = np.ones(width, "f4")
    x = data(20, 2, length, width)

    def norm(x: Any, scale: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale

    def attend(p: Any, x: Any) -> Any:
        q, k, v = ((x @ p[n]).reshape(length, heads, width // heads).swapaxes(0, 1) for n in "qkv")
        logits = jnp.einsum("hid,hjd->hij", q, k) / np.sqrt(width // heads).astype(np.float32)
        mask = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(mask, logits, -jnp.inf), axis=-1)
        mixed = jnp.einsum("hij,hjd->ihd", weights, v)
        return mixed.reshape(length, width) @ p["o"]

    def block(p: Any, x: Any) -> Any:
        x = x + attend(p, norm(x, p["scale"]))
        h = norm(x, p["scale"])
        return x + jax.nn.silu(h @ p["gate"]) * (h @ p["up"])

    def loss(p: Any, x: Any) -> Any:
        y = jax.vmap(block, in_axes=(None, 0))(p, x)
        labels = jnp.arange(length) % width
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(y), labels[None, :, None], -1))

    value, gradient = jax.jit(jax.value_and_grad(loss))(params, x)
    return {"out": jax.jit(block)(params, x[0]), "value": value, "gradient": gradient}


@model
def convolutional_network(jax: Any) -> Any:
    """Two strided convolutions and a pooling, forwards and backwards."""
    jnp, lax = jax.numpy, jax.lax
    images = data(21, 2, 8, 8, 1)
    params = [data(22, 3, 3, 1, 4, scale=0.4), data(23, 3, 3, 4, 4, scale=0.3), data(24, 4, 3)]
    labels = np.array([0, 2])

    def logits(p: Any, x: Any) -> Any:
        for kernel, stride in ((p[0], 1), (p[1], 2)):
            x = lax.conv_general_dilated(
                x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(x, axis=(1, 2)) @ p[2]

    def loss(p: Any, x: Any) -> Any:
        return -jnp.mean(jax.nn.log_softmax(logits(p, x))[jnp.arange(2), labels])

    value, gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params, images)
    return {"logits": jax.jit(logits)(params, images), "value": value, "gradient": gradient}


@model
def clipped_gradient(jax: Any) -> Any:
    """An identity whose custom reverse rule clips, inside a scan under jit."""
    jnp, lax = jax.numpy, jax.lax

    @jax.custom_vjp
    def clip(x: Any, low: Any, high: Any) -> Any:
        return x

    def forwards(x: Any, low: Any, high: Any) -> Any:
        return x, (low, high)

    def backwards(kept: Any, ct: Any) -> Any:
        return jnp.clip(ct, *kept), None, None

    clip.defvjp(forwards, backwards)

    def loss(w: Any, x: Any) -> Any:
        def step(h: Any, a: Any) -> Any:
            return clip(w * h + a, -0.5, 0.5), h

        return jnp.sum(lax.scan(step, x[0], x)[0] ** 2)

    x = data(25, 4, 3, scale=2.0)
    w = np.array([1.5, -2.0, 0.5], np.float32)
    return {
        "grad": jax.jit(jax.grad(loss, argnums=(0, 1)))(w, x),
        "eager": jax.grad(loss)(w, x),
        "mapped": jax.vmap(jax.grad(loss), in_axes=(0, None))(np.stack([w, -w]), x),
    }


@model
def adam_training(jax: Any) -> Any:
    """Adam on a small network: the whole loop under jit, and step by step."""
    jnp, lax = jax.numpy, jax.lax
    x = data(28, 16, 3)
    y = np.sin(x.sum(1, keepdims=True)).astype(np.float32)
    params = [
        {"w": data(29, 3, 6, scale=0.5), "b": np.zeros(6, "f4")},
        {"w": data(30, 6, 1, scale=0.5), "b": np.zeros(1, "f4")},
    ]

    def loss(p: Any) -> Any:
        h = jnp.tanh(x @ p[0]["w"] + p[0]["b"])
        return jnp.mean((h @ p[1]["w"] + p[1]["b"] - y) ** 2)

    def step(state: Any, _: Any = None) -> Any:
        p, m, v, t = state
        value, g = jax.value_and_grad(loss)(p)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, v, g)
        rate = 0.05 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, m, v)
        return (p, m, v, t), value

    zeros = jax.tree.map(jnp.zeros_like, params)
    start = (params, zeros, zeros, 0)
    end, values = jax.jit(lambda s: lax.scan(step, s, None, length=25))(start)
    state, once = start, jax.jit(step)
    for _ in range(3):
        state, value = once(state)
    return {"values": values, "params": end[0], "third": value, "t": state[3]}


@model
def per_example_gradients(jax: Any) -> Any:
    """vmap of grad of scan, clipped by example, and its own derivative."""
    jnp, lax = jax.numpy, jax.lax
    w = {"a": data(31, 3, 3, scale=0.4), "b": data(32, 3)}
    xs = data(33, 4, 5, 3)

    def loss(w: Any, x: Any) -> Any:
        def step(h: Any, a: Any) -> Any:
            h = jnp.tanh(w["a"] @ h + a * w["b"])
            return h, jnp.sum(h**2)

        return jnp.sum(lax.scan(step, jnp.zeros(3), x)[1])

    per_example = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(w, xs)

    def clipped(w: Any) -> Any:
        gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))(w, xs)
        norms = jnp.sqrt(sum(jnp.sum(g.reshape(4, -1) ** 2, 1) for g in jax.tree.leaves(gradients)))
        factor = jnp.minimum(1.0, 2.0 / norms)
        return jax.tree.map(lambda g: jnp.tensordot(factor, g, 1), gradients)

    direction = jax.tree.map(jnp.ones_like, w)
    second = jax.jit(lambda w: jax.jvp(clipped, (w,), (direction,)))(w)
    return {"rows": per_example, "clipped": second[0], "second": second[1]}


@model
def mixed_precision(jax: Any) -> Any:
    """Master weights in float32, computation in bfloat16, a scaled loss."""
    jnp, lax = jax.numpy, jax.lax
    params = {"w": data(34, 4, 4, scale=0.5), "b": np.zeros(4, "f4")}
    x, y = data(35, 8, 4), data(36, 8, 4)

    def loss(p: Any, scale: Any) -> Any:
        low = jax.tree.map(lambda a: a.astype(jnp.bfloat16), p)
        out = jnp.tanh(x.astype(jnp.bfloat16) @ low["w"] + low["b"])
        error = out.astype(jnp.float32) - y
        return jnp.mean(error**2) * scale

    @jax.jit
    def step(p: Any, scale: Any) -> Any:
        value, g = jax.value_and_grad(loss)(p, scale)
        g = jax.tree.map(lambda a: a / scale, g)
        good = jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(g)]))
        p = lax.cond(good, lambda: jax.tree.map(lambda a, b: a - 0.5 * b, p, g), lambda: p)
        return p, jnp.where(good, scale * 2, scale / 2), value / scale

    params = jax.tree.map(jnp.asarray, params)
    scale: Any = 2.0
    for _ in range(4):
        params, scale, value = step(params, scale)
    return {"params": params, "scale": scale, "value": value}


@model
def mixture_of_experts(jax: Any) -> Any:
    """Each token goes to one expert by switch, under vmap and grad; routing weights train."""
    jnp, lax = jax.numpy, jax.lax
    params = {"router": data(40, 3, 3), "experts": data(41, 3, 3, 3, scale=0.5)}
    tokens = data(42, 6, 3)

    def token(p: Any, x: Any) -> Any:
        weights = jax.nn.softmax(x @ p["router"])
        best = jnp.argmax(weights)
        branches = [
            lambda x: jnp.tanh(p["experts"][0] @ x),
            lambda x: jax.nn.relu(p["experts"][1] @ x),
            lambda x: x + p["experts"][2] @ x,
        ]
        return weights[best] * lax.switch(best, branches, x)

    def loss(p: Any, xs: Any) -> Any:
        return jnp.sum(jax.vmap(token, in_axes=(None, 0))(p, xs) ** 2)

    def one_by_one(p: Any) -> Any:
        return jnp.sum(lax.map(lambda x: token(p, x), jnp.asarray(tokens)) ** 2)

    value, gradient = jax.jit(jax.value_and_grad(loss))(params, tokens)
    return {"value": value, "gradient": gradient, "map": jax.jit(jax.grad(one_by_one))(params)}
