"""Models of sequences: transformers that read and write text, and a recurrent network."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.models.layers import Init, inference, layer, normed, training
from benchmarks.suite.row import Row, Work, integers, normal

NAMES = ("qkv", "out", "up", "down")


def init_blocks(init: Init, depth: int, width: int) -> None:
    """Add the weights of transformer blocks."""
    for i in range(depth):
        init.norm(f"{i} first", width)
        init.norm(f"{i} second", width)
        init.dense(f"{i} qkv", width, 3 * width)
        init.dense(f"{i} out", width, width)
        init.dense(f"{i} up", width, 4 * width)
        init.dense(f"{i} down", 4 * width, width)


def _heads(ops: Any, p: Any, name: str, x: Any, heads: int) -> list[Any]:
    """Return queries, keys and values, each of shape (batch, heads, length, features)."""
    batch, n, width = x.shape
    y = layer(ops, p, f"{name} qkv", x)
    parts = (y[..., i * width : (i + 1) * width] for i in range(3))
    return [ops.swapped(z.reshape(batch, n, heads, width // heads), 1, 2) for z in parts]


def blocks(
    ops: Any, p: Any, x: Any, depth: int, heads: int, mask: Any = None, causal: bool = False
) -> Any:
    """Apply transformer blocks that normalize before attention and before their dense layers."""
    shape = x.shape
    for i in range(depth):
        q, k, v = _heads(ops, p, str(i), normed(ops, p, f"{i} first", x), heads)
        mixed = ops.swapped(ops.attention(q, k, v, mask, causal), 1, 2).reshape(*shape)
        x = x + layer(ops, p, f"{i} out", mixed)
        y = ops.gelu(layer(ops, p, f"{i} up", normed(ops, p, f"{i} second", x)))
        x = x + layer(ops, p, f"{i} down", y)
    return x


def _transformer(width: int, depth: int, length: int, vocabulary: int) -> Init:
    init = Init()
    init.normal("words", vocabulary, width, scale=0.3)
    init.normal("places", length, width, scale=0.1)
    init_blocks(init, depth, width)
    init.norm("last", width)
    init.dense("head", width, vocabulary)
    return init


def bert(
    batch: int, n: int, width: int, depth: int, heads: int, vocabulary: int, learns: bool = False
) -> Work:
    """Read texts of different lengths at once; training predicts every word."""
    init = _transformer(width, depth, n, vocabulary)
    lengths = numpy.linspace(n // 2, n, batch).astype(int)
    seen = (numpy.arange(n) < lengths[:, None])[:, None, None, :]

    def model(ops: Any, p: Any, words: Any, seen: Any) -> Any:
        x = ops.rows(p["words"], words) + p["places"]
        x = normed(ops, p, "last", blocks(ops, p, x, depth, heads, seen))
        return layer(ops, p, "head", x)

    def loss(ops: Any, p: Any, words: Any, seen: Any, labels: Any) -> Any:
        return ops.cross_entropy(model(ops, p, words, seen), labels)

    words, labels = (integers(batch, n, high=vocabulary, seed=i) for i in range(2))
    if learns:
        return training(loss, init.weights, words, seen, labels)
    return inference(model, init.weights, words, seen)


def gpt(
    batch: int, n: int, width: int, depth: int, heads: int, vocabulary: int, learns: bool = False
) -> Work:
    """Predict the next word after every word of a text."""
    init = _transformer(width, depth, n, vocabulary)

    def model(ops: Any, p: Any, words: Any) -> Any:
        x = ops.rows(p["words"], words) + p["places"]
        x = blocks(ops, p, x, depth, heads, causal=True)
        return layer(ops, p, "head", normed(ops, p, "last", x))

    def loss(ops: Any, p: Any, words: Any, labels: Any) -> Any:
        return ops.cross_entropy(model(ops, p, words), labels)

    words, labels = (integers(batch, n, high=vocabulary, seed=i) for i in range(2))
    if learns:
        return training(loss, init.weights, words, labels)
    return inference(model, init.weights, words)


def decode(batch: int, cached: int, width: int, depth: int, heads: int, vocabulary: int) -> Work:
    """Predict the next word from the last one and the keys and values of those before it.

    The new keys and values are results; writing them to the cache is not part of the work.
    """
    init, each = _transformer(width, depth, cached + 1, vocabulary), width // heads

    def model(ops: Any, p: Any, words: Any, keys: Any, values: Any) -> Any:
        x = (ops.rows(p["words"], words) + p["places"][cached])[:, None, :]
        made = []
        for i in range(depth):
            q, k, v = _heads(ops, p, str(i), normed(ops, p, f"{i} first", x), heads)
            before = q @ ops.swapped(keys[i], -1, -2)
            scores = ops.joined([before, q @ ops.swapped(k, -1, -2)], -1) * each**-0.5
            part = ops.softmax(scores, axis=-1)
            mixed = part[..., :cached] @ values[i] + part[..., cached:] @ v
            mixed = ops.swapped(mixed, 1, 2).reshape(batch, 1, width)
            x = x + layer(ops, p, f"{i} out", mixed)
            y = ops.gelu(layer(ops, p, f"{i} up", normed(ops, p, f"{i} second", x)))
            x = x + layer(ops, p, f"{i} down", y)
            made += [k, v]
        return (layer(ops, p, "head", normed(ops, p, "last", x[:, 0])), *made)

    cache = [normal(depth, batch, heads, cached, each, seed=i) for i in (3, 4)]
    return inference(model, init.weights, integers(batch, high=vocabulary), *cache)


def lstm(batch: int, n: int, width: int, learns: bool = False) -> Work:
    """Classify sequences by two layers of LSTM cells."""
    init = Init()
    for name in ("0", "1"):
        init.normal(f"{name} input", width, 4 * width)
        init.normal(f"{name} hidden", width, 4 * width)
        init.zeros(f"{name} bias", 4 * width)
    init.dense("head", width, 10)

    def model(ops: Any, p: Any, xs: Any) -> Any:
        xs = ops.lstm(ops.lstm(xs, p, "0"), p, "1")
        return layer(ops, p, "head", xs[:, -1])

    def loss(ops: Any, p: Any, xs: Any, labels: Any) -> Any:
        return ops.cross_entropy(model(ops, p, xs), labels)

    xs = normal(batch, n, width)
    if learns:
        return training(loss, init.weights, xs, integers(batch, high=10))
    return inference(model, init.weights, xs)


def _row(name: str, build: Any, size: Any, tiny: Any, compiled: bool = True) -> Row:
    return Row(name, "inference", build, size, tiny, 1e-3, compiled=compiled, exported=True)


def _step(name: str, build: Any, size: Any, tiny: Any, compiled: bool = True) -> Row:
    name, size, tiny = f"{name}, training", (*size, True), (*tiny, True)
    return Row(name, "training", build, size, tiny, 1e-3, compiled=compiled)


_BERT = ("BERT, 4 x 128, 4 layers of 256", bert, (4, 128, 256, 4, 4, 1000), (2, 4, 8, 1, 2, 7))
_GPT = ("GPT, 2 x 128, 6 layers of 384", gpt, (2, 128, 384, 6, 6, 1000), (2, 4, 8, 1, 2, 7))
_LSTM = ("LSTM, 16 x 64, 2 layers of 192", lstm, (16, 64, 192), (2, 3, 4), False)
DECODE = (256, 384, 6, 6, 1000)

ROWS = [
    _row(*_BERT),
    _row(*_GPT),
    _row("GPT decode, batch 1, 256 cached", decode, (1, *DECODE), (1, 4, 8, 1, 2, 7)),
    _row("GPT decode, batch 8, 256 cached", decode, (8, *DECODE), (3, 4, 8, 1, 2, 7)),
    _row(*_LSTM),
    _step(*_BERT),
    _step(*_GPT),
    _step(*_LSTM),
]
