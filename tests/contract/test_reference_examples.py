"""The examples of the reference of `jit`, in both of its versions, print what stands there.

The first version draws with `PRNGKey`, the second with `key`. The page cuts every number after its
fifth digit, without rounding (0.59566766 stands there as 0.59566), and breaks long lines.
"""

from __future__ import annotations

import contextlib
import io
import re

import pytest

SELU = """
import kiln as jax

@jax.jit
def selu(x, alpha=1.67, lmbda=1.05):
  return lmbda * jax.numpy.where(x > 0, x, alpha * jax.numpy.exp(x) - alpha)

key = jax.random.{make}(0)
x = jax.random.normal(key, (10,))
print(selu(x))
"""
SELU_PRINTS = """
[-0.54485  0.27744 -0.29255 -0.91421 -0.62452 -0.24748
-0.85743 -0.78232  0.76827  0.59566 ]
"""

POWERS = """
import kiln as jax
import kiln.numpy as jnp
from functools import partial

@partial(jax.jit, static_argnames=['n'])
def g(x, n):
  for i in range(n):
    x = x ** 2
  return x

print(repr(g(jnp.arange(4), 3)))
"""
POWERS_PRINTS = "Array([   0,    1,  256, 6561], dtype=int32)\n"


def output_of(program: str) -> str:
    """Run a program and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "example.py", "exec"), {})
    return printed.getvalue()


@pytest.mark.parametrize("make", ["PRNGKey", "key"])
def test_selu(make: str) -> None:
    printed = output_of(SELU.format(make=make))
    cut = re.sub(r"(\.\d{5})\d*", r"\1", printed)
    assert cut.replace("]", " ]").split() == SELU_PRINTS.split()


def test_static_argnames() -> None:
    assert output_of(POWERS) == POWERS_PRINTS
