"""Train a convolutional network, written with kiln.linen, to read handwritten digits.

The data are scikit-learn's bundled digits: 1,797 real 8x8 images. One sixth is held out. The blocks
of the network are jitted modules: equal blocks are traced once. Batch norm keeps running averages,
dropout draws a key for each step, and the images move by up to a pixel. Shows a progress bar,
prints the accuracy on held-out digits, and draws both curves and the misread digits into
`digits_cnn.png`.

    python examples/digits_cnn.py [--epochs 20] [--out digits_cnn.png]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import adam
import kiln
import kiln.numpy as jnp
import progress
from kiln import linen, random

BATCH = 64
RATE = 3e-3
ENOUGH = 0.985


class Block(linen.Module):
    """Convolution, batch norm, relu, with a way around them where the number of features stays."""

    features: int

    @linen.compact
    def __call__(self, x: Any, training: bool) -> Any:
        """Return the features of each pixel.

        Shapes: (batch, height, width, any) -> (batch, height, width, features).
        """
        y = linen.Conv(self.features, (3, 3), use_bias=False)(x)
        y = linen.BatchNorm(use_running_average=not training, momentum=0.9)(y)
        y = linen.relu(y)
        return x + y if x.shape == y.shape else y


class Net(linen.Module):
    """Blocks at two resolutions, then a dense layer with a score for each digit."""

    widths: tuple[int, ...] = (32, 64)

    @linen.compact
    def __call__(self, images: Any, training: bool) -> Any:
        """Return the scores of the ten digits.

        Shapes: (batch, 64) -> (batch, 10).
        """
        block = linen.jit(Block, static_argnums=(2,))
        x = jnp.reshape(images, (-1, 8, 8, 1))
        for width in self.widths:
            for _ in range(3):
                x = block(width)(x, training)
            x = linen.max_pool(x, (2, 2), strides=(2, 2))
        x = jnp.reshape(x, (x.shape[0], -1))
        x = linen.Dropout(0.5, deterministic=not training)(x)
        return linen.Dense(10)(x)


net = Net()


@kiln.jit
def update(variables: Any, state: Any, step: Any, rate: Any, images: Any, labels: Any) -> Any:
    """Take one step on a mini-batch."""

    def loss(params: Any) -> Any:
        scores, changed = net.apply(
            {"params": params, "batch_stats": variables["batch_stats"]},
            images,
            True,
            rngs={"dropout": random.fold_in(random.key(1), step)},
            mutable=["batch_stats"],
        )
        logp = linen.log_softmax(scores)
        return -jnp.mean(jnp.sum(logp * linen.one_hot(labels, 10), axis=-1)), changed

    (value, changed), grads = kiln.value_and_grad(loss, has_aux=True)(variables["params"])
    params, state = adam.update(variables["params"], grads, state, rate)
    return {"params": params, **changed}, state, value


@kiln.jit
def classify(variables: Any, images: Any) -> Any:
    """Return the digit with the highest score for each image."""
    return jnp.argmax(net.apply(variables, images, False), axis=-1)


def moved(images: Any, rng: np.random.Generator) -> Any:
    """Return images moved by up to one pixel along each axis."""
    padded = np.pad(images.reshape(-1, 8, 8), [(0, 0), (1, 1), (1, 1)])
    down, right = rng.integers(0, 3, (2, len(images)))
    rows, columns = np.arange(8)[:, None], np.arange(8)
    each = np.arange(len(images))[:, None, None]
    shifted = padded[each, down[:, None, None] + rows, right[:, None, None] + columns]
    return shifted.reshape(-1, 64)


def draw(path: str, losses: list[float], curve: list[float], shown: Any) -> None:
    """Draw the loss, the accuracy on held-out digits, and the misread digits."""
    import matplotlib  # noqa: PLC0415 - the picture is optional, training is not

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    images, labels, guesses = shown
    wrong = np.flatnonzero(guesses != labels)[:4]
    figure, axes = plt.subplots(
        1, 2 + max(len(wrong), 1), figsize=(12, 3.2), width_ratios=[3, 3] + [1] * max(len(wrong), 1)
    )
    axes[0].semilogy(losses, lw=0.7)
    axes[0].set(xlabel="step", ylabel="cross entropy", title="training loss")
    axes[1].plot(np.arange(1, len(curve) + 1), curve, marker=".")
    axes[1].axhline(ENOUGH, color="gray", lw=0.7)
    axes[1].set(xlabel="epoch", ylabel="accuracy", title="held-out digits", ylim=(0.9, 1.001))
    for cell in axes[2:]:
        cell.axis("off")
    for cell, i in zip(axes[2:], wrong, strict=False):
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{labels[i]} read as {guesses[i]}", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def train(epochs: int, seed: int = 0) -> tuple[list[float], list[float], Any]:
    """Train; return the losses, the accuracy after each epoch, and what to draw."""
    data = load_digits()
    images = (data.data / 16).astype(np.float32)
    labels = data.target.astype(np.int32)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    held = len(images) // 6
    test, rest = order[:held], order[held:]
    variables = net.init(random.key(seed), images[:1], False)
    state = adam.init(variables["params"])
    batches = len(rest) // BATCH
    losses: list[Any] = []
    curve: list[float] = []
    for epoch in range(epochs):
        shuffled = rng.permutation(rest)
        for i in range(batches):
            rows = shuffled[i * BATCH : (i + 1) * BATCH]
            step = epoch * batches + i
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / (epochs * batches)))
            variables, state, value = update(
                variables, state, step, np.float32(rate), moved(images[rows], rng), labels[rows]
            )
            losses.append(value)
        guesses = np.asarray(classify(variables, images[test]))
        curve.append(float(np.mean(guesses == labels[test])))
        progress.show(epoch + 1, epochs, f"loss {float(losses[-1]):.4f}, accuracy {curve[-1]:.4f}")
    return [float(x) for x in losses], curve, (images[test], labels[test], guesses)


def main() -> None:
    """Train, report, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", default="digits_cnn.png")
    options = parser.parse_args()
    start = time.perf_counter()
    losses, curve, shown = train(options.epochs)
    seconds = time.perf_counter() - start
    draw(options.out, losses, curve, shown)
    print(
        f"digits_cnn: {len(losses)} steps in {seconds:.1f} s, "
        f"loss {np.mean(losses[:20]):.3f} -> {np.mean(losses[-20:]):.5f}"
    )
    print(f"digits_cnn: picture in {options.out}")
    print(f"digits_cnn: accuracy on {len(shown[1])} held-out digits {curve[-1]:.4f}")
    if curve[-1] <= ENOUGH:
        sys.exit(f"digits_cnn: the accuracy should be above {ENOUGH}")


if __name__ == "__main__":
    main()
