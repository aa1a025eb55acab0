"""Sums and products whose order of terms depends only on their number.

Programs with the option `batch_invariant` use them instead of nests, which passes may split,
reorder or vectorize with another width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kiln.engines.native.building.builder import Builder
from kiln.engines.native.building.by_kernel import share_rows
from kiln.engines.native.building.element_types import numpy_type, part_dtype
from kiln.engines.native.building.kernel_calls import kernel_call
from kiln.engines.native.loop_ir.layout import Layout, dense
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.engines.native.lowerings.linear.matrices import arranged
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray


def folded(
    b: Builder, primitive: Operation, out: ShapedArray, x: Layout, axes: Sequence[int], wide: str
) -> Layout:
    """Return the sum or the product of floats over axes, computed in the machine type `wide`.

    The parts of complex numbers are reduced separately.
    """
    dtype = numpy_type(wide)
    if x.dtype.kind != "c" and x.dtype != dtype:
        x = b.map(ShapedArray(x.shape, dtype), lambda v: convert(v, dtype), x)
    kept = [d for d in range(len(x.shape)) if d not in axes]
    before = [d for d in kept if d < min(axes)]
    after = kept[len(before) :]
    if [*before, *axes, *after] != list(range(len(x.shape))):
        x = arranged(b, x, [*kept, *axes])
        before, after = list(range(len(kept))), []
        axes = range(len(kept), len(x.shape))
    made = b.space(b.sizes(out), x.dtype)
    outer, size = (math.prod(x.shape[d] for d in group) for group in (before, axes))
    inner = math.prod(x.shape[d] for d in range(len(x.shape) - len(after), len(x.shape)))
    parts = 2 if x.dtype.kind == "c" else 1
    given = _as_parts(b.dense(x), (outer, size, inner * parts))
    result = _as_parts(made, (outer, inner * parts))
    call = kernel_call(
        primitive.name,
        [ShapedArray(given.shape, given.dtype)],
        [ShapedArray(result.shape, result.dtype)],
        {"axes": (1,)},
    )
    assert call is not None
    share_rows(b, call, [given], [result])
    if made.dtype == out.dtype:
        return made
    return b.map(out, lambda v: convert(v, out.dtype), made)


def _as_parts(x: Layout, shape: Sequence[object]) -> Layout:
    """Return a dense value as floats of another shape."""
    dtype: np.dtype[np.generic] = part_dtype(x.dtype)
    return dense(x.buffer, tuple(shape), dtype).moved(x.offset)
