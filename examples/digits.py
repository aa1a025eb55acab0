"""Train a small network to read handwritten digits, written only with kiln.

The data are scikit-learn's bundled digits: 1,797 real 8x8 images. One sixth is held out. Shows a
progress bar, prints the accuracy on held-out digits, and draws the loss curve and the digits that
were misread into `digits.png`.

    python examples/digits.py [--epochs 40] [--out digits.png]
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
from kiln import nn, random

Params = list[dict[str, Any]]
SIZES = (64, 128, 64, 10)
BATCH = 64


def init(key: Any) -> Params:
    """Return the weights and biases of each layer."""
    keys = random.split(key, len(SIZES) - 1)
    he = nn.initializers.he_normal()
    return [
        {"w": he(k, (a, b), jnp.float32), "b": jnp.zeros(b)}
        for k, a, b in zip(keys, SIZES[:-1], SIZES[1:], strict=True)
    ]


def predict(params: Params, images: Any) -> Any:
    """Return the scores of the ten digits."""
    *hidden, last = params
    x = images
    for layer in hidden:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss(params: Params, images: Any, labels: Any) -> Any:
    """Return the mean cross entropy."""
    logp = nn.log_softmax(predict(params, images))
    return -jnp.mean(jnp.sum(logp * nn.one_hot(labels, 10), axis=-1))


@kiln.jit
def update(params: Params, state: Any, images: Any, labels: Any) -> tuple[Params, Any, Any]:
    """Take one step on a mini-batch."""
    value, grads = kiln.value_and_grad(loss)(params, images, labels)
    params, state = adam.update(params, grads, state, rate=2e-3)
    return params, state, value


@kiln.jit
def classify(params: Params, images: Any) -> Any:
    """Return the digit with the highest score for each image."""
    return jnp.argmax(predict(params, images), axis=-1)


def draw(path: str, losses: list[float], images: Any, labels: Any, guesses: Any) -> None:
    """Draw the loss curve beside the misread digits."""
    import matplotlib  # noqa: PLC0415 - the picture is optional, training is not

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    wrong = np.flatnonzero(guesses != labels)[:12]
    fig = plt.figure(figsize=(11, 4))
    left, right = fig.subfigures(1, 2, width_ratios=(3, 2))
    axes = left.subplots()
    axes.semilogy(losses, lw=0.6, alpha=0.5, label="each mini-batch")
    window = 25
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    axes.semilogy(np.arange(len(smooth)) + window // 2, smooth, label=f"mean of {window}")
    axes.set_xlabel("step")
    axes.set_ylabel("cross entropy")
    axes.set_title("training loss")
    axes.legend()
    grid = right.subplots(3, 4).ravel()
    for cell in grid:
        cell.axis("off")
    for cell, i in zip(grid, wrong, strict=False):
        cell.imshow(images[i].reshape(8, 8), cmap="gray_r")
        cell.set_title(f"{labels[i]} read as {guesses[i]}", fontsize=8)
    right.suptitle(f"misread: {np.sum(guesses != labels)} of {len(labels)}")
    fig.savefig(path, dpi=110)


def train(epochs: int, seed: int = 0) -> tuple[float, list[float], Any]:
    """Train and return the accuracy on held-out digits, the losses, and what to draw."""
    data = load_digits()
    images = (data.data / 16).astype(np.float32)
    labels = data.target.astype(np.int32)
    order = np.random.default_rng(seed).permutation(len(images))
    held = len(images) // 6
    test, rest = order[:held], order[held:]
    params = init(random.key(seed))
    state = adam.init(params)
    batches = len(rest) // BATCH
    losses: list[float] = []
    for epoch in range(epochs):
        shuffled = np.random.default_rng(epoch).permutation(rest)
        for i in range(batches):
            rows = shuffled[i * BATCH : (i + 1) * BATCH]
            params, state, value = update(params, state, images[rows], labels[rows])
            losses.append(value)
        progress.show(epoch + 1, epochs, f"loss {float(losses[-1]):.4f}")
    guesses = np.asarray(classify(params, images[test]))
    accuracy = float(np.mean(guesses == labels[test]))
    return accuracy, [float(x) for x in losses], (images[test], labels[test], guesses)


def main() -> None:
    """Train, report, draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", default="digits.png")
    options = parser.parse_args()
    start = time.perf_counter()
    accuracy, losses, shown = train(options.epochs)
    seconds = time.perf_counter() - start
    draw(options.out, losses, *shown)
    print(
        f"digits: {len(losses)} steps in {seconds:.1f} s, "
        f"loss {np.mean(losses[:20]):.3f} -> {np.mean(losses[-20:]):.5f}"
    )
    print(f"digits: picture in {options.out}")
    print(f"digits: accuracy on {len(shown[1])} held-out digits {accuracy:.4f}")
    if accuracy <= 0.96:
        sys.exit("digits: the accuracy should be above 0.96")


if __name__ == "__main__":
    main()
