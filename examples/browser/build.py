"""A page that runs compiled functions in the browser: a reader of digits, and a wind tunnel.

Trains a network on scikit-learn's digits, compiles it and the simulation of `fluid.py` into one
WebAssembly module, and copies the page beside it. The page makes no requests but for these files.

    python examples/browser/build.py site
    python -m http.server --directory site
"""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path
from typing import Any

import fluid
import numpy as np
from sklearn.datasets import load_digits

import kiln
import kiln.numpy as jnp
from kiln import export, nn, random

HERE = Path(__file__).parent
PAGE = ("index.html", "page.mjs")
SIZES = (64, 64, 10)
EPOCHS, BATCH = 60, 64
Params = list[dict[str, Any]]


def scores(params: Params, images: Any) -> Any:
    """Return the scores of the ten digits for images of 8 x 8 numbers from 0 to 1."""
    *hidden, last = params
    for layer in hidden:
        images = nn.relu(images @ layer["w"] + layer["b"])
    return images @ last["w"] + last["b"]


def shifted(images: Any, key: Any) -> Any:
    """Return images that are moved by at most one cell, as those of visitors are."""
    moves = random.randint(key, (2,), -1, 2)
    return jnp.roll(images.reshape(-1, 8, 8), moves, (1, 2)).reshape(-1, 64)


@kiln.jit
def update(params: Params, speeds: Params, images: Any, labels: Any, key: Any) -> Any:
    """Return parameters and their speeds after a step of gradient descent with momentum."""

    def loss(params: Params) -> Any:
        logs = nn.log_softmax(scores(params, shifted(images, key)))
        return -jnp.mean(jnp.sum(logs * nn.one_hot(labels, 10), axis=-1))

    slopes = kiln.grad(loss)(params)
    speeds = kiln.tree.map(lambda s, g: 0.9 * s - 0.05 * g, speeds, slopes)
    return kiln.tree.map(jnp.add, params, speeds), speeds


def trained(epochs: int = EPOCHS) -> tuple[Params, float]:
    """Return parameters, and the part of the held-out digits that they read."""
    digits = load_digits()
    order = np.random.RandomState(0).permutation(len(digits.target))
    images, labels = digits.data[order].astype("f") / 16, digits.target[order].astype("i")
    held, rest = np.arange(300), np.arange(300, len(order))
    keys = random.split(random.key(0), len(SIZES))
    he = nn.initializers.he_normal()
    params = [
        {"w": he(key, shape, jnp.float32), "b": jnp.zeros(shape[1])}
        for key, shape in zip(keys, itertools.pairwise(SIZES), strict=False)
    ]
    speeds = kiln.tree.map(jnp.zeros_like, params)
    draw = np.random.RandomState(1)
    for epoch in range(epochs):
        draw.shuffle(rest)
        for i in range(0, len(rest) - BATCH + 1, BATCH):
            some = rest[i : i + BATCH]
            key = random.fold_in(keys[-1], epoch * len(rest) + i)
            params, speeds = update(params, speeds, images[some], labels[some], key)
    right = scores(params, images[held]).argmax(1) == labels[held]
    return params, float(right.mean())


def build(to: Path, epochs: int = EPOCHS) -> int:
    """Write the site to a folder; return its bytes."""
    params, accuracy = trained(epochs)

    def read(drawing: Any) -> Any:
        # As the data were made: how much of each 4 x 4 block of a 32 x 32 drawing is ink.
        blocks = drawing.reshape(8, 4, 8, 4).mean((1, 3))
        return nn.softmax(scores(params, blocks.reshape(1, 64)))[0]

    flow, solid = fluid.start(), np.zeros((fluid.ROWS, fluid.COLUMNS), np.uint8)
    functions = {
        "read": (read, np.zeros((32, 32), np.float32)),
        "start": (fluid.start,),
        "advance": (kiln.jit(fluid.advance, donate_argnums=0), flow, solid),
    }
    export.library(functions, name="site", path=to, target="wasm32")
    (to / "site.json").unlink()
    for file in PAGE:
        shutil.copy(HERE / file, to)
    total = sum(file.stat().st_size for file in to.iterdir())
    print(f"{accuracy:.1%} of held-out digits are read; {total:,} bytes in {to}")
    return total


if __name__ == "__main__":
    build(Path(sys.argv[1]))
