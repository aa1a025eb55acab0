"""Adam, for the examples: trees of parameters in, trees of parameters out.

    state = adam.init(params)
    params, state = adam.update(params, grads, state, rate=1e-3)

Source: Kingma and Ba (2015), Adam: a method for stochastic optimization, algorithm 1
"""

from __future__ import annotations

from typing import Any

import kiln
import kiln.numpy as jnp

State = tuple[Any, Any, Any]
"""The number of steps taken, and the running means of the gradients and of their squares."""


def init(params: Any) -> State:
    """Return the state before the first step."""
    return jnp.int32(0), *(kiln.tree.map(jnp.zeros_like, params) for _ in range(2))


def update(
    params: Any,
    grads: Any,
    state: State,
    rate: Any = 1e-3,
    decay: tuple[float, float] = (0.9, 0.999),
) -> tuple[Any, State]:
    """Take one step against the gradients; `rate` may differ from step to step."""
    first, second = decay
    step, mean, square = state
    step = step + 1
    mean = kiln.tree.map(lambda m, g: first * m + (1 - first) * g, mean, grads)
    square = kiln.tree.map(lambda s, g: second * s + (1 - second) * g * g, square, grads)
    # Both means start at zero and are too small at first.
    scale = rate * jnp.sqrt(1 - second**step) / (1 - first**step)
    params = kiln.tree.map(
        lambda p, m, s: p - scale * m / (jnp.sqrt(s) + 1e-8), params, mean, square
    )
    return params, (step, mean, square)
