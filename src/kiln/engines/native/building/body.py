"""The body of a function under construction: its buffers, and statements in order.

A value of the program is a `Layout` of a buffer, so operations that only rearrange elements cost
nothing. The axes of nests over one shape are the same objects, so that equal expressions of two
such nests are equal nodes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.engines.native.building.delayed import Delayed
from kiln.engines.native.building.element_types import (
    Complex,
    Scalar,
    holds_nothing,
    machine_type,
    part_dtype,
    parts_of,
)
from kiln.engines.native.loop_ir.addresses import element_offset, in_elements
from kiln.engines.native.loop_ir.extents import Grain
from kiln.engines.native.loop_ir.layout import Layout, dense
from kiln.engines.native.loop_ir.scalars import Scope, Value, cost
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Copy,
    Index,
    Kernel,
    Nest,
    Place,
    Reduce,
    Role,
    Statement,
    Store,
    load,
)
from kiln.ir.jaxpr import Literal
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray


class Body:
    """Adds nests, kernels and copies to a function, and makes the buffers that they work on."""

    def __init__(self) -> None:
        self.scope = Scope()
        self.body: list[Statement] = []
        self.recomputed: dict[Statement, int] = {}
        self.source: Any = None
        self._axes: dict[tuple[int, Dim], Axis] = {}
        self._axes_of: dict[tuple[Dim, ...], tuple[Axis, ...]] = {}
        self._elements: dict[Any, Index] = {}
        self._constants: dict[Any, Layout] = {}
        self._literals: dict[tuple[Any, np.dtype[Any]], Layout] = {}
        self._scalars: dict[tuple[Buffer, np.dtype[Any], int], Scalar] = {}
        self._numbers = 0
        self._delayed: dict[Buffer, Delayed] = {}
        self._delays = False
        self._depth = 0

    # Types and buffers.

    def sizes(self, aval: ShapedArray) -> tuple[Dim, ...]:
        """Return the sizes of a type; a call supplies those that are named."""
        return aval.shape

    def room(self, aval: ShapedArray, role: Role = Role.TEMP) -> Layout:
        """Return a new buffer for a value of a type."""
        aval = aval.physical()
        return self.space(self.sizes(aval), aval.dtype, role)

    def space(self, sizes: Sequence[Dim], dtype: np.dtype[Any], role: Role = Role.TEMP) -> Layout:
        """Return a new buffer of a shape and dtype."""
        count = 0 if holds_nothing(dtype) else math.prod(sizes) * (2 if dtype.kind == "c" else 1)
        self._numbers += 1
        buffer = Buffer(f"{role.value[0]}{self._numbers}", machine_type(dtype), count, role)
        return dense(buffer, sizes, dtype)

    def constant(self, value: Any, dtype: Any) -> Layout:
        """Return a constant's layout."""
        # NumPy makes a contiguous scalar an array of one element: use the shape of the value.
        shape, array = np.shape(value), np.ascontiguousarray(value, dtype)
        key = (array.dtype, shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self.space(shape, array.dtype, Role.CONST)
            found.buffer.value = array
            self._constants[key] = found
        return found

    def literal(self, x: Literal) -> Layout:
        """Return a literal's layout."""
        value, dtype = x.val, x.aval.dtype
        # Zeros have signs, which equality ignores.
        is_plain = type(value) in (int, float) and value != 0
        known = self._literals.get((value, dtype)) if is_plain else None
        if known is None:
            known = self.constant(np.asarray(value, dtype), dtype)
            if is_plain:
                self._literals[value, dtype] = known
        return known

    def number(self, x: Layout) -> Any:
        """Return the value of a constant scalar; None for other values."""
        value = x.buffer.value
        if value is None or value.size != 1:
            return None
        number = value.reshape(())[()]
        if x.dtype.kind == "c" or value.dtype.kind != "c":
            return number
        # Only a part of the number is read, but loop strides are multiples of the whole number.
        offset = x.offset.const if isinstance(x.offset, Index) else x.offset
        return number.imag if offset % value.dtype.itemsize else number.real

    # Nests.

    def axes(self, sizes: Sequence[Dim]) -> tuple[Axis, ...]:
        """Return the axes of nests over a shape."""
        shape = tuple(sizes)
        found = self._axes_of.get(shape)
        if found is None:
            found = self._axes_of[shape] = tuple([self.axis(d, n) for d, n in enumerate(shape)])
        return found

    def axis(self, depth: int, size: Dim) -> Axis:
        """Return the axis of a size at a depth of nests."""
        found = self._axes.get((depth, size))
        if found is None:
            found = self._axes[depth, size] = Axis(f"i{depth}", size)
        return found

    def fresh_axis(self, name: str, size: Dim) -> Axis:
        """Return a new axis."""
        self._numbers += 1
        return Axis(f"{name}{self._numbers}", size)

    def element(self, x: Layout, at: Sequence[Axis | Index]) -> Index:
        """Return the index of an element, in units of the buffer's elements."""
        item = part_dtype(x.dtype).itemsize
        # Values of one shape are read at the same indices.
        key = (x.offset, x.shape, x.strides, item, tuple(at))
        found = self._elements.get(key)
        if found is None:
            found = self._elements[key] = in_elements(element_offset(x, at), item)
        return found

    def read(self, x: Layout, at: Sequence[Axis | Index] = ()) -> Scalar:
        """Return the element at some axes, or indices; a scalar is broadcast."""
        if holds_nothing(x.dtype):
            return self.scope.constant(0, "i1")
        if x.buffer.role is Role.CONST and x.buffer.value.size == 1:
            return self._scalar(x)
        delayed = self._delayed.get(x.buffer)
        if delayed is not None:
            if (x is delayed.layout or x == delayed.layout) and (
                not x.shape or tuple(at) == delayed.axes
            ):
                return delayed.value
            self.settle(x)
        index = self.element(x, at if x.shape else ())
        if x.dtype.kind != "c":
            return load(self.scope, x.buffer, index)
        return Complex(load(self.scope, x.buffer, index), load(self.scope, x.buffer, index + 1))

    def _scalar(self, x: Layout) -> Scalar:
        """Return the constant scalar of a layout."""
        key = (x.buffer, x.dtype, x.offset)
        found = self._scalars.get(key)
        if found is None:
            known, kind = self.number(x), x.buffer.dtype
            if x.dtype.kind == "c":
                real, imag = (self.scope.constant(part, kind) for part in (known.real, known.imag))
                found = Complex(real, imag)
            else:
                found = self.scope.constant(known, kind)
            self._scalars[key] = found
        return found

    def stores(
        self, x: Layout, at: Sequence[Axis | Index], value: Scalar, mask: Value | None = None
    ) -> list[Store]:
        """Return the store of an element."""
        if holds_nothing(x.dtype):
            return []
        index = self.element(x, at)
        if isinstance(value, Complex):
            return [
                Store(x.buffer, index, value.re, mask),
                Store(x.buffer, index + 1, value.im, mask),
            ]
        return [Store(x.buffer, index, value, mask)]

    def nest(
        self,
        axes: Sequence[Axis],
        effects: Sequence[Store | Reduce],
        *,
        ordered: bool = False,
        lines: Mapping[Any, float] | None = None,
    ) -> None:
        """Add a loop nest, unless it has no points."""
        if effects and all(axis.size != 0 for axis in axes):
            made = Nest(axes, effects, ordered=ordered, source=self.source, lines=lines)
            self.body.append(made)

    def map(self, out: ShapedArray, function: Callable[..., Scalar], *operands: Layout) -> Layout:
        """Return a new value: a function of the operands element by element."""
        made = self.room(out)
        axes = self.axes(made.shape)
        delays, self._delays = self._delays, False
        value = function(*[self.read(x, axes) for x in operands])
        if delays:
            found = [self._delayed.get(x.buffer) for x in operands]
            parts = tuple([part for part in found if part is not None])
            count = 1 + sum([part.equations for part in parts])
            work = 1.0 + sum([cost(x) for x in parts_of(value)])
            made_of = Delayed(made, axes, value, self.source, work, parts, count)
            self._delayed[made.buffer] = made_of
        else:
            self.nest(axes, self.stores(made, axes, value))
        return made

    def settle(self, *values: Layout) -> None:
        """Add the statements that compute delayed values."""
        for x in values:
            delayed = self._delayed.pop(x.buffer, None)
            if delayed is not None:
                outer, self.source = self.source, delayed.source
                stores = self.stores(delayed.layout, delayed.axes, delayed.value)
                self.nest(delayed.axes, stores, lines=delayed.lines())
                self.source = outer

    def fill(self, made: Layout, value: Any) -> None:
        """Set all elements of a new value to a number."""
        self.write(made, self.constant(value, made.dtype))

    def write(self, to: Layout, x: Layout) -> None:
        """Copy elements; a scalar is broadcast."""
        axes = self.axes(to.shape)
        self.nest(axes, self.stores(to, axes, self.read(x, axes)))

    def dense(self, x: Layout) -> Layout:
        """Return a value whose elements are contiguous, copied if they are not."""
        if x.is_dense and x.buffer.role is not Role.CONST:
            return x
        made = self.space(x.shape, x.dtype)
        self.write(made, x)
        return made

    # Kernels.

    def place(self, x: Layout) -> Place:
        """Return the place of a dense value."""
        offset = x.offset if isinstance(x.offset, Index) else Index(x.offset)
        return Place(x.buffer, in_elements(offset, part_dtype(x.dtype).itemsize))

    def kernel(
        self,
        symbol: str,
        operands: Sequence[Layout],
        results: Sequence[Layout],
        numbers: Sequence[Dim],
        grain: int | Grain = 0,
    ) -> None:
        """Call a kernel on dense copies of the operands, with tasks of `grain` rows."""
        given = [self.place(self.dense(x)) for x in operands]
        made = [self.place(x) for x in results]
        self.body.append(Kernel(symbol, given, made, numbers, self.source, grain))

    def copy(self, to: Layout, x: Layout) -> None:
        """Copy a dense value to another of its size."""
        count = to.size * (2 if to.dtype.kind == "c" else 1)
        if count != 0 and not holds_nothing(to.dtype):
            self.body.append(Copy(self.place(x), self.place(to), count, self.source))

    @contextlib.contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Collect the statements that are added until the context exits."""
        outer, self.body = self.body, []
        self._depth += 1
        try:
            yield self.body
        finally:
            self.body = outer
            self._depth -= 1
