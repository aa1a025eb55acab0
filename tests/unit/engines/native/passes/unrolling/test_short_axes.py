"""Short axes are unrolled, but not where positions along another one are asked."""

from __future__ import annotations

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln.engines.native.passes.unrolling.short_axes import FEWEST_OTHERS, MOST_WRITTEN
from tests.unit.engines.native.passes.agreement import agree, numbers


@pytest.mark.parametrize("rows", [FEWEST_OTHERS - 1, FEWEST_OTHERS])
@pytest.mark.parametrize("columns", [MOST_WRITTEN, MOST_WRITTEN + 1])
def test_positions_along_each_axis(rows: int, columns: int) -> None:
    def positions(x: np.ndarray) -> object:
        dear = jnp.abs(jnp.exp(x[:, :1] / 9)) * x
        return [f(dear, axis) for f in (jnp.argmax, jnp.argmin) for axis in (0, 1)]

    agree(positions, (numbers(rows, columns).astype(np.float32),))
