"""Points beside a grid of bins, and on its edges."""

from __future__ import annotations

import numpy as np
import pytest

import kiln.numpy as jnp

POINTS = np.array(
    # Inside; beside one axis of three, each way; on the outermost edges; beside all.
    [
        *([0.1, 0.1, 0.1], [0.6, 0.2, 0.9]),
        *([1.5, 0.1, 0.1], [-0.5, 0.1, 0.1], [0.1, 1.5, 0.1], [0.1, -0.5, 0.1]),
        *([0.1, 0.1, 1.5], [0.1, 0.1, -0.5], [0.9, 0.9, 7.0], [0.9, 7.0, 0.9]),
        *([0, 0, 0], [1, 1, 1], [0, 1, 0.5], [9, 9, 9], [-9, -9, -9]),
    ],
    np.float32,
)


@pytest.mark.parametrize("bins", [2, (2, 3, 4)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_points_beside_the_grid_are_in_no_bin(bins: int | tuple[int, ...], rank: int) -> None:
    points, each = POINTS[:, -rank:], bins if isinstance(bins, int) else bins[:rank]
    ranges = [(0.0, 1.0)] * rank
    found, _ = jnp.histogramdd(points, each, ranges)
    expected, _ = np.histogramdd(points, each, ranges)
    np.testing.assert_array_equal(found, expected)
