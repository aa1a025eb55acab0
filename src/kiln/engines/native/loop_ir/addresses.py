"""The addresses of a value's elements in its buffer, and the numbers of indices."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Scope, Value
from kiln.engines.native.loop_ir.statements import Axis, Index


def element_offset(x: Layout, at: Sequence[Axis | Index]) -> Index:
    """Return the offset of an element in bytes."""
    offset = x.offset if isinstance(x.offset, Index) else Index(x.offset)
    const, terms = offset.const, dict(offset.terms)
    for place, stride, size in zip(at, x.strides, x.shape, strict=True):
        if isinstance(place, Axis):
            if size != 1 and place.size != 1:
                terms[place] = terms.get(place, 0) + stride
        else:
            const += place.const * stride
            for term, factor in place.terms:
                terms[term] = terms.get(term, 0) + factor * stride
    return Index(const, [(term, factor) for term, factor in terms.items() if factor != 0])


def in_elements(index: Index, item: int) -> Index:
    """Return a number of bytes in units of elements of some size."""
    if item <= 1:
        return index
    return Index(index.const // item, [(t, f // item) for t, f in index.terms])


def position(scope: Scope, index: Index, dtype: str = "i64") -> Value:
    """Return the node that is the number of an index."""
    if not index.terms:
        return scope.constant(index.const, dtype)
    return scope.node("index", dtype, index.operands, index)
