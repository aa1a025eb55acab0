"""Scans over references."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
@pytest.mark.parametrize("reverse", [False, True])
def test_each_step_has_its_row(through: Any, reverse: bool) -> None:
    ref = kiln.new_ref(jnp.arange(6.0).reshape(3, 2))

    def step(total: Any, xs: Any) -> Any:
        row, x = xs["row"], xs["x"]
        row[0] = total
        return total + row[1] * x, row[1]

    @through
    def run(ref: Any) -> Any:
        return lax.scan(step, 0.0, {"row": ref, "x": jnp.ones(3)}, reverse=reverse)

    total, ys = run(ref)
    assert float(total) == 9
    assert ys.tolist() == [1, 3, 5]
    assert ref[...].tolist() == ([[8, 1], [5, 3], [0, 5]] if reverse else [[0, 1], [1, 3], [4, 5]])


def test_a_body_that_returns_no_pair_is_named() -> None:
    with pytest.raises(TypeError, match="pair"):
        lax.scan(lambda c, x: c, 0.0, kiln.new_ref(jnp.ones(3)))
