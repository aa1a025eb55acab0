"""What is said of scatters that do not fit; gathers are in test_indexing.py."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import ScatterDimensionNumbers

S = ScatterDimensionNumbers
OPERAND, INDICES, UPDATES = (50, 49, 48, 47, 46), (10, 9, 8, 7, 5), (10, 9, 8, 7, 3, 2, 4)


@pytest.mark.parametrize(
    ("numbers", "phrase"),
    [
        (S((4, 6, 5), (1, 2), (0, 1, 2, 3, 4)), "update_window_dims in scatter op must be sorted"),
        (S((4, 5, 5), (1, 2), (0, 1, 2, 3, 4)), "update_window_dims in scatter op must not repeat"),
        (S((4, 5, 7), (1, 2), (0, 1, 2, 3, 4)), "Invalid update_window_dims set in scatter op"),
        (S((4, 5, 6), (2, 1), (0, 1, 2, 3, 4)), "inserted_window_dims in .* must be sorted"),
        (S((4, 5, 6), (1, 1), (0, 1, 2, 3, 4)), "inserted_window_dims in .* must not repeat"),
        (S((4, 5, 6), (1, 5), (0, 1, 2, 3, 4)), "Invalid inserted_window_dims"),
        (S((4, 5, 6), (1, 2), (0, 1, 2, 3)), "has 4 elements in .* is 5. These two numbers"),
        (S((4, 5, 6), (1, 2), (0, 1, 2, 3, 9)), "Invalid scatter_dims_to_operand_dims mapping"),
        (S((4, 5, 6), (1, 2), (0, 1, 2, 2, 3)), "scatter_dims_to_operand_dims in .* not repeat"),
        (S((4, 5, 6), (1,), (0, 1, 2, 3, 4)), "has window of size 4; doesn't match operand of"),
        (S((4, 5, 6), (0, 1), (0, 1, 4), (3, 2)), "operand_batching_dims in .* must be sorted"),
        (S((4, 5, 6), (0, 1), (0, 1, 4), (2, 3, 3)), "operand_batching_dims in .* not repeat"),
        (S((4, 5, 6), (), (0, 1, 2, 3, 4), (0, 9)), "Invalid operand_batching_dims set"),
        (S((4, 5, 6), (0, 1), (0, 1, 4), (1, 2)), "inserted_window_dims and .* must be disjoint"),
        (S((4, 5, 6), (0, 1), (0, 1, 2, 4), (2, 3)), "scatter_dims_to.* and .* be disjoint"),
        (S((4, 5, 6), (0, 1), (0, 1, 2, 3, 4), (), (0, 0)), "scatter_indices_.* must not repeat"),
        (S((4, 5, 6), (0, 1), (0, 1, 2, 3, 4), (), (0, 5)), "Invalid scatter_indices_batching"),
        (S((4, 5, 6), (0, 1), (0, 1, 2, 3, 4), (), (0, 4)), "cannot have the index vector dim"),
    ],
)
def test_scatters_that_do_not_fit(numbers: Any, phrase: str) -> None:
    given = zip((OPERAND, INDICES, UPDATES), ("float32", "int32", "float32"), strict=True)
    with pytest.raises(TypeError, match=phrase):
        kiln.eval_shape(
            lambda x, i, u: ops.scatter(x, i, u, numbers),
            *(kiln.ShapeDtypeStruct(shape, dtype) for shape, dtype in given),
        )
