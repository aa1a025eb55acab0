"""Masked and out-of-bounds reads and writes of references.

A window that starts at a traced position may extend out of bounds. Windows of arrays are clamped in
that case; here the elements keep their positions, and those out of bounds are undefined when read,
and dropped when written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import api_boundary
from kiln.control.references.index import Index, Part, Span, of_each_axis, window
from kiln.control.references.primitives import get_p, write_part
from kiln.control.references.refs import swap as swap_part
from kiln.control.references.views import Place, place_of
from kiln.core.ref import Ref, RefView
from kiln.core.trace import aval_of
from kiln.experimental.pallas.blocks import undefined
from kiln.numpy.promotion import broadcast_to
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import select, sub
from kiln.ops.indexing.slicing import dynamic_slice
from kiln.ops.indexing.static_slicing import pad
from kiln.ops.shape import reshape


@api_boundary
def load(ref: Ref | RefView, idx: Any = None, *, mask: Any = None, other: Any = None) -> Any:
    """Return a window of a reference, with `other` where the mask is false.

    Without `other`, these elements are undefined, as are those out of bounds.

    Raises: the errors of `kiln.ref.get`.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> ref, i = kiln.new_ref(jnp.arange(5)), jnp.int32(3)
        >>> pl.load(ref, pl.ds(i, 4), mask=i + jnp.arange(4) < 5, other=0)
        Array([3, 4, 0, 0], dtype=int32)
    """
    place = place_of(ref, idx)
    found = _Window.of(place)
    x = (ref[idx] if idx is not None else ref[...]) if found is None else found.read()
    if mask is None or other is None:
        return x
    mask = broadcast_to(mask, x.shape)
    return select(mask, x, broadcast_to(convert_element_type(other, x.dtype), x.shape))


@api_boundary
def store(ref: Ref | RefView, idx: Any, val: Any, *, mask: Any = None) -> None:
    """Write a window of a reference where the mask is true; writes out of bounds are dropped.

    Raises: the errors of `kiln.ref.set`.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> ref = kiln.new_ref(jnp.zeros(4))
        >>> pl.store(ref, pl.ds(jnp.int32(2), 3), jnp.ones(3), mask=jnp.arange(3) > 0)
        >>> ref
        Ref([0., 0., 0., 1.], dtype=float32)
    """
    place = place_of(ref, idx)
    found = _Window.of(place)
    if found is not None:
        found.write(val, mask)
    elif mask is None:
        ref[... if idx is None else idx] = val
    else:
        _store_at(ref, idx, place, val, mask)


@api_boundary
def swap(ref: Ref | RefView, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Do `store`, and return the previous elements; where the mask is false, those of `val`.

    Raises: the errors of `kiln.ref.swap`.
    """
    if mask is None and _Window.of(place_of(ref, idx)) is None:
        return swap_part(ref, idx, val)
    before = load(ref, idx, mask=mask, other=val if mask is not None else None)
    store(ref, idx, val, mask=mask)
    return before


def _store_at(ref: Ref | RefView, idx: Any, place: Place, val: Any, mask: Any) -> None:
    shaped = [i for i, x in enumerate(place.arrays) if aval_of(x).shape]
    entries = of_each_axis(place.part, place.ref.ndim)
    if len(place.arrays) != len(entries) or not shaped:
        before = ref[... if idx is None else idx]
        mask = broadcast_to(mask, before.shape)
        value = broadcast_to(convert_element_type(val, before.dtype), before.shape)
        ref[... if idx is None else idx] = select(mask, value, before)
        return
    # Elements out of bounds are dropped, so that none is written twice.
    arrays: list[Any] = list(jnp.broadcast_arrays(*place.arrays))
    beyond: Any = place.ref.shape[0]
    arrays[0] = jnp.where(mask, arrays[0], beyond)
    value = broadcast_to(convert_element_type(val, place.ref.dtype), arrays[0].shape)
    write_part(place.ref, value, place.part, arrays)


class _Window(NamedTuple):
    """A window that may extend out of bounds: the requested position, and the clamped one.

    `sizes` are those of the window along each axis, `lost` how much of it is out of bounds.
    """

    ref: Ref
    starts: list[Any]
    sizes: list[int]
    kept: tuple[int, ...]
    lost: list[Any]

    @classmethod
    def of(cls, place: Place) -> _Window | None:
        """Return the window of an index if it starts at a traced position, otherwise None."""
        ref, index, arrays = place
        entries = of_each_axis(index, ref.ndim)
        if not any(isinstance(entry, Span) for entry in entries):
            return None
        found = window(ref.shape, index, arrays)
        if found is None or any(size > n for size, n in zip(found[1], ref.shape, strict=True)):
            return None
        starts, sizes = found
        moved: list[Any] = list(starts)
        lost: list[Any] = [np.int32(0)] * len(starts)
        for axis, (entry, size) in enumerate(zip(entries, sizes, strict=True)):
            if isinstance(entry, Span):
                moved[axis] = jnp.clip(starts[axis], 0, ref.shape[axis] - size)
                lost[axis] = sub(starts[axis], moved[axis])
        kept = [
            size
            for size, entry in zip(sizes, entries, strict=True)
            if isinstance(entry, (Part, Span))
        ]
        return cls(ref, moved, sizes, tuple(kept), lost)

    @property
    def part(self) -> Index:
        """The index of the clamped window; the starts are its arrays."""
        return tuple([Span(size, 1) for size in self.sizes])

    def read(self) -> Any:
        """Return the window; elements out of bounds are undefined."""
        inside = get_p.bind(self.ref, *self.starts, index=self.part)
        filling = undefined((), self.ref.dtype)
        return reshape(self._shifted(inside, filling, forward=True), self.kept)

    def write(self, val: Any, mask: Any) -> None:
        """Write the window where the mask is true; elements out of bounds are dropped."""
        value = broadcast_to(convert_element_type(val, self.ref.dtype), self.kept)
        chosen = broadcast_to(True if mask is None else mask, self.kept)
        shape = tuple(self.sizes)
        value = self._shifted(reshape(value, shape), undefined((), self.ref.dtype), forward=False)
        chosen = self._shifted(reshape(chosen, shape), np.False_, forward=False)
        before = get_p.bind(self.ref, *self.starts, index=self.part)
        write_part(self.ref, select(chosen, value, before), self.part, self.starts)

    def _shifted(self, x: Any, filling: Any, *, forward: bool) -> Any:
        """Shift the elements of a window by its distance out of bounds."""
        shifted = [type(lost) is not np.int32 for lost in self.lost]
        if not any(shifted):
            return x
        edges, starts = [], []
        for size, lost, is_shifted in zip(self.sizes, self.lost, shifted, strict=True):
            room = size if is_shifted else 0
            edges.append((0, room, 0) if forward else (room, 0, 0))
            starts.append(lost if forward else sub(np.int32(room), lost))
        wide = pad(x, filling, edges)
        return dynamic_slice(wide, starts, self.sizes, allow_negative_indices=False)
