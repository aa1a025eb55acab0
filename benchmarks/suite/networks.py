"""Rows of networks: steps of training, a transformer, gradients of unrolled layers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy

from benchmarks.suite.row import RATE, Row, Work, integers, normal


def _scaled(*shape: int, seed: int) -> numpy.ndarray:
    inputs = numpy.prod(shape[:-1]) if len(shape) == 2 else numpy.prod(shape[1:])
    return (normal(*shape, seed=seed) / numpy.sqrt(inputs)).astype("float32")


def _descend(lib: Any, loss: Any, params: Any) -> Any:
    value, gradient = lib.root.value_and_grad(loss)(params)
    return value, lib.root.tree.map(lambda p, g: p - RATE * g, params, gradient)


def _torch_descend(torch: Any, loss: Any, params: Any) -> Any:
    gradient, value = torch.func.grad_and_value(loss)(params)
    return value, {name: params[name] - RATE * gradient[name] for name in params}


def _cross_entropy(lib: Any, logits: Any, labels: Any) -> Any:
    chosen = lib.np.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return lib.np.mean(lib.root.nn.logsumexp(logits, axis=-1) - chosen)


def mlp_step(batch: int, inputs: int, width: int, classes: int) -> Work:
    """Train a network of three dense layers for one step."""
    sizes = (inputs, width, width, classes)
    params = {}
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        params |= {f"w{i}": _scaled(a, b, seed=i), f"b{i}": numpy.zeros(b, "float32")}

    def program(lib: Any, params: Any, x: Any, labels: Any) -> Any:
        def loss(p: Any) -> Any:
            h = lib.np.tanh(x @ p["w0"] + p["b0"])
            h = lib.root.nn.relu(h @ p["w1"] + p["b1"])
            return _cross_entropy(lib, h @ p["w2"] + p["b2"], labels)

        return _descend(lib, loss, params)

    def torch_of(torch: Any, params: Any, x: Any, labels: Any) -> Any:
        def loss(p: Any) -> Any:
            h = torch.tanh(x @ p["w0"] + p["b0"])
            h = torch.relu(h @ p["w1"] + p["b1"])
            return torch.nn.functional.cross_entropy(h @ p["w2"] + p["b2"], labels.long())

        return _torch_descend(torch, loss, params)

    arguments = (params, normal(batch, inputs, seed=9), integers(batch, high=classes))
    return Work(arguments, program, torch=torch_of)


def cnn_step(batch: int, side: int, channels: int) -> Work:
    """Train a convolutional network for one step."""
    flat = 2 * channels * (side // 4) ** 2
    params = {
        "c0": _scaled(channels, 1, 3, 3, seed=0),
        "c1": _scaled(2 * channels, channels, 3, 3, seed=1),
        "w": _scaled(flat, 10, seed=2),
    }

    def program(lib: Any, params: Any, x: Any, labels: Any) -> Any:
        lax, window = lib.root.lax, (1, 1, 2, 2)

        def layer(x: Any, w: Any) -> Any:
            x = lib.root.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME"))
            return lax.reduce_window(x, -lib.np.inf, lax.max, window, window, "VALID")

        def loss(p: Any) -> Any:
            h = layer(layer(x, p["c0"]), p["c1"])
            return _cross_entropy(lib, h.reshape(batch, flat) @ p["w"], labels)

        return _descend(lib, loss, params)

    def torch_of(torch: Any, params: Any, x: Any, labels: Any) -> Any:
        f = torch.nn.functional

        def layer(x: Any, w: Any) -> Any:
            return f.max_pool2d(torch.relu(f.conv2d(x, w, padding=1)), 2)

        def loss(p: Any) -> Any:
            h = layer(layer(x, p["c0"]), p["c1"])
            return f.cross_entropy(h.reshape(batch, flat) @ p["w"], labels.long())

        return _torch_descend(torch, loss, params)

    arguments = (params, normal(batch, 1, side, side, seed=9), integers(batch, high=10))
    return Work(arguments, program, torch=torch_of)


def _block(np: Any, softmax: Any, gelu: Any, norm: Any, p: Any, x: Any, heads: int) -> Any:
    # One text for all libraries, which differ in the names of the four functions.
    batch, n, width = x.shape
    each = width // heads

    def split(y: Any) -> Any:
        return np.swapaxes(y.reshape(batch, n, heads, each), 1, 2)

    y = norm(x) @ p["qkv"]
    q, k, v = (split(y[..., i * width : (i + 1) * width]) for i in range(3))
    scores = softmax((q @ np.swapaxes(k, -1, -2)) * each**-0.5)
    mixed = np.swapaxes(scores @ v, 1, 2).reshape(batch, n, width)
    x = x + mixed @ p["out"]
    return x + gelu(norm(x) @ p["up"]) @ p["down"]


def _block_of(lib: Any, p: Any, x: Any, heads: int) -> Any:
    def norm(x: Any) -> Any:
        mean = lib.np.mean(x, -1, keepdims=True)
        variance = lib.np.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) * lib.root.lax.rsqrt(variance + 1e-5)

    nn = lib.root.nn
    return _block(lib.np, nn.softmax, nn.gelu, norm, p, x, heads)


def _torch_block(torch: Any, p: Any, x: Any, heads: int) -> Any:
    f = torch.nn.functional
    return _block(
        torch,
        lambda x: torch.softmax(x, -1),
        lambda x: f.gelu(x, approximate="tanh"),
        lambda x: f.layer_norm(x, x.shape[-1:]),
        p,
        x,
        heads,
    )


def _block_params(width: int, seed: int = 0) -> dict[str, numpy.ndarray]:
    return {
        "qkv": _scaled(width, 3 * width, seed=seed),
        "out": _scaled(width, width, seed=seed + 1),
        "up": _scaled(width, 4 * width, seed=seed + 2),
        "down": _scaled(4 * width, width, seed=seed + 3),
    }


def block(batch: int, n: int, width: int, heads: int) -> Work:
    """Apply a block of a transformer."""
    return Work(
        (_block_params(width), normal(batch, n, width, seed=9)),
        lambda lib, p, x: _block_of(lib, p, x, heads),
        torch=lambda torch, p, x: _torch_block(torch, p, x, heads),
    )


def transformer_step(batch: int, n: int, width: int, heads: int, vocabulary: int) -> Work:
    """Train a transformer of two blocks for one step."""
    params = {
        "embed": _scaled(vocabulary, width, seed=20),
        "head": _scaled(width, vocabulary, seed=21),
    }
    for i in range(2):
        params |= {f"{name}{i}": w for name, w in _block_params(width, 5 * i).items()}

    def layers(p: Any, apply: Any, x: Any) -> Any:
        for i in range(2):
            x = apply({name: p[f"{name}{i}"] for name in ("qkv", "out", "up", "down")}, x)
        return x @ p["head"]

    def program(lib: Any, params: Any, tokens: Any, labels: Any) -> Any:
        def loss(p: Any) -> Any:
            logits = layers(p, lambda b, x: _block_of(lib, b, x, heads), p["embed"][tokens])
            return _cross_entropy(lib, logits, labels)

        return _descend(lib, loss, params)

    def torch_of(torch: Any, params: Any, tokens: Any, labels: Any) -> Any:
        f = torch.nn.functional

        def loss(p: Any) -> Any:
            x = f.embedding(tokens, p["embed"])
            logits = layers(p, lambda b, x: _torch_block(torch, b, x, heads), x)
            return f.cross_entropy(logits.reshape(batch * n, -1), labels.reshape(-1).long())

        return _torch_descend(torch, loss, params)

    tokens, labels = (integers(batch, n, high=vocabulary, seed=s) for s in (1, 2))
    return Work((params, tokens, labels), program, torch=torch_of)


def attention(batch: int, n: int, width: int) -> Work:
    """Attend causally."""

    def program(lib: Any, q: Any, k: Any, v: Any) -> Any:
        scores = q @ lib.np.swapaxes(k, -1, -2) * width**-0.5
        seen = lib.np.tril(lib.np.ones((n, n), bool))
        return lib.root.nn.softmax(lib.np.where(seen, scores, -1e9), axis=-1) @ v

    def torch_of(torch: Any, q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return Work(
        tuple(normal(batch, 8, n, width, seed=i) for i in range(3)), program, torch=torch_of
    )


def unrolled(layers: int, width: int) -> Work:
    """Return the gradient through a loop that Python unrolls."""

    def program(lib: Any, w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            h = x
            for i in range(layers):
                h = lib.np.tanh(h @ w + 0.01 * i)
            return lib.np.sum(h * h)

        return lib.root.grad(loss)(w)

    def torch_of(torch: Any, w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            h = x
            for i in range(layers):
                h = torch.tanh(h @ w + 0.01 * i)
            return torch.sum(h * h)

        return torch.func.grad(loss)(w)

    return Work((_scaled(width, width, seed=1), normal(8, width)), program, torch=torch_of)


def adam(count: int, n: int) -> Work:
    """Apply Adam to many arrays."""

    def step(np: Any, params: Any, gradients: Any, means: Any, squares: Any) -> Any:
        out = []
        for p, g, m, v in zip(params, gradients, means, squares):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            out.append((p - 0.001 * m / (np.sqrt(v) + 1e-8), m, v))
        return out

    groups = [[normal(n, seed=4 * i + j) for i in range(count)] for j in range(4)]
    groups[3] = [x * x for x in groups[3]]
    return Work(
        tuple(groups),
        lambda lib, *xs: step(lib.np, *xs),
        lambda *xs: step(numpy, *xs),
        step,
    )


ROWS = [
    Row(
        "MLP step, 128 x 784, width 256",
        "program",
        mlp_step,
        (128, 784, 256, 10),
        (3, 5, 4, 3),
        1e-3,
        compiled=True,
    ),
    Row("CNN step, 32 x 28^2", "program", cnn_step, (32, 28, 8), (2, 8, 2), 1e-3, compiled=True),
    Row(
        "transformer block, 4 x 128 x 256",
        "program",
        block,
        (4, 128, 256, 8),
        (2, 3, 8, 2),
        1e-3,
        compiled=True,
    ),
    Row(
        "transformer step, 2 blocks, 8 x 64 x 128",
        "program",
        transformer_step,
        (8, 64, 128, 4, 256),
        (2, 3, 8, 2, 5),
        1e-3,
        compiled=True,
    ),
    Row("attention, causal, 2 x 8 x 256 x 64", "program", attention, (2, 256, 64), (1, 3, 4), 1e-3),
    Row("gradient, 20 unrolled layers", "program", unrolled, (20, 64), (3, 4), 1e-3),
    Row("Adam on 30 arrays of 1e4", "program", adam, (30, 10_000), (2, 5), 1e-4, compiled=True),
]
