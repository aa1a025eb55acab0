"""Which programs multiply matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.ir.analysis.products import has_products

X = np.ones((3, 3), np.float32)


def in_a_loop(x: Any) -> Any:
    return lax.scan(lambda c, _: (c @ x, None), x, None, length=2)[0]


def in_a_branch(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda x: x, lambda x: x @ x, x)


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x @ x, True),
        (lambda x: x + jnp.sin(x), False),
        (lambda x: lax.conv(x[None, None], x[None, None], (1, 1), "SAME"), True),
        (kiln.jit(lambda x: x @ x), True),
        (in_a_loop, True),
        (in_a_branch, True),
        (lambda x: lax.cond(x[0, 0] > 0, lambda x: x, lambda x: x + x, x), False),
    ],
)
def test_has_products(f: Any, expected: bool) -> None:
    assert has_products(kiln.make_jaxpr(f)(X).jaxpr) is expected
