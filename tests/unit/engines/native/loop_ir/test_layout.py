"""Layouts say where NumPy's views would lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.engines.native.loop_ir.layout import VIEWS, dense
from kiln.ops import shape
from kiln.ops.indexing import static_slicing


@pytest.mark.parametrize(
    ("primitive", "params"),
    [
        (shape.transpose_p, {"permutation": (2, 0, 1)}),
        (shape.rev_p, {"dimensions": (0, 2)}),
        (shape.reshape_p, {"new_sizes": (3, 1, 8), "dimensions": None}),
        (shape.broadcast_in_dim_p, {"shape": (5, 2, 3, 4), "broadcast_dimensions": (1, 2, 3)}),
        (
            static_slicing.slice_p,
            {"start_indices": (1, 0, 1), "limit_indices": (2, 3, 4), "strides": (1, 2, 1)},
        ),
    ],
)
def test_views(primitive: Any, params: dict[str, Any]) -> None:
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    found = VIEWS[primitive](dense(0, x.shape, x.dtype), **params)
    assert found is not None
    view = np.ndarray(
        found.shape, x.dtype, x.reshape(-1).view(np.uint8), found.offset, found.strides
    )
    np.testing.assert_array_equal(view, primitive.numpy(x, **params))
    assert found.is_dense == view.flags.c_contiguous


def test_what_is_dense() -> None:
    x = dense(0, (2, 3), np.dtype(np.float32))
    assert x.is_dense and x.strides == (12, 4) and x.nbytes == 24
    turned = VIEWS[shape.transpose_p](x, permutation=(1, 0))
    assert turned is not None and not turned.is_dense
    assert VIEWS[shape.reshape_p](turned, new_sizes=(6,)) is None
    assert dense(0, (), np.dtype(np.float32)).spread((2, 2)).strides == (0, 0)
    empty = dense(0, (0, 3), np.dtype(np.float32))
    assert empty.is_dense and VIEWS[shape.rev_p](empty, dimensions=(0,)) is None
