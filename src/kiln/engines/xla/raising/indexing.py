"""gather and the scatters.

StableHLO's gather clamps indices, and its scatter drops windows out of bounds: that is what kiln's
do in the modes CLIP and FILL_OR_DROP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.trace import aval_of
from kiln.engines.xla.raising.bodies import operation_of_body
from kiln.engines.xla.raising.elementwise import is_bool, is_complex
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ir.sizes.size import Dim
from kiln.ops.elements.families import neg_p
from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import (
    CLIP,
    FILL_OR_DROP,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from kiln.ops.shape import reshape, transpose

_SCATTERS = {
    "": ops.scatter_p,
    "add": ops.scatter_add_p,
    "subtract": ops.scatter_add_p,
    "multiply": ops.scatter_mul_p,
    "minimum": ops.scatter_min_p,
    "maximum": ops.scatter_max_p,
}
_ON_BOOLS = {"or": "add", "and": "multiply"}


def _indices(x: Any, axis: int, along: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Return indices with the coordinates on the last axis, and the batching axes' numbers."""
    rank = aval_of(x).ndim
    if axis == rank:
        return reshape(x, (*aval_of(x).shape, 1)), along
    if axis == rank - 1:
        return x, along
    order = [*[i for i in range(rank) if i != axis], axis]
    return transpose(x, order), tuple([i - (i > axis) for i in along])


def _gather(r: Raiser, operation: Operation, x: Any, indices: Any) -> Any:
    return gather(operation, x, indices, operation.attributes["slice_sizes"])


def gather(operation: Operation, x: Any, indices: Any, sizes: Sequence[Dim]) -> Any:
    """Return slices of some sizes, whose places and axes an operation says."""
    found, attributes = operation.attributes["dimension_numbers"], operation.attributes
    indices, along = _indices(
        indices, found.get("index_vector_dim", 0), found.get("start_indices_batching_dims", ())
    )
    numbers = GatherDimensionNumbers(
        found.get("offset_dims", ()),
        found.get("collapsed_slice_dims", ()),
        found.get("start_index_map", ()),
        found.get("operand_batching_dims", ()),
        along,
    )
    return ops.gather_p.bind(
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=tuple(sizes),
        indices_are_sorted=bool(attributes.get("indices_are_sorted", False)),
        unique_indices=False,
        mode=CLIP,
        fill_value=None,
    )


def _scatter(r: Raiser, operation: Operation, *operands: Any) -> Any:
    if len(operands) != 3:
        raise NotRaised("stablehlo.scatter of several arrays at once has no counterpart in kiln")
    x, indices, updates = operands
    attributes = operation.attributes
    found = attributes["scatter_dimension_numbers"]
    indices, along = _indices(
        indices, found.get("index_vector_dim", 0), found.get("scatter_indices_batching_dims", ())
    )
    numbers = ScatterDimensionNumbers(
        found.get("update_window_dims", ()),
        found.get("inserted_window_dims", ()),
        found.get("scatter_dims_to_operand_dims", ()),
        found.get("input_batching_dims", ()),
        along,
    )
    name = operation_of_body(operation.regions[0], picks=1)
    if is_bool(x):
        name = _ON_BOOLS.get(name or "", name)
    primitive = None if name is None else _SCATTERS.get(name)
    if primitive is None or (name in ("minimum", "maximum") and is_complex(x)):
        raise NotRaised(
            "stablehlo.scatter that combines elements by anything but +, -, *, min, max has no "
            "counterpart in kiln"
        )
    if name == "subtract":
        updates = neg_p.bind(updates)
    return primitive.bind(
        x,
        indices,
        updates,
        dimension_numbers=numbers,
        indices_are_sorted=bool(attributes.get("indices_are_sorted", False)),
        unique_indices=bool(attributes.get("unique_indices", False)),
        mode=FILL_OR_DROP,
    )


RAISINGS: dict[str, Raising] = {"stablehlo.gather": _gather, "stablehlo.scatter": _scatter}
