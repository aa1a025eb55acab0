"""A model that leaves Python: run this file with the name of a folder.

It classifies points of the plane by a network that is trained here, for any number of points.
"""

from __future__ import annotations

import sys

import kiln
import kiln.numpy as jnp
from kiln import export


def scores(params, x):
    """Return the scores of two classes for each point."""
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"]


def loss(params, x, label):
    """Return the cross entropy."""
    logs = kiln.nn.log_softmax(scores(params, x))
    return -jnp.mean(jnp.where(label, logs[:, 1], logs[:, 0]))


@kiln.jit
def step(params, x, label):
    """Return the parameters after a step of gradient descent."""
    return kiln.tree.map(lambda p, g: p - g, params, kiln.grad(loss)(params, x, label))


def trained():
    """Learn which points are inside the unit circle."""
    keys = kiln.random.split(kiln.random.key(0), 3)
    x = kiln.random.uniform(keys[0], (512, 2), minval=-2, maxval=2)
    params = {
        "w": kiln.random.normal(keys[1], (2, 16)),
        "b": jnp.zeros(16),
        "v": kiln.random.normal(keys[2], (16, 2)) / 4,
    }
    for _ in range(500):
        params = step(params, x, (x**2).sum(1) < 1)
    return params


PARAMS = trained()


def predict(x):
    """Return the probability that each point is inside the circle."""
    return kiln.nn.softmax(scores(PARAMS, x))[:, 1]


if __name__ == "__main__":
    points = kiln.ShapeDtypeStruct(export.symbolic_shape("n, 2"), "float32")
    made = export.library(predict, points, name="circle", path=sys.argv[1])
    print(f"{made.files['libcircle.so']} bytes, {made.constant_bytes} of them weights")
