"""Operations that create, arrange, slice and join arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.trace import aval_of
from kiln.engines.xla.raising.elementwise import converted
from kiln.engines.xla.raising.raiser import Raiser, Raising
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops import shape as ops
from kiln.ops.counting import iota_p
from kiln.ops.indexing import static_slicing
from kiln.ops.indexing.slicing import dynamic_slice_p, dynamic_update_slice_p


def _aval(operation: Operation) -> ShapedArray:
    aval = operation.types[0]
    assert isinstance(aval, ShapedArray)
    return aval


def _broadcast_in_dim(r: Raiser, operation: Operation, x: Any) -> Any:
    return broadcast(x, _aval(operation).shape, operation.attributes["broadcast_dimensions"])


def broadcast(x: Any, shape: Sequence[Dim], places: Sequence[int]) -> Any:
    """Return an array whose axes are at some places of a shape, and repeated along the others."""
    shape = tuple(shape)
    own = aval_of(x).shape
    # StableHLO also repeats axes of size 1.
    repeated = [i for i, at in enumerate(places) if own[i] == 1 and shape[at] != 1]
    if repeated:
        x = ops.squeeze_p.bind(x, dimensions=tuple(repeated))
        places = [at for i, at in enumerate(places) if i not in repeated]
    if list(places) != sorted(places):
        order = tuple(int(i) for i in np.argsort(places))
        x = ops.transpose_p.bind(x, permutation=order)
        places = [places[i] for i in order]
    if aval_of(x).shape == shape:
        return x
    return ops.broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=tuple(places))


def _reshape(r: Raiser, operation: Operation, x: Any) -> Any:
    return reshaped(x, _aval(operation).shape)


def reshaped(x: Any, shape: Sequence[Dim]) -> Any:
    """Return an array in another shape."""
    if aval_of(x).shape == tuple(shape):
        return x
    return ops.reshape_p.bind(x, new_sizes=tuple(shape), dimensions=None)


def _transpose(r: Raiser, operation: Operation, x: Any) -> Any:
    return ops.transpose_p.bind(x, permutation=tuple(operation.attributes["permutation"]))


def _reverse(r: Raiser, operation: Operation, x: Any) -> Any:
    return ops.rev_p.bind(x, dimensions=tuple(operation.attributes["dimensions"]))


def _iota(r: Raiser, operation: Operation) -> Any:
    aval = _aval(operation)
    axis = operation.attributes["iota_dimension"]
    return iota_p.bind(dtype=aval.dtype, shape=aval.shape, dimension=axis)


def _slice(r: Raiser, operation: Operation, x: Any) -> Any:
    attributes = operation.attributes
    return static_slicing.slice(
        x, attributes["start_indices"], attributes["limit_indices"], attributes["strides"]
    )


def _pad(r: Raiser, operation: Operation, x: Any, value: Any) -> Any:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    config = tuple(zip(*[operation.attributes[name] for name in names], strict=True))
    return static_slicing.pad_p.bind(x, value, padding_config=config)


def _concatenate(r: Raiser, operation: Operation, *xs: Any) -> Any:
    if len(xs) == 1:
        return xs[0]
    return static_slicing.concatenate_p.bind(*xs, dimension=operation.attributes["dimension"])


def _starts(starts: tuple[Any, ...]) -> list[Any]:
    # kiln's starts are signed, or unsigned of one dtype: both are clamped alike.
    return [converted(x, aval_of(starts[0]).dtype) for x in starts]


def _dynamic_slice(r: Raiser, operation: Operation, x: Any, *starts: Any) -> Any:
    sizes = tuple(operation.attributes["slice_sizes"])
    return dynamic_slice_p.bind(x, *_starts(starts), slice_sizes=sizes) if starts else x


def _dynamic_update_slice(
    r: Raiser, operation: Operation, x: Any, update: Any, *starts: Any
) -> Any:
    return dynamic_update_slice_p.bind(x, update, *_starts(starts)) if starts else update


RAISINGS: dict[str, Raising] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.reverse": _reverse,
    "stablehlo.iota": _iota,
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
}
