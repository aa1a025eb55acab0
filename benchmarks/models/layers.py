"""What models are made of, in kiln's and JAX's terms and in torch's.

A model is one function of `ops`, weights and inputs. `ArrayLayers` writes its layers with the array
library that it is given, `TorchLayers` with the functions that torch offers for them. Images have
their channels before rows and columns, weights of dense layers their inputs first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.suite.row import RATE, Work

Weights = dict[str, numpy.ndarray]
EPSILON = 1e-5


class ArrayLayers:
    """Layers by `kiln.numpy` or `jax.numpy`, and `lax`."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.np = lib, lib.np
        self.lax, nn = lib.root.lax, lib.root.nn
        self.relu, self.sigmoid, self.silu = nn.relu, nn.sigmoid, nn.silu
        self.gelu, self.softmax, self.logsumexp = nn.gelu, nn.softmax, nn.logsumexp

    def dense(self, x: Any, w: Any, b: Any) -> Any:
        """Return an affine map of the last axis."""
        return x @ w + b

    def norm(self, x: Any, scale: Any, shift: Any) -> Any:
        """Normalize the last axis."""
        mean = self.np.mean(x, -1, keepdims=True)
        variance = self.np.mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) * self.lax.rsqrt(variance + EPSILON) * scale + shift

    def batch_norm(self, x: Any, p: Any, name: str, training: bool) -> Any:
        """Normalize channels by the batch's statistics, or by stored ones."""
        if training:
            mean = self.np.mean(x, (0, 2, 3))
            variance = self.np.mean((x - mean[:, None, None]) ** 2, (0, 2, 3))
        else:
            mean, variance = p[f"{name} mean"], p[f"{name} variance"]
        factor = self.lax.rsqrt(variance + EPSILON) * p[f"{name} scale"]
        return (x - mean[:, None, None]) * factor[:, None, None] + p[f"{name} shift"][:, None, None]

    def conv(self, x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
        """Convolve, padded by half the kernel."""
        pads = [(size // 2, size // 2) for size in w.shape[2:]]
        return self.lax.conv_general_dilated(
            x, w, (stride, stride), pads, feature_group_count=groups
        )

    def halved(self, x: Any) -> Any:
        """Return the maxima of blocks of 2 x 2."""
        window = (1, 1, 2, 2)
        return self.lax.reduce_window(x, -self.np.inf, self.lax.max, window, window, "VALID")

    def doubled(self, x: Any) -> Any:
        """Repeat rows and columns."""
        return self.np.repeat(self.np.repeat(x, 2, 2), 2, 3)

    def attention(self, q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> Any:
        """Attend; `mask` says which keys each query may see."""
        scores = q @ self.np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
        if causal:
            mask = self.np.tril(self.np.ones((q.shape[-2], k.shape[-2]), bool))
        if mask is not None:
            scores = self.np.where(mask, scores, -1e9)
        return self.softmax(scores, axis=-1) @ v

    def rows(self, table: Any, indices: Any) -> Any:
        """Return rows of a table."""
        return table[indices]

    def columns(self, x: Any, indices: Any) -> Any:
        """Return columns of a matrix."""
        return x[:, indices]

    def sums(self, x: Any, segments: Any, count: int) -> Any:
        """Add the rows of each segment."""
        return self.np.zeros((count, *x.shape[1:]), x.dtype).at[segments].add(x)

    def joined(self, arrays: list[Any], axis: int) -> Any:
        """Concatenate."""
        return self.np.concatenate(arrays, axis)

    def swapped(self, x: Any, one: int, other: int) -> Any:
        """Swap two axes."""
        return self.np.swapaxes(x, one, other)

    def mean(self, x: Any, axes: Any = None) -> Any:
        """Return the mean along axes, or of all elements."""
        return self.np.mean(x, axes)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """Return the mean cross entropy of logits along the last axis."""
        chosen = self.np.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return self.np.mean(self.logsumexp(logits, axis=-1) - chosen)

    def lstm(self, xs: Any, p: Any, name: str) -> Any:
        """Run a layer of LSTM cells over batches of sequences; return all states."""
        width = p[f"{name} hidden"].shape[0]

        def step(state: Any, x: Any) -> Any:
            h, c = state
            gates = x + h @ p[f"{name} hidden"]
            i, f, g, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
            c = self.sigmoid(f) * c + self.sigmoid(i) * self.np.tanh(g)
            h = self.sigmoid(o) * self.np.tanh(c)
            return (h, c), h

        gates = self.swapped(xs, 0, 1) @ p[f"{name} input"] + p[f"{name} bias"]
        start = self.np.zeros((xs.shape[0], width), xs.dtype)
        return self.swapped(self.lax.scan(step, (start, start), gates)[1], 0, 1)

    def discounted(self, xs: Any, factor: float) -> Any:
        """Return the sums of each row and those after it, each discounted once more."""

        def step(ahead: Any, x: Any) -> Any:
            ahead = x + factor * ahead
            return ahead, ahead

        return self.lax.scan(step, self.np.zeros_like(xs[0]), xs, reverse=True)[1]


class TorchLayers:
    """The same layers by the functions that torch has for them."""

    def __init__(self, torch: Any) -> None:
        f = torch.nn.functional
        self.torch, self.np, self.f = torch, torch, f
        self.relu, self.sigmoid, self.silu = torch.relu, torch.sigmoid, f.silu

    def gelu(self, x: Any) -> Any:
        """Return the GELU in its approximation by tanh, which JAX computes."""
        return self.f.gelu(x, approximate="tanh")

    def softmax(self, x: Any, axis: int) -> Any:
        """Return the softmax along an axis."""
        return self.torch.softmax(x, axis)

    def dense(self, x: Any, w: Any, b: Any) -> Any:
        """Return an affine map of the last axis."""
        return self.f.linear(x, w.T, b)

    def norm(self, x: Any, scale: Any, shift: Any) -> Any:
        """Normalize the last axis."""
        return self.f.layer_norm(x, x.shape[-1:], scale, shift, EPSILON)

    def batch_norm(self, x: Any, p: Any, name: str, training: bool) -> Any:
        """Normalize channels by the batch's statistics, or by stored ones."""
        kept = (None, None) if training else (p[f"{name} mean"], p[f"{name} variance"])
        scale, shift = p[f"{name} scale"], p[f"{name} shift"]
        return self.f.batch_norm(x, *kept, scale, shift, training, eps=EPSILON)

    def conv(self, x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
        """Convolve, padded by half the kernel."""
        pads = [size // 2 for size in w.shape[2:]]
        return self.f.conv2d(x, w, None, stride, pads, groups=groups)

    def halved(self, x: Any) -> Any:
        """Return the maxima of blocks of 2 x 2."""
        return self.f.max_pool2d(x, 2)

    def doubled(self, x: Any) -> Any:
        """Repeat rows and columns."""
        return self.f.interpolate(x, scale_factor=2.0, mode="nearest")

    def attention(self, q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> Any:
        """Attend; `mask` says which keys each query may see."""
        return self.f.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    def rows(self, table: Any, indices: Any) -> Any:
        """Return rows of a table."""
        return self.f.embedding(indices, table)

    def columns(self, x: Any, indices: Any) -> Any:
        """Return columns of a matrix."""
        return self.torch.index_select(x, 1, indices)

    def sums(self, x: Any, segments: Any, count: int) -> Any:
        """Add the rows of each segment."""
        # ONNX scatters by indices of 64 bits only.
        return x.new_zeros((count, *x.shape[1:])).index_add(0, segments.long(), x)

    def joined(self, arrays: list[Any], axis: int) -> Any:
        """Concatenate."""
        return self.torch.cat(arrays, axis)

    def swapped(self, x: Any, one: int, other: int) -> Any:
        """Swap two axes."""
        return self.torch.transpose(x, one, other)

    def mean(self, x: Any, axes: Any = None) -> Any:
        """Return the mean along axes, or of all elements."""
        return self.torch.mean(x) if axes is None else self.torch.mean(x, axes)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """Return the mean cross entropy of logits along the last axis."""
        flat = logits.reshape(-1, logits.shape[-1])
        return self.f.cross_entropy(flat, labels.reshape(-1).long())

    def lstm(self, xs: Any, p: Any, name: str) -> Any:
        """Run a layer of LSTM cells over batches of sequences; return all states."""
        hidden = p[f"{name} hidden"]
        start = xs.new_zeros((1, xs.shape[0], hidden.shape[0]))
        kept = [
            p[f"{name} input"].T.contiguous(),
            hidden.T.contiguous(),
            p[f"{name} bias"],
            self.torch.zeros_like(p[f"{name} bias"]),
        ]
        found = self.torch.lstm(xs, (start, start), kept, True, 1, 0.0, False, False, True)
        return found[0]

    def discounted(self, xs: Any, factor: float) -> Any:
        """Return the sums of each row and those after it, each discounted once more."""
        sums = [xs[-1]]
        for x in reversed(xs[:-1].unbind()):
            sums.append(x + factor * sums[-1])
        return self.torch.stack(sums[::-1])


Model = Callable[..., Any]
"""Called as `model(ops, weights, *inputs)`."""


def inference(model: Model, weights: Weights, *inputs: Any) -> Work:
    """Return the work of applying a model, whose weights are constants of the program."""
    return Work(
        (weights, *inputs),
        lambda lib, p, *xs: model(ArrayLayers(lib), p, *xs),
        torch=lambda torch, p, *xs: model(TorchLayers(torch), p, *xs),
        constants=1,
    )


def training(loss: Model, weights: Weights, *inputs: Any) -> Work:
    """Return the work of a step of gradient descent on a loss."""

    def program(lib: Any, p: Any, *xs: Any) -> Any:
        layers = ArrayLayers(lib)
        value, gradient = lib.root.value_and_grad(lambda p: loss(layers, p, *xs))(p)
        return value, {name: p[name] - RATE * gradient[name] for name in p}

    return Work(
        (weights, *inputs),
        program,
        torch=lambda torch, p, *xs: loss(TorchLayers(torch), p, *xs),
        loss=True,
    )


class Init:
    """Makes weights, each with numbers of its own."""

    def __init__(self) -> None:
        self.weights: Weights = {}
        self._random = numpy.random.default_rng(0)

    def normal(self, name: str, *shape: int, scale: float | None = None) -> None:
        """Add normal numbers; without a scale their variance is one by the number of inputs."""
        inputs = numpy.prod(shape[:-1]) if len(shape) == 2 else numpy.prod(shape[1:])
        numbers = self._random.standard_normal(shape) * (scale or float(inputs) ** -0.5)
        self.weights[name] = numbers.astype("float32")

    def zeros(self, name: str, *shape: int) -> None:
        """Add zeros."""
        self.weights[name] = numpy.zeros(shape, "float32")

    def ones(self, name: str, *shape: int) -> None:
        """Add ones."""
        self.weights[name] = numpy.ones(shape, "float32")

    def dense(self, name: str, inputs: int, outputs: int) -> None:
        """Add the matrix and the bias of a dense layer."""
        self.normal(f"{name} w", inputs, outputs)
        self.zeros(f"{name} b", outputs)

    def norm(self, name: str, width: int) -> None:
        """Add the scale and the shift of a normalization."""
        self.ones(f"{name} scale", width)
        self.zeros(f"{name} shift", width)

    def batch_norm(self, name: str, width: int, training: bool) -> None:
        """Add what a batch normalization needs; stored statistics only without training."""
        self.norm(name, width)
        if not training:
            self.normal(f"{name} mean", width, scale=0.1)
            self.ones(f"{name} variance", width)


def layer(ops: Any, p: Any, name: str, x: Any) -> Any:
    """Apply the dense layer of a name."""
    return ops.dense(x, p[f"{name} w"], p[f"{name} b"])


def normed(ops: Any, p: Any, name: str, x: Any) -> Any:
    """Apply the layer normalization of a name."""
    return ops.norm(x, p[f"{name} scale"], p[f"{name} shift"])
