"""Models of images: convolutional networks, a vision transformer, a step of diffusion."""

from __future__ import annotations

from typing import Any

from benchmarks.models.language import blocks, init_blocks
from benchmarks.models.layers import Init, inference, layer, normed, training
from benchmarks.suite.row import Row, Work, integers, normal, uniform

CLASSES = 10


def _finished(
    model: Any, init: Init, learns: bool, x: Any, classes: int = CLASSES, *more: Any
) -> Work:
    """Return the work of a classifier: its logits, or a step on its cross entropy."""
    if not learns:
        return inference(model, init.weights, x, *more)

    def loss(ops: Any, p: Any, x: Any, labels: Any) -> Any:
        return ops.cross_entropy(model(ops, p, x), labels)

    return training(loss, init.weights, x, integers(x.shape[0], high=classes))


def mlp(batch: int, inputs: int, width: int, learns: bool = False) -> Work:
    """Classify vectors by three dense layers."""
    init = Init()
    for name, a, b in (("0", inputs, width), ("1", width, width), ("2", width, CLASSES)):
        init.dense(name, a, b)

    def model(ops: Any, p: Any, x: Any) -> Any:
        x = ops.relu(layer(ops, p, "0", x))
        x = ops.relu(layer(ops, p, "1", x))
        return layer(ops, p, "2", x)

    return _finished(model, init, learns, normal(batch, inputs))


def resnet(batch: int, side: int, width: int, learns: bool = False) -> Work:
    """Classify images by six residual blocks at three resolutions."""
    init, stages = Init(), [(width, 1), (2 * width, 2), (4 * width, 2)]
    init.normal("stem", width, 3, 3, 3)
    init.batch_norm("stem", width, learns)
    before, names = width, []
    for i, (after, stride) in enumerate(stages):
        for j in range(2):
            name = f"{i}{j}"
            names.append((name, stride if j == 0 else 1, before != after))
            init.normal(f"{name}a", after, before, 3, 3)
            init.normal(f"{name}b", after, after, 3, 3)
            for part in "ab":
                init.batch_norm(f"{name}{part}", after, learns)
            if before != after:
                init.normal(f"{name}s", after, before, 1, 1)
            before = after
    init.dense("head", before, CLASSES)

    def model(ops: Any, p: Any, x: Any) -> Any:
        def convolved(x: Any, name: str, stride: int) -> Any:
            return ops.batch_norm(ops.conv(x, p[name], stride), p, name, learns)

        x = ops.relu(convolved(x, "stem", 1))
        for name, stride, widens in names:
            y = ops.relu(convolved(x, f"{name}a", stride))
            y = convolved(y, f"{name}b", 1)
            x = ops.relu(y + (ops.conv(x, p[f"{name}s"], stride) if widens else x))
        return layer(ops, p, "head", ops.mean(x, (2, 3)))

    return _finished(model, init, learns, normal(batch, 3, side, side))


def mobilenet(batch: int, side: int, width: int, learns: bool = False) -> Work:
    """Classify images by inverted bottlenecks: wider, depthwise, narrower."""
    init, factor = Init(), 4
    init.normal("stem", width, 3, 3, 3)
    init.batch_norm("stem", width, learns)
    for i in range(4):
        wide = factor * width
        init.normal(f"{i}a", wide, width, 1, 1)
        init.normal(f"{i}b", wide, 1, 3, 3)
        init.normal(f"{i}c", width, wide, 1, 1)
        for part, channels in (("a", wide), ("b", wide), ("c", width)):
            init.batch_norm(f"{i}{part}", channels, learns)
    init.dense("head", width, CLASSES)

    def model(ops: Any, p: Any, x: Any) -> Any:
        x = ops.relu(ops.batch_norm(ops.conv(x, p["stem"], 2), p, "stem", learns))
        for i in range(4):
            y = ops.relu(ops.batch_norm(ops.conv(x, p[f"{i}a"]), p, f"{i}a", learns))
            y = ops.conv(y, p[f"{i}b"], 1, factor * width)
            y = ops.relu(ops.batch_norm(y, p, f"{i}b", learns))
            x = x + ops.batch_norm(ops.conv(y, p[f"{i}c"]), p, f"{i}c", learns)
        return layer(ops, p, "head", ops.mean(x, (2, 3)))

    return _finished(model, init, learns, normal(batch, 3, side, side))


def _init_unet(width: int, channels: int) -> Init:
    init = Init()
    shapes = {
        "d0a": (width, channels),
        "d0b": (width, width),
        "d1a": (2 * width, width),
        "d1b": (2 * width, 2 * width),
        "ma": (4 * width, 2 * width),
        "mb": (2 * width, 4 * width),
        "u1a": (2 * width, 4 * width),
        "u1b": (width, 2 * width),
        "u0a": (width, 2 * width),
        "u0b": (width, width),
    }
    for name, shape in shapes.items():
        init.normal(name, *shape, 3, 3)
    init.normal("out", channels, width, 1, 1)
    return init


