"""Reductions of sliding windows, cumulative ones among them, and their adjoints.

Padding and holes are skipped, as XLA does on CPUs; by the text of StableHLO's specification they
are initial values, which only makes a difference if these are not the identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.engines.xla.raising.bodies import Tree, expressions, operation_of_body
from kiln.engines.xla.raising.elementwise import is_bool
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, known
from kiln.engines.xla.stablehlo.operations import Operation, Region
from kiln.ir.sizes.size import as_dim
from kiln.ops.elements.elementwise import ge_p, le_p
from kiln.ops.reductions import cumulative, reduction
from kiln.ops.reductions.generic_window import reduce_window
from kiln.ops.reductions.window import select_and_scatter_add_p
from kiln.ops.reductions.window_geometry import Windows

_CUMULATIVE: dict[str, tuple[Primitive, Any]] = {
    "add": (cumulative.cumsum_p, lambda dtype: 0),
    "multiply": (cumulative.cumprod_p, lambda dtype: 1),
    "maximum": (cumulative.cummax_p, reduction.lowest),
    "minimum": (cumulative.cummin_p, reduction.highest),
}


_PAIR = (("argument", 0), ("argument", 1))
_SELECTIONS: dict[Tree, Primitive] = {
    ("GE", False, *_PAIR): ge_p,
    ("LE", False, *_PAIR): le_p,
}


def _windows(operation: Operation, rank: int) -> Windows:
    attributes, ones = operation.attributes, (1,) * rank
    padding = attributes.get("padding") or [[0, 0]] * rank
    ends: Any = tuple([(as_dim(low), as_dim(high)) for low, high in padding])
    return Windows(
        tuple(attributes.get("window_dimensions", ones)),
        tuple(attributes.get("window_strides", ones)),
        ends,
        tuple(attributes.get("base_dilations", ones)),
        tuple(attributes.get("window_dilations", ones)),
    )


def _reduce_window(r: Raiser, operation: Operation, *operands: Any) -> Any:
    count = len(operands) // 2
    arrays, starts = list(operands[:count]), list(operands[count:])
    aval = aval_of(arrays[0])
    windows = _windows(operation, aval.ndim)
    if count == 1:
        found = _running(operation.regions[0], arrays[0], starts[0], windows)
        if found is not None:
            return found
    body = r.body(operation.regions[0])

    def combined(accumulated: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        return body(*accumulated, *elements)

    return reduce_window(
        arrays,
        starts,
        combined,
        windows.dimensions,
        windows.strides,
        windows.padding,
        windows.base_dilation,
        windows.dilation,
    )


def _running(region: Region, x: Any, start: Any, windows: Windows) -> Any:
    """Return a cumulative reduction, if the windows are all elements up to, or from, each one."""
    row = _CUMULATIVE.get(operation_of_body(region) or "")
    value, aval = known(start), aval_of(x)
    if row is None or value is None or is_bool(x) or not windows.is_dense:
        return None
    primitive, identity = row
    if set(windows.strides) != {1} or value != identity(aval.dtype):
        return None
    axes = [i for i, size in enumerate(windows.dimensions) if size != 1]
    if len(axes) != 1 or windows.dimensions[axes[0]] != aval.shape[axes[0]]:
        return None
    (axis,) = axes
    if any(pad != (0, 0) for i, pad in enumerate(windows.padding) if i != axis):
        return None
    before = aval.shape[axis] - 1
    if windows.padding[axis] not in ((before, 0), (0, before)):
        return None
    return primitive.bind(x, axis=axis, reverse=windows.padding[axis] == (0, before))


def _select_and_scatter(r: Raiser, operation: Operation, x: Any, source: Any, start: Any) -> Any:
    select, scatter = operation.regions
    found = expressions(select, r.operation_of)
    primitive = _SELECTIONS.get(found[0]) if found else None
    windows = _windows(operation, aval_of(x).ndim)
    is_sum = operation_of_body(scatter) == "add" and known(start) == 0
    if primitive is None or not is_sum:
        raise NotRaised(
            "stablehlo.select_and_scatter that does not add to the largest or smallest elements "
            "has no counterpart in kiln"
        )
    return select_and_scatter_add_p.bind(
        source,
        x,
        select_prim=primitive,
        window_dimensions=windows.dimensions,
        window_strides=windows.strides,
        padding=windows.padding,
    )


RAISINGS: dict[str, Raising] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
