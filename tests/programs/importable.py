"""Functions that other processes import."""

from __future__ import annotations

import kiln
import kiln.numpy as jnp


def plain(x):
    return jnp.sum(x * x)


def powers(x, n):
    return x**n


@kiln.jit
def decorated(x):
    return plain(x) + 1


beside = kiln.jit(powers, static_argnums=1)