def _unet(ops: Any, p: Any, x: Any, time: Any = None) -> Any:
    """Halve twice, double twice, with skip connections; `time` is added where it is narrowest."""

    def pair(x: Any, name: str) -> Any:
        x = ops.relu(ops.conv(x, p[f"{name}a"]))
        return ops.relu(ops.conv(x, p[f"{name}b"]))

    first = pair(x, "d0")
    second = pair(ops.halved(first), "d1")
    y = ops.relu(ops.conv(ops.halved(second), p["ma"]))
    if time is not None:
        y = y + time[:, :, None, None]
    y = ops.relu(ops.conv(y, p["mb"]))
    y = pair(ops.joined([ops.doubled(y), second], 1), "u1")
    y = pair(ops.joined([ops.doubled(y), first], 1), "u0")
    return ops.conv(y, p["out"])


def unet(batch: int, side: int, width: int, learns: bool = False) -> Work:
    """Map images to images of the same size."""
    init = _init_unet(width, 3)
    x, target = (normal(batch, 3, side, side, seed=i) for i in range(2))

    def loss(ops: Any, p: Any, x: Any, target: Any) -> Any:
        return ops.mean((_unet(ops, p, x) - target) ** 2)

    if learns:
        return training(loss, init.weights, x, target)
    return inference(_unet, init.weights, x)


def diffusion(batch: int, side: int, width: int, learns: bool = False) -> Work:
    """Take a step from noise towards an image, or learn to predict the noise."""
    init, features = _init_unet(width, 3), 32
    init.dense("t0", features, width)
    init.dense("t1", width, 4 * width)
    x, noise = (normal(batch, 3, side, side, seed=i) for i in range(2))
    angles = uniform(batch, features, high=3.0)
    kept = uniform(batch, low=0.2, high=0.8)

    def predicted(ops: Any, p: Any, x: Any, angles: Any) -> Any:
        time = ops.silu(layer(ops, p, "t0", ops.np.sin(angles)))
        return _unet(ops, p, x, layer(ops, p, "t1", time))

    def step(ops: Any, p: Any, x: Any, angles: Any, kept: Any) -> Any:
        found = predicted(ops, p, x, angles)
        a = kept[:, None, None, None]
        b = a + 0.1
        image = (x - ops.np.sqrt(1 - a) * found) / ops.np.sqrt(a)
        return ops.np.sqrt(b) * image + ops.np.sqrt(1 - b) * found

    def loss(ops: Any, p: Any, x: Any, noise: Any, angles: Any, kept: Any) -> Any:
        a = kept[:, None, None, None]
        noisy = ops.np.sqrt(a) * x + ops.np.sqrt(1 - a) * noise
        return ops.mean((predicted(ops, p, noisy, angles) - noise) ** 2)

    if learns:
        return training(loss, init.weights, x, noise, angles, kept)
    return inference(step, init.weights, x, angles, kept)


def vit(
    batch: int, side: int, patch: int, width: int, depth: int, heads: int, learns: bool = False
) -> Work:
    """Classify images by a transformer over their patches."""
    init, across = Init(), side // patch
    init.dense("patches", 3 * patch * patch, width)
    init.normal("places", across * across, width, scale=0.1)
    init_blocks(init, depth, width)
    init.norm("last", width)
    init.dense("head", width, CLASSES)

    def model(ops: Any, p: Any, x: Any) -> Any:
        x = x.reshape(batch, 3, across, patch, across, patch)
        x = ops.swapped(ops.swapped(ops.swapped(x, 1, 2), 2, 4), 3, 4)
        x = x.reshape(batch, across * across, 3 * patch * patch)
        x = layer(ops, p, "patches", x) + p["places"]
        x = normed(ops, p, "last", blocks(ops, p, x, depth, heads))
        return layer(ops, p, "head", ops.mean(x, (1,)))

    return _finished(model, init, learns, normal(batch, 3, side, side))


def _pair(name: str, build: Any, size: Any, tiny: Any, tolerance: float = 1e-3) -> list[Row]:
    return [
        Row(name, "inference", build, size, tiny, tolerance, compiled=True, exported=True),
        Row(
            f"{name}, training", "training", build, (*size, True), (*tiny, True), tolerance,
            compiled=True,
        ),
    ]  # fmt: skip


ROWS = [
    *_pair("MLP, 256 x 784, width 1024", mlp, (256, 784, 1024), (3, 5, 4)),
    *_pair("ResNet, 8 x 32^2, width 32", resnet, (8, 32, 32), (2, 8, 2)),
    # Of two million numbers some are so close to zero that rounding decides what relu does.
    *_pair("MobileNet, 4 x 64^2, width 32", mobilenet, (4, 64, 32), (2, 8, 2), 1e-2),
    *_pair("U-Net, 64^2, width 16", unet, (1, 64, 16), (1, 8, 2)),
    *_pair("diffusion step, 2 x 32^2, width 24", diffusion, (2, 32, 24), (2, 8, 2)),
    *_pair(
        "ViT, 4 x 64^2, 4 layers of 192", vit, (4, 64, 8, 192, 4, 6), (2, 8, 4, 8, 1, 2)
    ),
]  # fmt: skip
